"""A test bench for the cellular protocol: stations in a random tree, wires that keep order, and a radio that
loses, delays and reorders; hosts that move, crash, join and leave at random. Small, fast, and judged at the
end.

A run is a function of its plan. Times are milliseconds.
"""

from __future__ import annotations

import heapq
import random
import sys
from dataclasses import dataclass, field, replace
from itertools import count

import msgspec
import pyarrow as pa

from antecast.core import Accepted, CancelTimer, Deliver, Discard, Send, SetTimer, Transmit
from antecast.history.oracle import judge
from antecast.protocols import specification

MS = 10**6


@dataclass(frozen=True)
class Plan:
    """What happens in a run."""

    seed: int = 0
    stations: int = 3
    hosts: int = 4
    loss: float = 0.3
    burst: float = 0.0
    """Share of the time in which a cell's radio loses everything, in spells."""
    radio_delay: int = 300
    """The longest a radio frame takes: frames overtake each other."""
    wire_delay: int = 200
    wire_delay_at_rest: int | None = None
    """The same once peace has come, if it differs: a handoff that is broken off sooner than frames cross the wires
    never ends."""
    duration: int = 6000
    broadcasts: int = 25
    moves: int = 8
    pairs: int = 4
    """Moves that come in the middle of another one, back again or on."""
    crashes: int = 3
    joins: int = 2
    leaves: int = 1
    outages: int = 2
    """Hosts that are in no cell for a while."""
    sleeps: int = 0
    """Hosts that neither hear nor are heard for a while, and do not know it."""
    answers: float = 0.2
    settings: dict = field(default_factory=dict)


class Bench:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)
        self.spec = specification("cellular")
        quick = {"retransmit": "400ms", "retransmit_least": "100ms", "ack": "150ms", "connect": "200ms"}
        self.settings = self.spec.configure({"evict": 0, **quick, **plan.settings})
        self.wire_delay = plan.wire_delay
        self.now = 0
        self.queue = []
        self.counter = count()
        self.stations = [100 + index for index in range(plan.stations)]
        self.nodes = {station: self.spec.make_station(station, self.settings) for station in self.stations}
        self.wires = {}
        self.timers = {}
        self.cell = {}
        self.wanted = {}
        self.saved = {}
        self.log = []
        self.broadcasts = {}
        self.delivered = {}
        self.discarded = {}
        self.gone = set()
        self.quiet_until = {station: [] for station in self.stations}
        self.clean = False
        self.asleep = set()
        for index in range(1, plan.stations):
            a, b = self.stations[index], self.stations[self.random.randrange(index)]
            for one, other in ((a, b), (b, a)):
                self.wires[one, other] = 0
                self.perform(one, self.nodes[one].link_up(other, 0))

    # Time.

    def at(self, time, action, *arguments):
        heapq.heappush(self.queue, (time, next(self.counter), action, arguments))

    def run(self, until):
        while self.queue and self.queue[0][0] <= until:
            self.now, _, action, arguments = heapq.heappop(self.queue)
            action(*arguments)
        self.now = until

    # Effects.

    def perform(self, node, effects):
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    arrives = self.now + self.random.randint(1, max(1, self.wire_delay))
                    arrives = self.wires[node, to] = max(arrives, self.wires[node, to])
                    self.at(arrives, self.receive, to, self.copy(frame), node)
                case Transmit(frame=frame):
                    self.transmit(node, frame)
                case Deliver(message=message):
                    name = (message.origin, message.seq)
                    self.log.append(("deliver", node, name, self.now))
                    self.delivered[node].append(name)
                    if self.random.random() < self.plan.answers / self.plan.hosts and not self.clean:
                        self.broadcast(node)
                case SetTimer(token=token, at=at):
                    stamp = next(self.counter)
                    self.timers[node, token] = stamp
                    self.at(max(self.now, -(-at // MS)), self.fire, node, token, stamp)
                case CancelTimer(token=token):
                    self.timers.pop((node, token), None)
                case Discard(id=name):
                    self.discarded[node].add(tuple(name))
                case Accepted():
                    pass
                case _:
                    raise AssertionError(effect)

    def copy(self, frame):
        """What a wire would carry: an encoding that is read again."""
        return self.spec.make(0, self.settings).codec.decode(self.spec.make(0, self.settings).codec.encode(frame))

    def transmit(self, node, frame):
        station = node if node in self.stations else self.cell[node]
        heard = [host for host, cell in self.cell.items() if cell == node] if node == station else [station]
        for to in heard:
            if self.asleep & {node, to} or self.lost(station):
                continue
            copies = 1 + (self.random.random() < 0.05)
            for _ in range(copies):
                arrives = self.now + self.random.randint(1, max(1, self.plan.radio_delay))
                self.at(arrives, self.receive, to, frame, node)

    def lost(self, station):
        if any(start <= self.now < end for start, end in self.quiet_until[station]) and not self.clean:
            return True
        return self.random.random() < self.plan.loss

    def receive(self, node, frame, sender):
        if node in self.nodes:
            self.perform(node, self.nodes[node].receive(frame, sender, self.now * MS))

    def fire(self, node, token, stamp):
        if self.timers.get((node, token)) == stamp and node in self.nodes:
            del self.timers[node, token]
            self.perform(node, self.nodes[node].timer(token, self.now * MS))

    # Hosts.

    def enter(self, host, station):
        self.nodes[host] = self.spec.make(host, self.settings)
        self.delivered.setdefault(host, [])
        self.discarded.setdefault(host, set())
        self.move(host, station)

    def move(self, host, station):
        """To a station, or out of reach of all."""
        self.wanted[host] = station
        if host not in self.nodes or self.nodes[host].left:
            return
        before = self.cell.pop(host, None)
        if before is not None:
            self.perform(host, self.nodes[host].link_down(before, self.now * MS))
        if station is not None:
            self.cell[host] = station
            self.perform(host, self.nodes[host].link_up(station, self.now * MS))

    def crash(self, host):
        if host not in self.nodes or self.nodes[host].left:
            return
        self.saved[host] = msgspec.msgpack.encode(self.nodes[host].snapshot())
        del self.nodes[host]
        self.cell.pop(host, None)
        for key in [key for key in self.timers if key[0] == host]:
            del self.timers[key]

    def recover(self, host):
        if host not in self.saved or host in self.nodes:
            return
        node = self.nodes[host] = self.spec.make(host, self.settings)
        node.restore(msgspec.msgpack.decode(self.saved.pop(host), strict=False))
        self.move(host, self.wanted[host])

    def leave(self, host):
        if host in self.nodes:
            self.gone.add(host)
            self.perform(host, self.nodes[host].leave(self.now * MS))

    def broadcast(self, host):
        if host not in self.nodes or host in self.gone:
            return
        effects = self.nodes[host].broadcast(b"x", self.now * MS)
        name = next(tuple(effect.id) for effect in effects if isinstance(effect, Accepted))
        self.log.append(("broadcast", host, name, self.now))
        self.broadcasts[name] = self.now
        self.perform(host, effects)

    # A random run.

    def play(self):
        """Everything of the plan, then peace, a last round of broadcasts, and rest."""
        plan, draw = self.plan, self.random
        hosts = list(range(plan.hosts))
        for host in hosts:
            self.enter(host, draw.choice(self.stations))
        while not all(self.nodes[host].established for host in hosts):
            self.run(self.now + 500)
        start = self.now

        def when():
            return start + draw.randrange(plan.duration)

        for _ in range(plan.broadcasts):
            self.at(when(), self.broadcast, draw.choice(hosts))
        for _ in range(plan.moves):
            self.at(when(), self.move, draw.choice(hosts), draw.choice(self.stations))
        for _ in range(plan.pairs):
            host, t = draw.choice(hosts), when()
            self.at(t, self.move, host, draw.choice(self.stations))
            for _ in range(draw.randint(1, 3)):
                t += draw.randint(1, 600)
                self.at(t, self.move, host, draw.choice(self.stations))
        for _ in range(plan.crashes):
            host, t = draw.choice(hosts), when()
            self.at(t, self.crash, host)
            self.at(t + draw.randint(1, 2500), self.recover, host)
        for _ in range(plan.outages):
            host, t = draw.choice(hosts), when()
            self.at(t, self.move, host, None)
            self.at(t + draw.randint(1, 2500), self.move, host, draw.choice(self.stations))
        for _ in range(plan.sleeps):
            host, t = draw.choice(hosts), when()
            self.at(t, self.asleep.add, host)
            self.at(t + draw.randint(500, 12_000), self.asleep.discard, host)
        for index in range(plan.joins):
            joiner, t = plan.hosts + index, when()
            self.at(t, self.enter, joiner, draw.choice(self.stations))
            for _ in range(3):
                self.at(t + draw.randint(1, 2000), self.move, joiner, draw.choice(self.stations))
            self.at(t + draw.randint(1, 3000), self.broadcast, joiner)
        for _ in range(plan.leaves):
            self.at(when(), self.leave, draw.choice(hosts))
        for station in self.stations:
            t = start
            while plan.burst and t < start + plan.duration:
                off = draw.randint(50, 1500)
                on = round(off * (1 - plan.burst) / plan.burst)
                self.quiet_until[station].append((t + on, t + on + off))
                t += on + off
        self.run(start + plan.duration + 3000)
        self.clean = True
        self.asleep.clear()
        if plan.wire_delay_at_rest is not None:
            self.wire_delay = plan.wire_delay_at_rest
        for host in sorted(self.saved):
            self.recover(host)
        for host, station in list(self.wanted.items()):
            if station is None:
                self.move(host, draw.choice(self.stations))
        self.run(self.now + 60_000)
        for host in sorted(self.alive()):
            self.broadcast(host)
        self.run(self.now + 60_000)
        return self

    def alive(self):
        return {host for host in self.nodes if host not in self.stations and host not in self.gone}

    # Judgement.

    def faults(self):
        """What is wrong with the run, in words."""
        return [*self.order_faults(), *self.missing_faults(), *self.rest_faults()]

    def order_faults(self):
        """What the happened-before oracle finds in the log."""
        rows = [
            {"node": node, "pos": pos, "t": t, "kind": kind, "origin": name[0], "seq": name[1]}
            for pos, (kind, node, name, t) in enumerate(self.log)
        ]
        if not rows:
            return []
        verdict = judge(pa.Table.from_pylist(rows), clock="global")
        faults = [f"{node.node} delivered {tuple(m[1:])} twice" for node, _, m in sorted(verdict.duplicates)]
        faults += [f"{node.node} delivered {tuple(m[1:])} too early" for node, m in sorted(verdict.early)]
        faults += [f"{node.node} delivered {tuple(m[1:])}, never broadcast" for node, _, m in verdict.unknown]
        faults += [f"{m[1:]} came before it was broadcast" for _, _, m in verdict.before_broadcast]
        return faults

    def missing_faults(self):
        faults = []
        initial = range(self.plan.hosts)
        lost = set().union(*self.discarded.values())
        must = {name for name in self.broadcasts if name[0] not in self.gone and name not in lost}
        must |= set().union(*(self.delivered[host] for host in self.alive())) - lost
        for host in self.alive():
            got = set(self.delivered[host])
            if host in initial and not self.settings.evict and (missing := must - got):
                faults.append(f"{host} never delivered {sorted(missing)[:3]} of {len(must)}")
            elif missing := {name for name in must if self.broadcasts[name] > self.now - 60_000} - got:
                faults.append(f"{host} never delivered {sorted(missing)[:3]} of the last round")
            for origin in {name[0] for name in got if not self.settings.evict}:
                numbers = sorted(seq for o, seq in got if o == origin)
                if numbers[-1] - numbers[0] + 1 != len(numbers):
                    faults.append(f"{host} delivered {numbers} of {origin}: there is a gap")
        return faults

    def rest_faults(self):
        faults = []
        held = {}
        for station in self.stations:
            node = self.nodes[station]
            if node.gauges()["station_sent_buffer"]:
                faults.append(f"station {station} keeps {node.gauges()['station_sent_buffer']} messages")
            if node.searching:
                faults.append(f"station {station} waits for echoes")
            for host, record in node.records.items():
                held.setdefault(host, []).append(station)
                if not record.held:
                    faults.append(f"station {station} is stuck with a handoff of {host}")
        for host in self.alive():
            if held.pop(host, []) != [self.cell[host]]:
                faults.append(f"host {host} is not held by its own station alone")
            if not self.nodes[host].established:
                faults.append(f"host {host} is not established")
            if any(self.nodes[host].gauges().values()):
                faults.append(f"host {host} keeps messages: {self.nodes[host].gauges()}")
        faults += [f"{host} has gone and is still held by {stations}" for host, stations in held.items()]
        faults += [
            f"{host} could not leave" for host in self.gone if host in self.nodes and not self.nodes[host].left
        ]
        return faults


def random_plan(seed, **settings):
    """A plan with some of everything, drawn from a seed."""
    draw = random.Random(seed)
    return Plan(
        seed=seed,
        stations=draw.randint(2, 5),
        hosts=draw.randint(2, 6),
        loss=draw.choice([0.0, 0.1, 0.3, 0.5]),
        burst=draw.choice([0.0, 0.2, 0.4]),
        radio_delay=draw.choice([50, 300, 1000]),
        wire_delay=draw.choice([50, 300, 1000]),
        broadcasts=draw.randint(5, 40),
        moves=draw.randint(0, 20),
        pairs=draw.randint(0, 15),
        crashes=draw.randint(0, 6),
        joins=draw.randint(0, 6),
        leaves=draw.randint(0, 2),
        outages=draw.randint(0, 6),
        settings=settings,
    )


def hasty_plan(seed):
    """Hosts that are given up within moments, and sessions forgotten as soon as a radio frame is gone for sure."""
    draw = random.Random(seed)
    plan = random_plan(
        seed,
        evict=draw.choice(["1500ms", "3s", "4s", "10s"]),
        forget=draw.choice(["1100ms", "3s", "1min"]),
        handoff=draw.choice(["5s", "30s"]),
        window=draw.choice([3, 150]),
    )
    changes = {"duration": draw.choice([6000, 12_000]), "outages": draw.randint(0, 12)}
    return replace(plan, sleeps=draw.choice([0, 0, 2, 6]), **changes)


def impatient_plan(seed):
    """Handoffs that are broken off while their frames are still on the wires, and begun again: the same host is
    offered to the same station several times."""
    draw = random.Random(seed)
    evict = draw.choice([0, 0, "3s", "10s"])
    plan = random_plan(seed, evict=evict, handoff=draw.choice(["200ms", "500ms", "1s", "2s"]))
    delay, joins = draw.choice([300, 1000, 2000]), draw.randint(0, 2)
    return replace(plan, wire_delay=delay, wire_delay_at_rest=draw.choice([10, delay]), joins=joins)


def goes_wrong(plan):
    """Whether a run breaks a promise; a protocol that raises has broken one too."""
    try:
        return bool(Bench(plan).play().faults())
    except Exception:
        return True


def main(runs=400):
    """How many of the same random runs go wrong, by our rules and by each printed rule."""
    from antecast.protocols.cellular import Rule

    bad = sum(goes_wrong(hasty_plan(seed)) for seed in range(runs))
    print(f"ours, hosts given up early: {bad} of {runs}", flush=True)
    bad = sum(goes_wrong(impatient_plan(seed)) for seed in range(runs))
    print(f"ours, handoffs broken off early: {bad} of {runs}", flush=True)
    for published in ([], *([rule] for rule in Rule)):
        bad = sum(goes_wrong(random_plan(seed, published=published)) for seed in range(runs))
        print(f"{published[0] if published else 'ours'}: {bad} of {runs}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
