"""Algorithm 2 of "A Communication-Efficient Causal Broadcast Protocol", line by line: whole vector clocks,
scans of all pending messages, the recursive trees. For tests of the real one.

Two lines as read: the messages of a packet are taken in one by one, and the message that set the others free
comes last in a packet.
"""

from test_protocols_vcube_trees import children_by_algorithm_1, clusters_by_definition


class Node:
    def __init__(self, i, dimension, *, aggregate=True):
        self.i, self.d, self.aggregate = i, dimension, aggregate
        self.clock = [0] * 2**dimension
        self.max = [0] * 2**dimension
        self.pending = []
        self.delivered = []

    def children(self, r, h):
        return children_by_algorithm_1(self.i, r, h)

    def broadcast(self):
        self.clock[self.i] += 1
        self.max[self.i] = self.clock[self.i]
        message = (self.i, tuple(self.clock))
        self.delivered.append(message)
        return [(k, [message]) for k in self.children(self.i, self.d)]

    def receive(self, packet, j):
        sends = []
        height = next(s for s in range(1, self.d + 1) if j in clusters_by_definition(self.i, s)) - 1
        for m in packet:
            self.pending.append(m)
            while any(vc[s] == self.max[s] + 1 for s, vc in self.pending):
                s = next(s for s, vc in self.pending if vc[s] == self.max[s] + 1)
                self.max[s] += 1
            for k in self.children(self.i, height):
                together = self.check_agg(k, m) if self.aggregate else [m]
                if together:
                    sends.append((k, together))
            self.check_delivery()
        return sends

    def check_agg(self, k, m):
        s, vc = m
        together = [
            other
            for other in self.pending
            if k in self.children(other[0], self.d)
            and other[1][s] >= vc[s]
            and not any(
                count > self.max[source] and k in self.children(source, self.d)
                for source, count in enumerate(other[1])
            )
        ]
        return [other for other in together if other != m] + [m] * (m in together)

    def check_delivery(self):
        while ready := next((m for m in self.pending if self.deliverable(*m)), None):
            self.clock[ready[0]] += 1
            self.delivered.append(ready)
            self.pending.remove(ready)

    def deliverable(self, s, vc):
        return all(count <= self.clock[k] + (k == s) for k, count in enumerate(vc)) and vc[s] == self.clock[s] + 1
