"""A small network of honest nodes and one hostile neighbour: the stage of the fuzzer, and its judge.

A play is a list of steps: frames of the hostile node, and between them broadcasts of the others, time that
passes, links to the hostile node that come and go. The same steps on the same stage always give the same play,
so one that shows a fault can be cut down to the steps that matter.

What counts as a fault:

- `receive` neither returns nor raises `RemoteFault`, or takes too long;
- a refused frame has changed something; a frame from a peer without a link was taken;
- after the hostile node has gone, the honest nodes do not all deliver what they have broadcast, before, during
  and after, exactly once and in the promised order (where little is kept: what they broadcast after a while).
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from antecast.core import Frame, MessageId, NodeId, RemoteFault
from antecast.protocols.registry import Guarantee, Need, Specification
from antecast.testing.driver import Bench
from antecast.testing.frames import claims, entries, name_of, simpler
from antecast.testing.judging import order_faults
from antecast.testing.record import Event
from antecast.testing.timing import ContractBroken
from antecast.testing.wiring import Flight

HOSTILE, NOBODY = 9, 77
STATIONS = (100, 101)
HOSTILE_STATION = 109
SECOND = 10**9
REST = 90 * SECOND
"""How long the honest nodes have to come to rest after an attack: longer than every patience, on both links (a
held message is dropped after three of ten seconds)."""

AFTERWARDS = 3 * SECOND
"""How long they are watched after everything has arrived: nothing may come twice."""

STEP_SECONDS, REST_SECONDS = 1.0, 20.0
"""Limits of CPU time, for a single step and for the rest after the last one."""

Verb: TypeAlias = Literal["frame", "broadcast", "wait", "transfer", "link", "unlink"]


_encoded = msgspec.msgpack.Encoder().encode


class Step(NamedTuple):
    verb: Verb
    sender: int = 0
    """The sender of a frame; for other verbs the node, or the time to wait."""
    to: NodeId = 0
    data: bytes = b""


class Fault(Exception):
    """The protocol does not withstand what was done to it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class Hang(BaseException):
    """A step has used up its time; not an `Exception`, so that nothing on the way swallows it."""


@dataclass(frozen=True)
class Stage:
    """Who is there before the first step, and how they are linked."""

    spec: Specification
    settings: dict[str, object] = field(default_factory=dict)
    attached: tuple[NodeId, ...] = (0,)
    """The nodes that the hostile node has a link to; in cells, the station in whose cell it is."""
    role: Literal["peer", "host", "station"] = "peer"

    @property
    def cells(self) -> bool:
        return self.role != "peer"

    @property
    def needs(self) -> frozenset[Need]:
        return self.spec.needs(self.spec.configure(self.settings))

    @property
    def honest(self) -> tuple[NodeId, ...]:
        return (0, 1, 2)

    @property
    def targets(self) -> tuple[NodeId, ...]:
        """Whom a frame of the hostile node can reach."""
        if self.role == "peer":
            return self.attached
        return STATIONS[:1] if self.role == "station" else (STATIONS[0], 0, 1)

    @property
    def hostile(self) -> NodeId:
        return HOSTILE_STATION if self.role == "station" else HOSTILE

    @property
    def lives(self) -> bool:
        """Whether honest nodes must deliver everything in the end. A member that does not pass on what it should
        is a failed one: where none may fail, nothing is promised."""
        return Need.STATIC_MEMBERS not in self.needs

    @property
    def keeps_all(self) -> bool:
        """Whether nodes keep everything of a play. Where they keep little, what a hostile node made others miss
        may be given up, and with it what depends on it; only what comes after must arrive."""
        settings = self.spec.configure(self.settings)
        return all(getattr(settings, name, None) in (None, 10_000) for name in ("retain", "capacity"))

    def links(self) -> list[tuple[NodeId, NodeId]]:
        if self.cells:
            return [STATIONS]
        return [(0, 1), (1, 2), (0, 2)] if Need.COMPLETE_GRAPH in self.needs else [(0, 1), (1, 2)]

    def open(self, **options: Any) -> Bench:
        """The network, in which everyone has broadcast once."""
        stations = STATIONS if self.cells else ()
        bench = Bench(
            self.spec, nodes=self.honest, stations=stations, strangers=[self.hostile], settings=self.settings,
            strict=False, **options,
        )  # fmt: skip
        for a, b in self.links():
            bench.link(a, b)
        if self.cells:
            for host, station in zip(self.honest, (STATIONS[0], STATIONS[0], STATIONS[1]), strict=True):
                bench.move(host, station)
            bench.run(5 * SECOND)
        for node in self.attached:
            self._attach(bench, node)
        bench.transfer()
        for node in self.honest:
            bench.broadcast(node)
            bench.transfer()
        return bench

    def _attach(self, bench: Bench, node: NodeId) -> None:
        if self.role == "host":
            bench.move(self.hostile, node)
        else:
            bench.link(self.hostile, node)


class Play:
    """A stage on which steps are carried out."""

    def __init__(self, stage: Stage, *, forge: bool = False) -> None:
        self.stage, self._forge = stage, forge
        self.lies: set[Step] = set()
        """Frames that claimed messages which honest nodes had not broadcast or, where a base is believed, which
        were on their way to the node."""
        self.sent: list[Frame] = []
        """What honest nodes have sent: each frame once, to whomever it went."""
        self._heard: set[bytes] = set()
        self._genuine: set[bytes] = set()
        self._broadcasts: Counter[NodeId] = Counter()
        self._counted = 0
        self._told: dict[tuple[object, ...], Any] = {}
        with _watched("start", REST_SECONDS):
            self.bench = stage.open(on_send=self._overhear)
        self.codec = self.bench.nodes[0].codec
        self.frames: Counter[str] = Counter()
        """Frames of the hostile node, by type; also counts of `refused` and `malformed`."""

    def _overhear(self, flight: Flight) -> None:
        frame = flight.frame
        data = _encoded(frame)
        if data not in self._heard:
            self._heard.add(data)
            self.sent.append(frame)
            self._genuine |= {_encoded(entry) for entry in entries(frame)}

    def _lies(self, frame: Frame) -> bool:
        """Whether it holds a message in the name of an honest node, or another one under a name used before. Steps
        that were left out can turn a copy into such a lie."""
        for entry in entries(frame):
            if _encoded(entry) in self._genuine:
                continue
            if entry.origin in self.stage.honest or self._told.setdefault(name_of(entry), entry) != entry:
                return True
        return False

    def do(self, step: Step) -> None:
        bench = self.bench
        with _watched(step.verb, STEP_SECONDS if step.verb == "frame" else REST_SECONDS):
            match step.verb:
                case "frame":
                    self._frame(step)
                case "broadcast":
                    bench.broadcast(step.sender)
                case "wait":
                    bench.run(step.sender)
                case "transfer":
                    bench.transfer()
                case "link":
                    self.stage._attach(bench, step.to)
                case "unlink":
                    self._detach(step.to)

    def _detach(self, node: NodeId) -> None:
        if self.stage.role == "host":
            self.bench.move(self.stage.hostile, None)
        else:
            self.bench.unlink(self.stage.hostile, node)

    def _frame(self, step: Step) -> None:
        bench = self.bench
        try:
            frame = self.codec.decode(step.data)
        except RemoteFault:
            self.frames["malformed"] += 1
            return
        if not self._forge and self._lies(frame):
            return
        self.frames[type(frame).__name__] += 1
        if not self._forge and (self.tells_of_more(frame) or self._forestalls(frame, step.to)):
            self.lies.add(step)
        refused = bench.refused[step.to]
        bench.watch = True
        bench.inject(step.sender, step.to, frame)
        bench.watch = False
        if bench.refused[step.to] > refused:
            self.frames["refused"] += 1
        elif not self.stage.cells and step.sender not in bench.links[step.to]:
            raise Fault("no link", f"node {step.to} took {type(frame).__name__} from a peer without a link")

    def tells_of_more(self, frame: Frame) -> bool:
        """Whether a frame without messages claims more of an honest node's messages than there are."""
        if entries(frame):
            return False
        for event in islice(self.bench.log, self._counted, None):
            self._broadcasts[event.id.origin] += event.kind == "broadcast"
        self._counted = len(self.bench.log)
        return any(
            number > self._broadcasts[source] for source, number in claims(frame) if source in self.stage.honest
        )

    def _forestalls(self, frame: Frame, to: NodeId) -> bool:
        """Whether a base names messages that are on their way to a node, which believes that it missed them."""
        if not (self.stage.spec.trusts_bases and hasattr(frame, "base")):
            return False
        delivered = self.bench.delivered[to]
        return any(
            MessageId(source, number) not in delivered
            for source, number in claims(frame)
            if source in self.stage.honest and number
        )

    def _rest(self) -> None:
        """Until everyone has everything, and some time for what should not come; at the longest for `REST`."""
        bench, honest = self.bench, self.stage.honest
        sent = {event.id for event in bench.log if event.kind == "broadcast" and event.node in honest}
        for _ in range(REST // AFTERWARDS - 1):
            bench.run(AFTERWARDS)
            if all(sent.issubset(bench.delivered[node]) for node in honest):
                break
        bench.run(AFTERWARDS)

    def end(self) -> None:
        """The hostile node leaves; everyone broadcasts again; who lacks what?"""
        bench, honest = self.bench, self.stage.honest
        with _watched("rest", REST_SECONDS):
            for node in self.stage.attached:
                self._detach(node)
            bench.run(REST)
            for node in honest:
                bench.broadcast(node)
                bench.run(SECOND)
            self._rest()
            last = {name for node in honest if (name := bench.broadcast(node))}
            self._rest()
        if self.stage.role == "station":  # it decides what its hosts get
            return
        log = [event for event in bench.log if event.id.origin in honest and event.node in honest]
        promised = self.stage.spec.guarantees
        for problem in order_faults(log, fifo=Guarantee.FIFO in promised, causal=Guarantee.CAUSAL in promised):
            raise Fault("order", problem)
        for problem in order_faults(self._all_delivered(), fifo=False, causal=Guarantee.CAUSAL in promised):
            raise Fault("order", problem)
        due = {event.id for event in log if event.kind == "broadcast"} if self.stage.keeps_all else last
        for node in honest if self.stage.lives else ():
            missing = sorted(due - set(bench.delivered[node]))
            if missing:
                names = ", ".join(map(str, missing[:4]))
                raise Fault("lost", f"node {node} never delivered {names} of {len(due)}")

    def _all_delivered(self) -> Iterator[Event]:
        """The log of the honest nodes with the messages of others, as if each had been broadcast, without a past,
        when it was first delivered. What an honest node broadcasts then depends on it, whoever made it."""
        known: set[MessageId] = set()
        for event in self.bench.log:
            if event.node in self.stage.honest:
                if event.kind != "broadcast" and event.id not in known:
                    yield Event("broadcast", event.id.origin, event.id, event.t)
                known.add(event.id)
                yield event


@contextmanager
def _watched(what: str, seconds: float) -> Iterator[None]:
    """Turn whatever escapes from a step into a fault, and end it when it takes too long."""
    main = threading.current_thread() is threading.main_thread()
    if main:
        before = signal.signal(signal.SIGPROF, _out_of_time)
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except Fault:
        raise
    except Hang:
        raise Fault("hang", f"a {what} took more than {seconds:g} s of CPU time") from None
    except ContractBroken as error:
        raise Fault(error.kind, str(error)) from error
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}:{where.name}"
        raise Fault("crash", f"{type(error).__name__} in {place}: {error}") from error
    finally:
        if main:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)


def _out_of_time(*_: object) -> None:
    raise Hang


def play(stage: Stage, steps: Sequence[Step], *, forge: bool = False, excuse: bool = False) -> Fault | None:
    """The fault that steps lead to, if they do. With `excuse`, one that is the protocol's."""
    performance = None
    try:
        performance = Play(stage, forge=forge)
        for step in steps:
            performance.do(step)
        if not forge:
            performance.end()
    except Fault as fault:
        if excuse and performance and is_excused(stage, steps, performance.lies, fault.kind):
            return None
        return fault
    return None


def is_excused(stage: Stage, steps: Sequence[Step], lies: set[Step], kind: str) -> bool:
    """Whether the harm was done by what a node cannot tell from the truth.

    *Lost*: the claim that messages which an honest node is still to broadcast, or which are on their way, are
    gone, told to a node that believes it (`trusts_bases`); of those still to be broadcast, where neither does harm
    alone, also together with a message that waits for them.
    *Order*: messages of honest nodes passed on in another order, where they carry nothing that tells
    (`trusts_order`); a base that leaves out what its messages depend on, together with a message that waits for
    it, where neither does harm alone (`trusts_closure`).
    """
    codec = stage.spec.make(0, stage.spec.fit(stage.spec.configure(stage.settings), len(stage.honest))).codec

    def origins(step: Step) -> set[NodeId]:
        try:
            return {each.origin for each in entries(codec.decode(step.data))} if step.verb == "frame" else set()
        except RemoteFault:
            return set()

    def harmless(left_out: Callable[[Step], bool]) -> bool:
        return play(stage, [step for step in steps if not left_out(step)]) is None

    if kind == "order" and stage.spec.trusts_order:
        return harmless(lambda step: not origins(step).isdisjoint(stage.honest))
    if kind == "order" and stage.spec.trusts_closure:
        return harmless(lambda step: bool(origins(step))) and harmless(
            lambda step: step.verb == "frame" and not origins(step)
        )
    if kind != "lost" or not harmless(lies.__contains__):
        return False
    return stage.spec.trusts_bases or harmless(lambda step: bool(origins(step)))


def shorten(stage: Stage, steps: Sequence[Step], kind: str, *, forge: bool = False) -> list[Step]:
    """As few of the steps as still lead to a fault of this kind: parts are left out, from halves down to single
    steps, until no step can be spared."""
    steps = list(steps)
    size = max(1, len(steps) // 2)
    while True:
        place, smaller = 0, False
        while place < len(steps):
            fewer = steps[:place] + steps[place + size :]
            found = play(stage, fewer, forge=forge, excuse=True)
            if found is not None and found.kind == kind:
                steps, smaller = fewer, True
            else:
                place += size
        if size == 1 and not smaller:
            return _simplify(stage, steps, kind, forge=forge)
        size = max(1, size // 2)


def _simplify(stage: Stage, steps: list[Step], kind: str, *, forge: bool) -> list[Step]:
    """The same steps with frames that hold as little as still leads to the fault."""
    codec = stage.spec.make(0, stage.spec.fit(stage.spec.configure(stage.settings), len(stage.honest))).codec
    for place, step in enumerate(steps):
        again = step.verb == "frame" and len(steps) < 20
        while again:
            again = False
            try:
                variants = list(simpler(codec.decode(steps[place].data)))[:60]
                for variant in variants:
                    data = codec.encode(variant)
                    codec.decode(data)
                    changed = [*steps[:place], steps[place]._replace(data=data), *steps[place + 1 :]]
                    found = play(stage, changed, forge=forge, excuse=True)
                    if found is not None and found.kind == kind:
                        steps, again = changed, True
                        break
            except RemoteFault:
                pass
    return steps


def told(stage: Stage, steps: Sequence[Step]) -> str:
    """The steps as Python, to be pasted into a test."""
    codec = stage.spec.make(0, stage.spec.fit(stage.spec.configure(stage.settings), 3)).codec
    lines = [
        f'spec = specification("{stage.spec.name}")',
        f'stage = Stage(spec, {stage.settings!r}, {stage.attached!r}, "{stage.role}")',
        f"bench = stage.open()  # {len(stage.honest)} honest nodes {stage.honest}, a stranger {stage.hostile}",
    ]
    for step in steps:
        match step.verb:
            case "frame":
                frame: Frame | str
                try:
                    frame = codec.decode(step.data)
                except RemoteFault:
                    frame = f"bench.nodes[{step.to}].codec.decode({step.data!r})"
                lines.append(f"bench.inject({step.sender}, {step.to}, {frame!r})")
            case "wait":
                lines.append(f"bench.run({step.sender})")
            case "broadcast":
                lines.append(f"bench.broadcast({step.sender})")
            case "transfer":
                lines.append("bench.transfer()")
            case verb:
                lines.append(f"bench.{verb}({stage.hostile}, {step.to})")
    return "\n".join(lines)
