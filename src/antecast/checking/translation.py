"""Worlds that go from one process to another.

A world is a tuple of numbers, and each process gives out its own. So a world is sent with what its numbers stand
for, where the receiver has not been told yet. Local states and frames are not copied: they are told by the call
that they first came from, on a state that was told before, and the receiver makes that call itself, unless it has
come to the same state or frame in its own way. So a protocol needs no form in which it could be sent.

Processes that were forked from one have the numbers below those of the fork in common.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from operator import getitem
from typing import Any, Final, TypeAlias

from antecast.checking.records import Record
from antecast.checking.steps import Down, Step
from antecast.checking.wires import Life, Link
from antecast.checking.world import World, Worlds
from antecast.core import MessageId

Definition: TypeAlias = tuple[str, int, Any]
"""What a number of the sender stands for: the kind of thing, the number, and how to make it."""

Parcel: TypeAlias = tuple[list[Definition], bytes]
"""Definitions, and worlds one behind the other."""

KINDS: Final = ("state", "frame", "record", "value", "air", "link")


class Common:
    """The numbers that processes had in common when they were forked."""

    def __init__(self, worlds: Worlds) -> None:
        values = len(worlds.values)
        self.below = {
            "state": len(worlds.machine.states),
            "frame": len(worlds.machine.frames),
            "record": len(worlds.records.values),
            "value": values,
            "air": values,
            "link": len(worlds.wires.values),
        }
        pairs = len(worlds.pairs)
        self.kinds = (
            *["state"] * worlds.n, *["record"] * worlds.n, *["value"] * worlds.n, *["link"] * pairs,
            "value", "air", "value",
        )  # fmt: skip
        """Of each entry of a world but the last, which is the time."""


class Outgoing:
    """The worlds that one process sends to another."""

    def __init__(self, worlds: Worlds, common: Common) -> None:
        self._worlds, self._common = worlds, common
        self._told: dict[str, set[int]] = {kind: set() for kind in KINDS}

    def parcel(self, worlds: Iterable[World]) -> Parcel:
        definitions: list[Definition] = []
        numbers = array("q")
        for world in worlds:
            for kind, number in zip(self._common.kinds, world, strict=False):
                if number >= self._common.below[kind] and number not in self._told[kind]:
                    definitions.extend(self._define(kind, number))
            numbers.extend(world)
        return definitions, numbers.tobytes()

    def lags(self, lags: Iterable[tuple[int, int, int]]) -> Parcel:
        """Local states with a sender and a frame each, in place of worlds."""
        definitions: list[Definition] = []
        numbers = array("q")
        for state, peer, frame in lags:
            for kind, number in (("state", state), ("frame", frame)):
                definitions.extend(self._define(kind, number))
            numbers.extend((state, peer, frame))
        return definitions, numbers.tobytes()

    def _define(self, kind: str, number: int) -> Iterator[Definition]:
        """What a number stands for, behind all that it takes to make it."""
        stack = [(kind, number)]
        while stack:
            kind, number = stack[-1]
            if self._is_known(kind, number):
                stack.pop()
                continue
            value, needs = self._value(kind, number)
            lacking = [each for each in needs if not self._is_known(*each)]
            stack.extend(lacking)
            if not lacking:
                stack.pop()
                self._told[kind].add(number)
                yield kind, number, value

    def _is_known(self, kind: str, number: int) -> bool:
        return number < self._common.below[kind] or number in self._told[kind]

    def _value(self, kind: str, number: int) -> tuple[Any, list[tuple[str, int]]]:
        worlds = self._worlds
        machine = worlds.machine
        match kind:
            case "state":
                call, needs = self._call(machine.first[number])
                return (machine.digests[number], call), needs
            case "frame":
                key, place = machine.first_sent[number]
                call, needs = self._call(key)
                return (machine.frame_bytes[number], call, place), needs
            case "record":
                delivered, covered, pasts, discarded = worlds.records.values[number]
                past = [(self._names(bit), self._names(before)) for bit, before in pasts]
                return (self._names(delivered), self._names(covered), past, self._names(discarded)), []
            case "link":
                link = worlds.wires.values[number]
                frames = [frame for life in link.lives for frame in (*life.to_low, *life.to_high)]
                return (link.belongs, [tuple(life) for life in link.lives]), [("frame", each) for each in frames]
            case "air":
                flying = worlds.values[number]
                return flying, [("frame", frame) for _, _, frame in flying]
            case _:
                return worlds.values[number], []

    def _call(self, key: tuple[Any, ...]) -> tuple[Any, list[tuple[str, int]]]:
        if key[0] == "start":
            return key, []
        needs = [("state", key[0])]
        if key[2] == "receive":
            needs.append(("frame", key[3]))
        elif key[2] == "crash":
            names = self._worlds.machine.messages
            key = (*key[:3], tuple(tuple(names[each]) for each in key[3]))
        return key, needs

    def _names(self, bits: int) -> list[tuple[int, int]]:
        names = self._worlds.machine.messages
        return [(n.origin, n.seq) for place, n in enumerate(names) if bits >> place & 1]


class _Known(dict[int, int]):
    """The receiver's number for each of the sender's."""

    def __init__(self, below: int) -> None:
        super().__init__()
        self._below = below

    def __missing__(self, number: int) -> int:
        if number >= self._below:
            raise KeyError(number)
        return number


class _Same:
    def __getitem__(self, number: int) -> int:
        return number


class Incoming:
    """The worlds that one process gets from another."""

    def __init__(self, worlds: Worlds, common: Common) -> None:
        self._worlds = worlds
        self._known = {kind: _Known(below) for kind, below in common.below.items()}
        self._tables: list[Any] = [*(self._known[kind] for kind in common.kinds), _Same()]

    def lags(self, parcel: Parcel) -> Iterator[tuple[int, int, int]]:
        """What `Outgoing.lags` has packed."""
        numbers, known = self._numbers(parcel), self._known
        for start in range(0, len(numbers), 3):
            state, peer, frame = numbers[start : start + 3]
            yield known["state"][state], peer, known["frame"][frame]

    def _numbers(self, parcel: Parcel) -> array[int]:
        definitions, data = parcel
        for kind, number, value in definitions:
            self._known[kind][number] = self._made(kind, value)
        numbers = array("q")
        numbers.frombytes(data)
        return numbers

    def worlds(self, parcel: Parcel) -> Iterator[World]:
        numbers = self._numbers(parcel)
        width = len(self._tables)
        for start in range(0, len(numbers), width):
            yield tuple(map(getitem, self._tables, numbers[start : start + width]))

    def _made(self, kind: str, value: Any) -> int:
        worlds, frame = self._worlds, self._known["frame"]
        match kind:
            case "state":
                digest, call = value
                known = worlds.machine.number_of(digest)
                return self._state(call) if known is None else known
            case "frame":
                data, call, place = value
                known = worlds.machine.frame_number(data)
                return int(self._step(call).effects[place][2]) if known is None else known
            case "record":
                delivered, covered, pasts, discarded = value
                past = tuple((self._bits(bit), self._bits(before)) for bit, before in pasts)
                made_of = Record(self._bits(delivered), self._bits(covered), past, self._bits(discarded))
                return worlds.records.number(made_of)
            case "link":
                belongs, lives = value
                made = [
                    Life(broken, a, b, tuple(frame[each] for each in low), tuple(frame[each] for each in high))
                    for broken, a, b, low, high in lives
                ]
                return worlds.wires.number(Link(belongs, tuple(made)))
            case "air":
                return worlds.value(tuple((to, by, frame[each]) for to, by, each in value))
            case _:
                return worlds.value(value)

    def _state(self, call: tuple[Any, ...]) -> int:
        machine = self._worlds.machine
        if call[0] == "start":
            return machine.start(call[1])
        if call[2] == "crash":
            before = self._known["state"][call[0]]
            owed = tuple(machine.message(MessageId(*name)) for name in call[3])
            found = machine.states[before]
            assert found is not None
            return machine.crash(before, found.node, owed)
        return self._step(call).state

    def _step(self, call: tuple[Any, ...]) -> Step:
        machine = self._worlds.machine
        number, now, method, *arguments = call
        state = self._known["state"][number]
        found = machine.states[state]
        assert found is not None
        if isinstance(found, Down):
            return machine.recover(state, found.node, now)
        if method == "receive":
            arguments[0] = self._known["frame"][arguments[0]]
        return machine.step(state, found.node, now, method, *arguments)

    def _bits(self, names: list[tuple[int, int]]) -> int:
        bits = 0
        for name in names:
            bits |= 1 << self._worlds.machine.message(MessageId(*name))
        return bits
