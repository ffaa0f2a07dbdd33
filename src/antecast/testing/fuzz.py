"""A structured fuzzer: hostile frames against a protocol, until one does harm.

    python -m antecast.testing.fuzz PROTOCOL --frames 1000000 --seed 1

Each play is a network of its own (`hostile`) with frames made from the declared types (`frames`), judged when
the hostile node has gone. A fault is shown as the fewest steps that lead to it, as Python, with exit code 1.
A play that lasts tests memory: what a node holds after four times the frames must not be more.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from time import monotonic

from antecast.core import Codec, ConfigurationError, RemoteFault
from antecast.core.settings import Duration
from antecast.protocols.registry import Need, Specification, specification
from antecast.testing.frames import FrameMaker
from antecast.testing.hostile import (
    HOSTILE_STATION,
    NOBODY,
    STATIONS,
    Fault,
    Play,
    Stage,
    Step,
    is_excused,
    play,
    shorten,
    told,
)
from antecast.testing.memory import weight

SECOND = 10**9
STEPS = (40, 120, 120, 400)
"""Steps per play: enough for a frame to build on what others have done, few enough to shorten. In a long play more
builds up; a short one is judged before something else makes good what was done."""

_OF_A_KIND = 5
"""How many faults of one kind are examined: most of them will be the same one."""

_LONGER = 20
"""How much slower honest nodes repair than their specification says: most of the time went into that."""

_WAITS = (10**6, 10**7, 10**8, 10**8, SECOND, SECOND, SECOND, 15 * SECOND, 30 * SECOND)

FORGOTTEN = 1500 * SECOND
"""After this long, whatever is kept for a time is gone: lifetimes of messages, hosts that fell silent."""

SMALL = {"retain": 20, "capacity": 20, "early": 4000, "backlog": 20}
"""Bounds that a hostile node can fill: memory must not grow past them."""


@dataclass
class Finding:
    """A fault and the fewest steps that lead to it."""

    stage: Stage
    steps: list[Step]
    fault: Fault
    seed: int

    @property
    def signature(self) -> tuple[str, ...]:
        """What tells it from other findings: where it broke, or what was sent."""
        if self.fault.kind == "crash":
            return self.fault.kind, self.fault.detail.partition(": ")[0]
        codec = self.stage.spec.make(0, self.stage.spec.fit(self.stage.spec.configure({}), 3)).codec
        kinds = set()
        for step in self.steps:
            if step.verb == "frame":
                try:
                    kinds.add(type(codec.decode(step.data)).__name__)
                except RemoteFault:
                    kinds.add("malformed")
        return (self.fault.kind, *sorted(kinds))

    def __str__(self) -> str:
        return f"{self.fault}\n\n{told(self.stage, self.steps)}\n"


@dataclass
class Campaign:
    """A protocol under attack: plays drawn from a seed."""

    spec: Specification
    seed: int = 1
    forge: bool = False
    without: frozenset[str] = frozenset()
    """Types of frames to leave out, to find what their faults hide."""
    frames: Counter[str] = field(default_factory=Counter)
    plays: int = 0
    excused: int = 0
    """Plays in which the hostile node did harm that nothing in a frame could have shown."""
    unlinked: bool = True
    """Whether frames also come from peers without a link."""

    @property
    def sent(self) -> int:
        return sum(count for kind, count in self.frames.items() if kind != "refused")

    def stage(self, draw: Random) -> Stage:
        """A stage with settings drawn: the defaults, and tight bounds."""
        settings: dict[str, object] = {}
        for name in ("retain", "capacity"):
            if name in self.spec.settings.__struct_fields__ and draw.random() < 0.5:
                settings[name] = draw.choice(self.spec.draws.get(name, (0, 3, 20)))
        if self.spec.loss_settings and draw.random() < 0.3:
            settings |= _slowly(self.spec)
        needs = self.spec.needs(self.spec.configure({}))
        if Need.CELLS in needs:
            role = draw.choice(("host", "host", "station"))
            return Stage(self.spec, settings, STATIONS[:1], role)  # type: ignore[arg-type]
        attached = ((0, 1, 2),) if Need.COMPLETE_GRAPH in needs else ((0,), (1,), (0, 2))
        return Stage(self.spec, settings, draw.choice(attached))

    def play(self, number: int) -> tuple[Stage, list[Step], Fault | None]:
        """One play; returns its steps, and the fault if it ends in one of the protocol's own."""
        draw = Random(f"{self.spec.name}/{self.seed}/{number}")
        stage, steps = self.stage(draw), draw.choice(STEPS)
        self.plays += 1
        done: list[Step] = []
        performance: Play | None = None
        try:
            performance = Play(stage, forge=self.forge)
            for step in self.improvised(performance, draw, steps):
                done.append(step)
                performance.do(step)
            if not self.forge:
                performance.end()
        except Fault as fault:
            if performance and is_excused(stage, done, performance.lies, fault.kind):
                self.excused += 1
                return stage, done, None
            return stage, done, fault
        finally:
            if performance is not None:
                self.frames += performance.frames
        return stage, done, None

    def improvised(self, performance: Play, draw: Random, steps: int) -> Iterator[Step]:
        stage = performance.stage
        maker = FrameMaker(performance.codec, draw, stage.honest, stage.hostile, forge=self.forge)
        maker.modest = not self.forge and draw.random() < 0.5
        linked = True
        for _ in range(steps):
            for frame in performance.sent:
                maker.overhear(frame)
            performance.sent.clear()
            way = draw.random()
            if way < 0.72:
                yield self._frame(maker, performance, draw)
            elif way < 0.82:
                yield Step("transfer")
            elif way < 0.92:
                yield Step("broadcast", draw.choice(stage.honest))
            elif way < 0.97:
                yield Step("wait", draw.choice(_WAITS))
            elif draw.random() < 0.7:
                linked = not linked
                for node in stage.attached:
                    yield Step("link" if linked else "unlink", 0, node)
            else:
                yield Step("link", 0, draw.choice(stage.attached))

    def _frame(self, maker: FrameMaker, performance: Play, draw: Random) -> Step:
        stage = performance.stage
        maker.now = performance.bench.now
        frame = maker.make()
        while type(frame).__name__ in self.without or (maker.modest and performance.tells_of_more(frame)):
            frame = maker.make()
        data = performance.codec.encode(frame)
        if draw.random() < 0.02:  # damaged on its way
            broken = bytearray(data)
            broken[draw.randrange(len(broken))] ^= 1 << draw.randrange(8)
            damaged = bytes(broken)
            if self.forge or not _decodes(performance.codec, damaged):
                data = damaged
        to = draw.choice(stage.targets)
        sender = stage.hostile
        if self.unlinked and draw.random() < 0.03 and stage.role != "station":
            sender = NOBODY
        elif not self.unlinked and not stage.cells and to not in performance.bench.links[sender]:
            return Step("link", 0, to)
        if self.forge and stage.cells and draw.random() < 0.2:
            sender = draw.choice((*stage.honest, *STATIONS, HOSTILE_STATION))
        return Step("frame", sender, to, data)

    def findings(self, frames: int, *, tell: bool = False) -> Iterator[Finding]:
        """Faults, each kind once, until this many frames have been sent."""
        known: set[tuple[str, ...]] = set()
        times: Counter[str] = Counter()
        number, shown = 0, monotonic()
        while self.sent < frames:
            stage, steps, fault = self.play(number)
            if fault is not None and times[fault.kind] < _OF_A_KIND:
                rough = Finding(stage, steps, fault, number)
                if fault.kind == "crash" and rough.signature in known:
                    number += 1
                    continue
                times[fault.kind] += 1
                if play_again := _same(stage, steps, fault, forge=self.forge):
                    steps = play_again
                finding = Finding(stage, steps, fault, number)
                if fault.kind in ("no link", "stray send"):
                    self.unlinked = False  # it would hide all others
                if finding.signature not in known:
                    known.add(finding.signature)
                    yield finding
            number += 1
            if tell and monotonic() - shown > 5:
                shown = monotonic()
                print(
                    f"{self.spec.name}: {self.sent:,} frames in {self.plays:,} plays", file=sys.stderr, flush=True
                )


def _slowly(spec: Specification) -> dict[str, object]:
    """The settings that tolerate loss, with longer periods. Nothing is lost here, so what honest nodes send again
    only takes time."""
    settings = spec.configure(spec.loss_settings)
    periods = {name: getattr(settings, name) for name in spec.loss_settings}
    return {
        name: str(Duration(value * _LONGER)) if isinstance(value, Duration) else spec.loss_settings[name]
        for name, value in periods.items()
    }


def _decodes(codec: Codec, data: bytes) -> bool:
    try:
        codec.decode(data)
    except RemoteFault:
        return False
    return True


def _same(stage: Stage, steps: list[Step], fault: Fault, *, forge: bool) -> list[Step]:
    """The shortest list of steps, if the fault comes again when they are replayed."""
    again = play(stage, steps, forge=forge)
    return shorten(stage, steps, fault.kind, forge=forge) if again is not None and again.kind == fault.kind else []


@dataclass(frozen=True)
class Growth:
    """What the heaviest honest node weighed after some hostile frames, and after four times as many."""

    frames: int
    before: int
    after: int

    @property
    def bounded(self) -> bool:
        """A quarter more, and a page or two, is chance where tables were full before."""
        return self.after <= self.before * 1.25 + 20_000

    def __str__(self) -> str:
        return f"{self.before:,} bytes after {self.frames:,} steps, {self.after:,} after {4 * self.frames:,}"


def growth(spec: Specification, *, frames: int = 1500, seed: int = 1) -> Growth:
    """Whether hostile frames make memory grow, with bounds so small that honest use would fill them.

    What is kept only for a time is given that time before a node is weighed.
    """
    draw = Random(f"{spec.name}/{seed}/memory")
    campaign = Campaign(spec, seed, forge=True, unlinked=False)
    settings: dict[str, object] = {
        name: size for name, size in SMALL.items() if name in spec.settings.__struct_fields__
    }
    performance = Play(replace(campaign.stage(draw), settings=settings), forge=True)
    weights = []
    for steps in (frames, 3 * frames):
        for step in campaign.improvised(performance, draw, steps):
            performance.do(step)
        performance.do(Step("wait", FORGOTTEN))
        weights.append(max(weight(node) for node in performance.bench.nodes.values()))
    return Growth(frames, *weights)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m antecast.testing.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("protocol")
    parser.add_argument("--frames", type=int, default=100_000, help="hostile frames to send (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--forge", action="store_true", help="also send messages in the name of honest nodes")
    parser.add_argument("--all", action="store_true", help="go on after the first fault")
    parser.add_argument(
        "--without", action="append", default=[], metavar="TYPE", help="leave out frames of this type"
    )
    parser.add_argument("--memory", action="store_true", help="also measure whether memory grows")
    options = parser.parse_args(arguments)
    try:
        spec = specification(options.protocol)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    campaign = Campaign(spec, options.seed, options.forge, frozenset(options.without))
    found = 0
    for finding in campaign.findings(options.frames, tell=True):
        found += 1
        print(f"\n{finding}", flush=True)
        if not options.all:
            break
    if options.memory and (options.all or not found):
        heavy = growth(spec, seed=options.seed)
        print(f"{spec.name}: the heaviest node holds {heavy}")
        found += not heavy.bounded
    counts = ", ".join(f"{kind} {count:,}" for kind, count in sorted(campaign.frames.items()))
    print(f"{spec.name}: {campaign.sent:,} frames in {campaign.plays:,} plays, {found or 'no'} faults ({counts})")
    if campaign.excused:
        print(f"{campaign.excused:,} plays did harm by what no node can tell from the truth")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
