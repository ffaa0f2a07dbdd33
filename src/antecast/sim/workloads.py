"""Workloads: who broadcasts when. Each sender draws from streams of its own."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from antecast.core import InputError, Message
from antecast.sim.delays import sampler
from antecast.sim.host import Host
from antecast.sim.scenario import Scenario
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream
from antecast.sim.workload_kinds import LARGEST_PAYLOAD, At, Chatter, Once, Periodic, Poisson, Trace
from antecast.traces.origin import find_origin

_SECOND = 10**9

_LATEST = 1 << 32
"""Seconds, 136 years: the latest time that a list of broadcasts may name."""

_RARE = 1e300
"""Nanoseconds between broadcasts that never come: floating point holds that many, and some more."""

_Broadcast: TypeAlias = tuple[int, bytes, int | None]
"""Who broadcasts what, and for how long."""


class Workloads:
    """Schedules the broadcasts of a scenario, and answers deliveries where it says so."""

    def __init__(self, scenario: Scenario, scheduler: Scheduler, hosts: dict[int, Host]) -> None:
        self._scenario = scenario
        self._scheduler = scheduler
        self._hosts = hosts
        self._payloads: dict[int, bytes] = {}
        self._on_arrival: list[Periodic] = []
        self._answerers: list[Callable[[Host, Message[Any]], None]] = []
        for index, workload in enumerate(scenario.workload):
            if isinstance(workload, Chatter):
                self._answerers.append(self._answerer(workload, index))

    @property
    def on_deliver(self) -> Callable[[Host, Message[Any]], None] | None:
        """What to call for each delivery, or None when nobody answers."""
        if not self._answerers:
            return None
        if len(self._answerers) == 1:
            return self._answerers[0]
        return self._all_answer

    def _all_answer(self, host: Host, message: Message[Any]) -> None:
        for answer in self._answerers:
            answer(host, message)

    def start(self) -> None:
        scenario = self._scenario
        for index, workload in enumerate(scenario.workload):
            match workload:
                case Periodic(after_arrival=int()):
                    self._on_arrival.append(workload)
                case Periodic() | Poisson() | Once():
                    until = scenario.duration if workload.until is None else workload.until
                    everyone = scenario.members if workload.senders is None else workload.senders
                    for node in everyone:
                        stream = Stream(scenario.seed, "workload", index, node)
                        what = (node, self._payload(workload.payload), workload.lifetime)
                        self._next((broadcast_times(workload, until, stream), what))
                case At(broadcasts=broadcasts):
                    for each in broadcasts:
                        what = (each.node, self._payload(each.payload), each.lifetime)
                        self._scheduler.at(int(each.t), self._broadcast, what)
                case Trace(file=file):
                    rows = list(read_broadcasts(Path(file), scenario.total_nodes))
                    origin = origin_of(scenario, [t for t, _, _ in rows])
                    for t, node, payload in rows:
                        self._scheduler.at(t - origin, self._broadcast, (node, self._payload(payload), None))

    def arrived(self, host: Host) -> None:
        """A node has appeared: start what it does from then on."""
        for workload in self._on_arrival:
            if workload.senders is None or host.node in workload.senders:
                assert workload.after_arrival is not None
                at = self._scheduler.now + workload.after_arrival
                self._scheduler.at(at, self._tick, (host, host.arrivals, workload))

    def _tick(self, what: tuple[Host, int, Periodic]) -> None:
        host, arrival, workload = what
        now = self._scheduler.now
        until = self._scenario.duration if workload.until is None else workload.until
        if host.up and host.arrivals == arrival and workload.start <= now < until:
            host.broadcast(self._payload(workload.payload), workload.lifetime)
            self._scheduler.at(now + max(1, workload.every), self._tick, what)

    def _payload(self, size: int) -> bytes:
        return self._payloads.setdefault(size, bytes(size))

    def _broadcast(self, what: _Broadcast) -> None:
        node, payload, lifetime = what
        host = self._hosts.get(node)
        if host is not None and host.up:
            host.broadcast(payload, lifetime)

    def _next(self, sender: tuple[Iterator[int], _Broadcast]) -> None:
        """Schedule a sender's next broadcast; one at a time, so that the queue stays small."""
        at = next(sender[0], None)
        if at is not None:
            self._scheduler.at(at, self._fire, sender)

    def _fire(self, sender: tuple[Iterator[int], _Broadcast]) -> None:
        self._broadcast(sender[1])
        self._next(sender)

    def _answerer(self, chatter: Chatter, index: int) -> Callable[[Host, Message[Any]], None]:
        """Each of the other nodes answers with the same chance; nobody answers itself."""
        scenario, scheduler = self._scenario, self._scheduler
        below = int(chatter.answers / max(1, len(scenario.members) - 1) * 2**64)
        until = scenario.duration if chatter.until is None else chatter.until
        senders = None if chatter.senders is None else frozenset(chatter.senders)
        payload = self._payload(chatter.payload)
        streams: dict[int, Stream] = {}
        assert not isinstance(chatter.delay, str)
        draw = None if chatter.delay is None else sampler(chatter.delay, scheduler)

        def answer(host: Host, message: Message[Any]) -> None:
            node = host.node
            if message.origin == node or not chatter.start <= scheduler.now <= until:
                return
            if senders is not None and node not in senders:
                return
            stream = streams.get(node)
            if stream is None:
                stream = streams[node] = Stream(scenario.seed, "answer", index, node)
            if stream.bits() >= below:
                return
            if draw is None:
                host.answer(payload, chatter.lifetime)
            else:
                what = (node, payload, chatter.lifetime)
                scheduler.at(scheduler.now + draw(stream), self._broadcast, what)

        return answer


def broadcast_times(workload: Periodic | Poisson | Once, until: int, stream: Stream) -> Iterator[int]:
    """The instants of one sender's broadcasts."""
    if isinstance(workload, Once):
        t = workload.start + sampler(workload.at)(stream)
        if t < until:
            yield t
    elif isinstance(workload, Periodic):
        interval = max(1, workload.every)
        t = workload.start + (stream.below(interval) if workload.stagger else 0)
        while t < until:
            yield t
            t += interval
    else:
        mean = min(_SECOND / workload.rate, _RARE)
        t = workload.start + round(mean * stream.exponential())
        while t < until:
            yield t
            t += round(mean * stream.exponential())


def origin_of(scenario: Scenario, times: list[int]) -> int:
    """Time 0 of the run on the clock of a list of broadcasts: that of the nodes' trace, if they share a clock; its
    own start, if the run would be over before it."""
    first, last = min(times, default=0), max(times, default=0)
    origin, _ = scenario.trace_origin()
    if origin:
        return origin if first >= origin else 0
    return find_origin(first, last) if first > scenario.duration else 0


def read_broadcasts(path: Path, nodes: int) -> Iterator[tuple[int, int, int]]:
    """Rows (t in ns, node, payload) of a CSV file with a header `t,node[,payload]`. Times are read exactly:
    seconds since 1970 with nanoseconds have more digits than floating-point numbers."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if not {"t", "node"} <= set(reader.fieldnames or ()):
                raise InputError(
                    "expected a header with the columns t,node and, if wanted, payload", path=path, line=1
                )
            for row in reader:
                try:
                    seconds, node = Decimal(row["t"]), int(row["node"])
                    payload = int(row.get("payload") or 64)
                    if not (0 <= seconds <= _LATEST and 0 <= node < nodes and 0 <= payload <= LARGEST_PAYLOAD):
                        raise ValueError
                except (TypeError, ValueError, ArithmeticError):
                    problem = f"expected seconds, a node from 0 to {nodes - 1} and a payload size, got {row}"
                    raise InputError(problem, path=path, line=reader.line_num) from None
                yield round(seconds * _SECOND), node, payload
    except UnicodeDecodeError as error:
        raise InputError(f"not a text file in UTF-8 (byte {error.start})", path=path) from None
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=path) from None
