"""Counterexamples: written to a file, played again on the real objects, told step by step and drawn.

A replay makes every call on one object per node, without copies and without a memory of calls, so it is what any
driver would do, and a debugger can step into it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

import antecast
from antecast.checking.calm import Calm
from antecast.checking.hidden import HiddenState
from antecast.checking.lassos import REPEATS
from antecast.checking.machine import LiveMachine
from antecast.checking.properties import BoundedBuffers, Property, addresses, broken_property, own_property
from antecast.checking.records import Problem
from antecast.checking.scope import Scope, check_scope
from antecast.checking.story import Story
from antecast.checking.world import CALLS, Action, BadStart, World, Worlds
from antecast.core import ConfigurationError, InputError, MessageId
from antecast.core.forms import form
from antecast.core.settings import plain_settings, read_settings
from antecast.history.witness import Event, Witness
from antecast.protocols import specification
from antecast.protocols.registry import Guarantee, Specification, address, code_of

FORMAT = 1


class Counterexample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that it takes to see a violation again."""

    antecast_check: int = FORMAT
    protocol: str
    version: str
    """A digest of the code of the protocol."""
    settings: dict[str, Any]
    scope: dict[str, Any]
    promises: list[Guarantee]
    property: str
    words: str
    calm: Annotated[int, msgspec.Meta(ge=0)]
    """How many actions come before the network calms down."""
    actions: list[Annotated[list[int | str], msgspec.Meta(min_length=1)]]
    properties: list[str] = []
    """Functions of one's own that were judged, too."""
    bounds: dict[str, int] = {}
    """Limits of gauges."""
    steps: list[str] = []
    """The actions in words, for whoever reads the file."""


@dataclass(frozen=True)
class Replay:
    """What came of a counterexample when it was played again."""

    problem: Problem | None
    steps: tuple[str, ...]
    events: tuple[Event, ...]
    story: Story
    """What happened where, to be drawn."""
    stopped: int | None = None
    """The action that was no longer possible, counted from 1; the protocol has changed."""

    @property
    def witness(self) -> Witness:
        """The shortest story that shows it, by the auditor where it can, else all that happened."""
        words = "nothing was broken" if self.problem is None else self.problem.words
        if self.problem is not None and self.problem.property in ("causal", "fifo", "integrity"):
            found = _audited(self.events)
            if found is not None:
                return found
        return Witness(None, None, (), f"{words}.", _drawn(self.events))


def _audited(events: Iterable[Event]) -> Witness | None:
    import pyarrow as pa

    from antecast.history.audit import audit

    rows = [each for each in events if each.verb in ("broadcast", "deliver")]
    if not rows:
        return None
    names = [each.message.split(":") for each in rows]
    table = pa.table(
        {
            "node": [str(each.node) for each in rows],
            "pos": [each.pos for each in rows],
            "kind": [each.verb for each in rows],
            "origin": [name[0] for name in names],
            "seq": [int(name[1]) for name in names],
        }
    )
    try:
        return audit(table).witness
    except InputError:
        return None


TOLD = {"broadcast": "answers with", "deliver": "delivers", "discard": "discards"}

SHOWN = 40
"""Events that a drawing shows at the most."""


def _drawn(events: tuple[Event, ...]) -> tuple[Event, ...]:
    told = tuple(each for each in events if each.verb != "timer" or len(events) <= SHOWN)
    return told if len(told) <= SHOWN else told[: SHOWN // 2] + told[-SHOWN // 2 :]


def counterexample(
    worlds: Worlds,
    problem: Problem,
    actions: Iterable[Action],
    calm: int | None = None,
    *,
    properties: tuple[Property, ...] = (),
) -> Counterexample:
    """A violation that a search has found, as a file holds it."""
    done = [list(action) for action in actions]
    found = Counterexample(
        protocol=address(worlds.spec),
        version=protocol_version(worlds.spec),
        settings=plain_settings(worlds.settings),
        scope=plain_settings(worlds.scope),
        promises=sorted(worlds.promises),
        property=problem.property,
        words=problem.words,
        calm=len(done) if calm is None else calm,
        actions=done,
        properties=addresses(properties),
        bounds={k: v for each in properties if isinstance(each, BoundedBuffers) for k, v in each.limits.items()},
    )
    played = replay(found, worlds.spec, properties=properties)
    if played.problem is None:
        words = (
            f"a search found that it breaks a promise ({problem.words}), but played on real objects it does not"
        )
        raise HiddenState(f"{worlds.spec.name}: {words}")
    return msgspec.structs.replace(found, steps=list(played.steps))


def as_json(found: Counterexample) -> str:
    """A line per action, so that it reads well."""
    values = msgspec.to_builtins(found)
    lines = []
    for name, value in values.items():
        if name in ("actions", "steps") and value:
            rows = ",\n".join(f"    {json.dumps(each, ensure_ascii=False)}" for each in value)
            lines.append(f"  {json.dumps(name)}: [\n{rows}\n  ]")
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_counterexample(path: Path) -> Counterexample:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    try:
        found = msgspec.json.decode(data, type=Counterexample)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"not a counterexample of `antecast check`: {error}", path=path) from None
    try:
        spec = specification(found.protocol)
        check_scope(spec, spec.configure(found.settings), read_settings(found.scope, Scope, path="scope"))
    except ConfigurationError as error:
        raise InputError(str(error), path=path) from None
    return found


def check_version(found: Counterexample, path: Path) -> None:
    """Refuse a counterexample of another version: its actions may mean something else by now."""
    spec = specification(found.protocol)
    if found.antecast_check != FORMAT:
        raise InputError(f"format {found.antecast_check}; this version reads {FORMAT}", path=path)
    if found.version != protocol_version(spec):
        raise InputError(
            f"found in another version of {found.protocol} ({found.version}, now {protocol_version(spec)});"
            " check again, or replay it all the same with --any-code",
            path=path,
        )


def protocol_version(spec: Specification) -> str:
    """A digest of the code that a protocol is made of; rewording leaves it alone."""
    digest = hashlib.blake2b(digest_size=6)
    digest.update(_own_version().encode())
    digest.update(json.dumps(code_of(spec), sort_keys=True).encode())
    return digest.hexdigest()


@cache
def _own_version() -> str:
    package = Path(antecast.__file__).parent
    files = sorted([*(package / "core").rglob("*.py"), *(package / "protocols").rglob("*.py")])
    digest = hashlib.blake2b(digest_size=16)
    for file in files:
        digest.update(f"{file.relative_to(package).as_posix()}\n{form(file.read_bytes())}\n".encode())
    return digest.hexdigest()


def replay(
    found: Counterexample,
    spec: Specification | None = None,
    *,
    properties: tuple[Property, ...] | None = None,
    before: Callable[[int, str], None] | None = None,
) -> Replay:
    """Play a counterexample again. `before` is called ahead of each step, with its number and what it does.
    Properties of one's own are found by their names, unless they are given."""
    spec = spec or specification(found.protocol)
    if properties is None:
        named = tuple(map(own_property, found.properties))
        properties = (*named, BoundedBuffers(found.bounds)) if found.bounds else named
    settings: Any = spec.configure(found.settings)
    scope = read_settings(found.scope, Scope, path="scope")
    promises = frozenset(found.promises)
    worlds = Worlds(spec, settings, scope, promises=promises, machine=LiveMachine)
    teller, story = Teller(worlds), Story(worlds)
    try:
        world = worlds.beginning()
    except BadStart as bad:
        return Replay(bad.problem, (), (), story)
    story.begin(world)
    steps: list[str] = []
    problem = broken_property(worlds, world, properties)
    if problem is not None:
        return Replay(problem, (), (), story)
    calm = Calm(worlds)
    excused, probes, calmed = -1, 0, world
    passed: set[World] = set()
    for place, listed in enumerate(found.actions):
        action: Action = tuple(listed)
        free = place >= found.calm
        if not worlds.is_possible(world, action, free=free):
            return Replay(None, tuple(steps), tuple(teller.events), story, place + 1)
        words = teller.words(world, action)
        if before is not None:
            before(place + 1, words)
        if free:
            passed.add(calm.without_time(world))
        if free and excused < 0:
            excused = calm.broadcast_so_far(world)
        after, problem = worlds.perform(world, action, free=free)
        probes = probes + 1 if free and action[0] == "broadcast" else 0
        if probes:
            calmed = world if probes == 1 else calmed
            excused = calm.excused(calmed, after, probes)
        steps.append(teller.told(words, world, after, action, problem))
        story.step(place + 1, world, action, after, problem)
        world = after
        if problem is None and not free:
            problem = broken_property(worlds, world, properties)
        if problem is not None:
            break
    if problem is None and found.property == "contract":
        problem = calm.stray(world)
    elif problem is None and found.words.endswith(REPEATS) and calm.without_time(world) in passed:
        problem = Problem("termination", found.words)
    elif problem is None and found.property in ("termination", "agreement", "exception"):
        problem = calm.rest(world, calm.broadcast_so_far(world) if excused < 0 else excused)
    return Replay(problem, tuple(steps), tuple(teller.events), story)


class Teller:
    """Actions in words, and the events that an observer sees."""

    def __init__(self, worlds: Worlds) -> None:
        self.worlds = worlds
        self.events: list[Event] = []

    def words(self, world: World, action: Action) -> str:
        verb, about, worlds = action[0], action[1:], self.worlds
        match verb:
            case "receive" | "lose":
                node, peer, life, position = about[:4]
                frame = worlds.frame_under_way(world, node, peer, life, position)
                does = "receives" if verb == "receive" else "never gets"
                return f"node {node} {does} {self._frame(frame)} from node {peer}"
            case "hear" | "fade":
                node, peer, place = about[:3]
                frame = worlds.values[world[worlds.AIR]][place][2]
                does = "hears" if verb == "hear" else "does not hear"
                return f"node {node} {does} {self._frame(frame)} from node {peer}"
            case "broadcast":
                return f"node {about[0]} broadcasts"
            case "timer":
                return f"at node {about[0]} the timer {about[1]} fires"
            case "up":
                return f"node {about[0]} sees its link to node {about[1]} come up"
            case "late":
                return f"node {about[0]} sees a link to node {about[1]} come up that has broken since"
            case "down":
                return f"node {about[0]} sees its link to node {about[1]} go down"
            case "break":
                return f"the link between nodes {about[0]} and {about[1]} breaks"
            case "link":
                return f"the link between nodes {about[0]} and {about[1]} comes back"
            case "appear":
                return f"a link between nodes {about[0]} and {about[1]} begins"
            case "cut":
                return f"the network is cut between {', '.join(map(str, about))} and the rest"
            case "move":
                return f"host {about[0]} moves to station {about[1]}"
            case "join":
                return f"node {about[0]} joins at node {about[1]}"
            case "wait":
                return "a day passes; timers are late"
            case "tick":
                return f"{worlds.scope.tick} pass"
            case _:
                return f"node {about[0]} {verb}es" if verb == "crash" else f"node {about[0]} {verb}s"

    def _frame(self, number: int) -> str:
        frame = self.worlds.machine.frames[number]
        carried = [str(message.id) for message in frame.carried]
        kind = type(frame).__name__
        return f"{kind} {', '.join(carried)}" if carried else kind

    def told(self, words: str, before: World, after: World, action: Action, problem: Problem | None) -> str:
        """Words with what came of it: deliveries, an answer, a crash in the middle."""
        worlds = self.worlds
        came: list[str] = []
        for node in worlds.hosts:
            old, new = worlds.record(before, node), worlds.record(after, node)
            had = {bit for bit, _ in old.pasts}
            fresh = [bit for bit, _ in new.pasts if bit not in had]
            if action[0] == "broadcast" or not fresh:
                self._note(node, "broadcast", fresh)
                came += self._note(node, "deliver", _bits(new.delivered & ~old.delivered))
            else:  # an answer: after what it answers
                own = sum(fresh)
                came += self._note(node, "deliver", _bits(new.delivered & ~old.delivered & ~own))
                came += self._note(node, "broadcast", fresh)
                self._note(node, "deliver", _bits(new.delivered & ~old.delivered & own))
            came += self._note(node, "discard", _bits(new.discarded & ~old.discarded))
        if action[0] in ("crash", "recover", "up", "late", "down", "leave", "join", "timer"):
            what = f"{action[2]}" if action[0] in ("up", "late", "down", "timer") else ""
            self.events.append(Event(action[1], len(self.events), action[0], what))
        if action[0] in CALLS and action[-1] >= 0:
            came.append(f"crashes after {action[-1]} effects")
            self.events.append(Event(action[1], len(self.events), "crash", ""))
        if problem is not None and problem.delivery is not None:
            came += self._note(problem.delivery[0], "deliver", [1 << problem.delivery[1]])
        return f"{words}: {', '.join(came)}" if came else words

    def _note(self, node: int, verb: str, bits: Iterable[int]) -> list[str]:
        names = [self._name(bit) for bit in bits]
        self.events += [Event(node, len(self.events) + i, verb, str(name)) for i, name in enumerate(names)]
        return [f"{TOLD[verb]} {name}" for name in names]

    def _name(self, bit: int) -> MessageId:
        return self.worlds.machine.messages[bit.bit_length() - 1]


def _bits(number: int) -> list[int]:
    return [1 << place for place in range(number.bit_length()) if number >> place & 1]
