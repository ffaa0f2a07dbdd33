"""Networks in which everyone has a link to everyone, whose ends notice what happens at moments of their own."""

from functools import partial

from antecast.testing import Bench
from antecast.testing.judging import order_faults

MS, SECOND = 10**6, 10**9
DELAY, SKEW = 20 * MS, 50 * MS


class Mesh:
    """A bench, and what it takes to keep it a mesh while nodes come and go."""

    def __init__(self, nodes, *, protocol, seed=0, loss=0.0, strict=True, **settings):
        self.bench = Bench(
            protocol, seed=seed, loss=loss, settings=settings, watch=not strict, strict=strict,
            delay=lambda draw: draw.randrange(DELAY + 1),
        )  # fmt: skip
        self.moment = partial(self.bench.random.randrange, SKEW + 1)
        for node in range(nodes):
            self.join(node)

    def _meet_everyone(self, node):
        for other in list(self.bench.nodes.keys() - {node}):
            self.open(node, other)

    def open(self, a, b):
        """A new link, though the end of the old one may never have been noticed."""
        self.bench.link(a, b, notice=(self.moment(), self.moment()))

    def close(self, a, b):
        self.bench.unlink(a, b, notice=(self.moment(), self.moment()))

    def join(self, node):
        self.bench.start(node)
        self._meet_everyone(node)

    def crash(self, node):
        """The others notice one by one."""
        if node in self.bench.nodes:
            self.bench.crash(node, notice=self.moment)

    def recover(self, node):
        if node in self.bench.saved:
            self.bench.recover(node)
            self._meet_everyone(node)

    def leave(self, node):
        """Gone for good, and its state with it."""
        self.crash(node)
        self.bench.saved.pop(node, None)

    def heal(self):
        """All that can come back does, and every two are linked anew."""
        self.bench.run(SKEW)
        self.bench.wiring.loss = 0.0
        for node in sorted(self.bench.saved):
            self.recover(node)
        self.bench.run(SKEW)
        nodes = sorted(self.bench.nodes)
        for index, a in enumerate(nodes):
            for b in nodes[:index]:
                self.open(a, b)

    def assert_alive(self, patience, nodes=None):
        """After a while without change, what any of these nodes broadcasts next is delivered by all of them."""
        bench = self.bench
        bench.run(4 * patience)
        nodes = sorted(bench.nodes) if nodes is None else nodes
        fresh = [bench.broadcast(node) for node in nodes]
        bench.run(4 * patience)
        for node in nodes:
            missing = [name for name in fresh if name not in bench.delivered[node]]
            assert not missing, f"node {node} never delivers {missing}"

    def assert_order(self):
        assert not list(order_faults(self.bench.log, fifo=True, causal=True))
