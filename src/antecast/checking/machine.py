"""The nodes of a world: local states of the real protocol objects, each kept once, and calls made once.

A search visits very many worlds, in which few local states come back again and again. So each local state is
given a number when it first occurs, and what a call does to it is remembered: (state, call) → (state, effects). A
step of the world then runs no protocol at all, but looks up numbers; a protocol runs once per distinct local call.

This rests on rule 8 of `core.protocol`: states with equal canonical values behave equally.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import index
from typing import Any, ClassVar, Final

import msgspec

from antecast.checking.hidden import FAULTS, HiddenState, Raised, odd_gauges, outside_of
from antecast.checking.naming import message_named, payload, said_in, token_named
from antecast.checking.steps import Down, Step
from antecast.core import (
    Accepted,
    Alert,
    CancelTimer,
    ConfigurationError,
    Deliver,
    Discard,
    Frame,
    Leaving,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    Protocol,
    RemoteFault,
    Send,
    SetTimer,
    Transmit,
)
from antecast.core.structure import NotAStructure, is_still
from antecast.protocols.registry import Specification

ABSENT: Final = 0
"""The local state of a node that is not there: not yet, or no more."""

EVERYBODY: Final = -1
"""Where a `Transmit` goes."""

COMPARED: Final = 200
"""Calls that are made twice, to see that they do the same; then one of so many."""

AGAIN: Final = 64
"""At the end of a search one of so many calls is made again; all of them, if classes or modules have changed."""

TWINS: Final = 200
"""States of which a second object is kept, that came there in another way."""


def _as_bytes(value: tuple[Any, ...]) -> bytes:
    """A value as bytes, the same for equal values."""
    try:
        return marshal.dumps(value, 0)  # later versions of the format look at identities, too
    except ValueError:  # a canonical value of a protocol's own making
        return repr(value).encode()


class Machine:
    """All local states of a check, by number; number 0 is a node that is not there."""

    settled: ClassVar[bool] = True
    """Whether the object behind a number stays as it is."""

    def __init__(self, spec: Specification, settings: Any, *, stations: range, clocks: tuple[int, ...]) -> None:
        self.spec = spec
        self.settings = settings
        self.everyone = range(stations.stop)
        self._stations = stations
        self._clocks = clocks
        self.states: list[Protocol | Down | None] = [None]
        self.digests: list[bytes] = [b"absent"]
        self._numbers: dict[bytes, int] = {}
        self.frames: list[Frame] = []
        self.frame_bytes: list[bytes] = []
        self._frame_numbers: dict[bytes, int] = {}
        self.messages: list[MessageId] = []
        self._message_numbers: dict[MessageId, int] = {}
        self.memo: dict[tuple[Any, ...], Step] = {}
        """Calls that have been made: (state, now, method, arguments) → step."""
        self.at_first: dict[tuple[int, str], object] = {}
        """What classes and modules held before the search."""
        self.calls = 0
        """How often a protocol ran."""
        self.first: list[tuple[Any, ...]] = [()]
        """How each state first came about: ("start", node), or the state before, then time, method, arguments."""
        self.first_sent: list[tuple[tuple[Any, ...], int]] = []
        """For each frame a step that sends it, by its key, and the place among its effects."""
        self.first_set: dict[tuple[NodeId, str], tuple[tuple[Any, ...], int]] = {}
        """The same for each timer of a node."""
        self.latest: int | None = None
        """How long after its broadcast a message may be delivered, in true time, if that is judged."""
        self._odd_gauges: dict[int, str | None] = {}
        self.aside = False
        """Whether calls are made to judge a world or to verify something, not as part of the search."""
        self._cause: tuple[Any, ...] = ()
        self._twins: dict[int, Protocol] = {}
        """Objects that came to a state in another way than the first."""

    # Numbers.

    def _intern(self, node: NodeId, state: Protocol | Down) -> int:
        if isinstance(state, Down):  # messages by their names: numbers are others in every process
            owed = tuple(tuple(self.messages[each]) for each in state.owed)
            value: tuple[Any, ...] = ("down", node, state.saved, owed)
        else:
            value = (node, self._asked_for("canonical", state))
        digest = self._digest(value)
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = len(self.states)
            self.states.append(state)
            self.digests.append(digest)
            self.first.append(self._cause)
        elif len(self._twins) < TWINS and isinstance(state, Protocol):
            self._twins.setdefault(number, state)
        return number

    @staticmethod
    def _digest(value: tuple[Any, ...]) -> bytes:
        return hashlib.blake2b(_as_bytes(value), digest_size=16).digest()

    def frame(self, codec: Any, frame: Frame, place: int) -> int:
        """A frame by number. It goes over the wire: what is received is not the object that was sent."""
        data = codec.encode(frame)
        number = self._frame_numbers.get(data)
        if number is None:
            decoded = codec.decode(data)
            number = self._frame_numbers[data] = len(self.frames)
            self.frames.append(decoded)
            self.frame_bytes.append(data)
            self.first_sent.append((self._cause, place))
        return number

    def _received(self, protocol: Protocol, number: int) -> Frame:
        """A frame as it comes: one in which something can change is nobody else's."""
        frame = self.frames[number]
        return frame if is_still(frame) else protocol.codec.decode(self.frame_bytes[number])

    def frame_number(self, data: bytes) -> int | None:
        """The number of a frame, by its bytes."""
        return self._frame_numbers.get(data)

    def number_of(self, digest: bytes) -> int | None:
        """The number of a local state, by what is in it."""
        return self._numbers.get(digest)

    def message(self, name: MessageId) -> int:
        number = self._message_numbers.get(name)
        if number is None:
            number = self._message_numbers[name] = len(self.messages)
            self.messages.append(name)
        return number

    def protocol(self, state: int) -> Protocol | None:
        """The object in a local state, to look at; None where the node is down or not there."""
        found = self.states[state]
        return found if isinstance(found, Protocol) else None

    def node(self, state: int) -> NodeId:
        """Whose local state this is."""
        found = self.states[state]
        assert found is not None
        return found.node

    def clock(self, node: NodeId, now: int) -> int:
        return now + (self._clocks[node] if node < len(self._clocks) else 0)

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Calls are made aside, meanwhile."""
        before, self.aside = self.aside, True
        try:
            yield
        finally:
            self.aside = before

    # Calls.

    def start(self, node: NodeId) -> int:
        """A new node."""
        self._cause = ("start", node)
        try:
            made = self._make(node)
        except ConfigurationError:
            raise
        except FAULTS as error:
            raise Raised(f"node {node} cannot be made: {type(error).__name__}: {error}") from None
        return self._intern(node, made)

    def _make(self, node: NodeId) -> Protocol:
        make = self.spec.make_station if node in self._stations else self.spec.make
        assert make is not None
        made: object = make(node, self.settings)
        if not isinstance(made, Protocol):
            raise ConfigurationError(f"{self.spec.name}: what makes its nodes gave {made!r}, not a Protocol")
        if getattr(made, "node", None) != node:
            raise ConfigurationError(f"{self.spec.name}: the attribute `node` of node {node} is not {node}")
        return made

    def step(self, state: int, node: NodeId, now: int, method: str, *arguments: Any) -> Step:
        """A call, made or remembered. A received frame is given by number, with its sender."""
        key = (state, now, method, *arguments)
        found = self.memo.get(key)
        if found is None:
            self._cause = key
            found = self.memo[key] = self._call(state, node, now, method, arguments)
            if self.calls <= COMPARED or not self.calls % COMPARED:
                self._compare(found, key, node)
            found.quiet = not (found.effects or found.problem or found.refused)
            found.idle = found.quiet and found.state == state
            found.aside = self.aside
        elif found.aside and not self.aside:
            found.aside = False
        return found

    def elsewhere(self) -> dict[tuple[int, str], object]:
        """What the classes and modules of the protocol hold."""
        return outside_of(state for state in self.states if isinstance(state, Protocol))

    def compare_again(self, *, every: int = 1) -> None:
        """Make calls again that were made long ago: they still do the same."""
        for key, step in list(self.memo.items())[::every]:
            if key[2] != "recover":
                self._cause = key
                self._compare(step, key, self.node(key[0]))

    def _compare(self, step: Step, key: tuple[Any, ...], node: NodeId) -> None:
        """Make a call again, on another copy of the state and on an object that came there in another way."""
        state, now, method, *arguments = key
        first = self.states[state]
        assert isinstance(first, Protocol)
        for other in (first, self._twins.get(state, first)):
            self.states[state] = other
            if method == "crash":
                again = self._stopped(other, node, *arguments)
            else:
                again = self._call(state, node, now, method, tuple(arguments))
            self.states[state] = first
            told = (again.state, again.effects, again.problem, again.refused)
            if told != (step.state, step.effects, step.problem, step.refused):
                self._must_be(state, first, "what only looks at a node, such as a property, changed its state")
                name = "snapshot" if method == "crash" else method
                raise HiddenState(f"{self.spec.name}: {name} did two different things in one state of node {node}")

    def _call(self, state: int, node: NodeId, now: int, method: str, arguments: tuple[Any, ...]) -> Step:
        original = self.states[state]
        assert isinstance(original, Protocol)
        protocol = self._before(original)
        clock = self.clock(node, now)
        self.calls += 1
        try:
            if method == "receive":
                effects = protocol.receive(self._received(protocol, arguments[0]), arguments[1], clock)
            elif method == "broadcast":
                said = payload(node, arguments[1], None if self.latest is None else now)
                effects = protocol.broadcast(said, clock, lifetime=arguments[0])
            elif method == "leave":
                assert isinstance(protocol, Leaving)
                effects = protocol.leave(clock)
            else:
                effects = getattr(protocol, method)(*arguments, clock)
            effects = list(effects)
        except RemoteFault as fault:
            refused = Step(state, (), problem=None if method == "receive" else f"{method} raised {fault!r}")
            refused.refused = str(fault)
            return refused
        except LocalMisuse as misuse:
            return Step(state, (), problem=f"{method} raised {misuse!r}")
        except FAULTS as error:
            return Step(state, (), problem=f"{method} raised {type(error).__name__}: {error}")
        finally:
            if type(original).clone is not Protocol.clone and protocol is not original:
                self._must_be(state, original, "clone() shares what can change with its original")
        return self._done(node, protocol, effects, method)

    def _must_be(self, state: int, protocol: Protocol, else_said: str) -> None:
        """Refuse a protocol if an object is no longer in the state that it is kept for."""
        value = (protocol.node, self._asked_for("canonical", protocol))
        if self._digest(value) != self.digests[state]:
            raise ConfigurationError(f"{self.spec.name}: {else_said} (rule 8 of core.protocol)")

    def _before(self, original: Protocol) -> Protocol:
        copy = self._asked_for("clone", original)
        if type(copy) is not type(original):
            raise ConfigurationError(
                f"{self.spec.name}: clone() gave {copy!r}, not a copy (rule 8 of core.protocol)"
            )
        return copy

    def _asked_for(self, method: str, protocol: Protocol) -> object:
        """A copy of a node, or a value of its state; what cannot say them cannot be checked."""
        try:
            return getattr(protocol, method)()
        except NotAStructure as error:
            raise ConfigurationError(f"{self.spec.name}: {error}") from None
        except FAULTS as error:
            problem = f"{method}() raised {type(error).__name__}: {error}"
            raise ConfigurationError(f"{self.spec.name}: {problem} (rule 8 of core.protocol)") from None

    def all_idle(self, state: int, now: int, arriving: Iterable[tuple[bytes, NodeId]]) -> bool:
        """Whether each of these frames, with its sender, would leave a node in this state as it is. They are tried
        on one copy, which is in the same state as long as they do. Nothing is remembered."""
        original = self.states[state]
        if not isinstance(original, Protocol):
            return True
        node, copy = original.node, None
        for data, sender in arriving:
            number = self._frame_numbers.get(data, -1)
            known = self.memo.get((state, now, "receive", number, sender))
            if known is not None:
                if not known.idle:
                    return False
                continue
            copy = copy or original.clone()
            try:
                frame = self._received(copy, number) if number >= 0 else copy.codec.decode(data)
                effects = copy.receive(frame, sender, self.clock(node, now))
            except Exception:
                return False
            if any(not isinstance(effect, Alert) for effect in effects):
                return False
            if self._digest((node, copy.canonical())) != self.digests[state]:
                return False
        return True

    def _done(
        self,
        node: NodeId,
        protocol: Protocol,
        effects: Iterable[object],
        method: str,
        owed: Iterable[tuple[Any, ...]] = (),
    ) -> Step:
        told: list[tuple[Any, ...]] = [*owed]
        problem = None
        for effect in effects:
            try:
                told += self._told(node, protocol, effect, len(told))
            except FAULTS as error:
                shown = f"a {type(effect).__name__}" if isinstance(effect, msgspec.Struct) else repr(effect)
                problem = f"{method} gave {shown}, which cannot be carried out: {error}"
        if method == "broadcast" and problem is None:
            names = [each[1] for each in told if each[0] == "accepted"]
            names += [e[1] for e in told if e[0] == "deliver" and self.messages[e[1]].origin == node]
            if len(names) != 1:
                problem = f"a broadcast gave {len(names)} deliveries of its message; exactly one is due"
            elif not any(each[0] == "accepted" for each in told):
                told.append(("accepted", names[0]))
        number = self._intern(node, protocol)
        if problem is None and (asked := self._asked(number, protocol)):
            return Step(number, tuple(told), problem=asked)
        return Step(number, tuple(told), problem=problem, kind="contract")

    def _asked(self, state: int, protocol: Protocol) -> str | None:
        """What is wrong with the gauges of a node: they may be asked for at any time."""
        if state not in self._odd_gauges:
            self._odd_gauges[state] = odd_gauges(protocol)
            self._must_be(state, protocol, "gauges() changed the state of a node")
        return self._odd_gauges[state]

    def _told(self, node: NodeId, protocol: Protocol, effect: object, place: int) -> list[tuple[Any, ...]]:
        """An effect in numbers; nothing if it changes nothing."""
        match effect:
            case Send(to=to, frame=frame):
                return [("send", index(to), self.frame(protocol.codec, frame, place))]
            case Transmit(frame=frame):
                return [("send", EVERYBODY, self.frame(protocol.codec, frame, place))]
            case Deliver(message=message):
                return [("deliver", self.message(message_named(message.id)), *self._judged(message))]
            case Accepted(id=name):
                return [("accepted", self.message(message_named(name)))]
            case SetTimer(token=token, at=at):
                self.first_set.setdefault((node, token_named(token)), (self._cause, place))
                return [("timer", token, index(at) - self.clock(node, 0))]
            case CancelTimer(token=token):
                self.first_set.setdefault((node, token_named(token)), (self._cause, place))
                return [("timer", token, None)]
            case Discard(id=name):
                return [("discard", self.message(message_named(name)))]
            case Alert():
                return []
        raise TypeError("it is not an effect")

    def _judged(self, message: Message[Any]) -> tuple[int, ...]:
        """Which broadcast a message has the payload of, and how long ago that was, if it was too long."""
        count, said = said_in(message)
        if self.latest is None or said is None or self._cause[1] - said <= self.latest:
            return (count,)
        return count, self._cause[1] - said

    # Crashes.

    def crash(self, state: int, node: NodeId, owed: tuple[int, ...] = ()) -> int:
        """A node stops; what it saved stays."""
        key = (state, 0, "crash", owed)
        found = self.memo.get(key)
        if found is None:
            self._cause = key
            protocol = self.states[state]
            assert isinstance(protocol, Protocol)
            found = self.memo[key] = self._stopped(protocol, node, owed)
            found.aside = self.aside
            if self.settled:
                self._must_be(state, protocol, "snapshot() changed the state of a node")
        found.aside = found.aside and self.aside
        return found.state

    def _stopped(self, protocol: Protocol, node: NodeId, owed: tuple[int, ...]) -> Step:
        try:
            saved = msgspec.msgpack.encode(protocol.snapshot())
        except FAULTS as error:
            raise Raised(f"node {node}: snapshot raised {type(error).__name__}: {error}") from None
        return Step(self._intern(node, Down(node, saved, owed)), ())

    def recover(self, state: int, node: NodeId, now: int) -> Step:
        """A new object, its saved state, `resume`. What was owed is delivered first, by the world."""
        key = (state, now, "recover")
        found = self.memo.get(key)
        if found is None:
            down = self.states[state]
            assert isinstance(down, Down)
            self._cause = key
            try:
                protocol = self._make(node)
                protocol.restore(msgspec.msgpack.decode(down.saved, strict=False))
                effects = list(protocol.resume(self.clock(node, now)))
            except FAULTS as error:
                found = Step(state, (), problem=f"recovery raised {type(error).__name__}: {error}")
            else:
                owed = [("deliver", each, None) for each in down.owed]
                found = self._done(node, protocol, effects, "resume", owed)
            self.memo[key] = found
            found.aside = self.aside
        found.aside = found.aside and self.aside
        return found


class LiveMachine(Machine):
    """The same without a memory: one object per node, on which every call is really made. For replays."""

    settled = False

    def _asked(self, state: int, protocol: Protocol) -> str | None:
        return odd_gauges(protocol)

    def _before(self, original: Protocol) -> Protocol:
        return original

    def _intern(self, node: NodeId, state: Protocol | Down) -> int:
        number = super()._intern(node, state)
        self.states[number] = state  # it is in this state now, and leaves it with the next call
        return number

    def step(self, state: int, node: NodeId, now: int, method: str, *arguments: Any) -> Step:
        self._cause = (state, now, method, *arguments)
        return self._call(state, node, now, method, arguments)

    def crash(self, state: int, node: NodeId, owed: tuple[int, ...] = ()) -> int:
        self.memo.clear()
        return super().crash(state, node, owed)

    def recover(self, state: int, node: NodeId, now: int) -> Step:
        self.memo.clear()
        return super().recover(state, node, now)
