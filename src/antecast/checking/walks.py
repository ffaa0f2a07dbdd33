"""Random walks through worlds that are too many to be seen all, and counterexamples made shorter.

In a walk any frame that can arrive may arrive next. So no frame is under way for long, while most faults of order
need one that is: overtaken, on one link, by much that happens elsewhere. In walks with *overtaking*, which take
turns with the others, links have priorities, drawn anew for each walk and changed now and then: frames of the
fastest link arrive first.

*Patient* walks are for what takes several rare things, each at its time. Faults are rarer in them, each kind as
likely as any other, and every other walk starts at a world in which some node had come to a state that none had
been in before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from antecast.checking.calm import Calm
from antecast.checking.lassos import ENDLESS
from antecast.checking.limits import Progress
from antecast.checking.properties import Property, broken_property
from antecast.checking.records import Problem
from antecast.checking.search import Found
from antecast.checking.world import CALLS, Action, World, Worlds

LONGEST = 10_000
"""Steps of a walk that does not come to rest by itself."""

CHANGED = 0.06
"""How likely a link, having been the fastest, becomes the slowest with a step."""

RARE = 0.25
"""How likely a step is something other than a frame that arrives, while frames are under way."""

PATIENT = (0.02, 0.06, 0.12, 0.25)
"""The same in patient walks, drawn for each."""

KEPT = 2_000
"""Worlds with a new local state that patient walks start from."""


ENDS = ("termination", "agreement")
"""Properties of the end: all that happens in the calm is part of how they are broken."""


def walk(
    worlds: Worlds,
    *,
    seed: int = 0,
    walks: int | None = None,
    overtaking: bool = False,
    patient: bool = False,
    properties: tuple[Property, ...] = (),
    progress: Progress | None = None,
    anew: Callable[[], Worlds | None] = lambda: None,
) -> Found:
    """Walk at random, again and again, each time until nothing is left to happen; then all has to come to a good
    end. It is the same walk for the same seed. Between two walks `anew` may give the same worlds without what was
    remembered of them."""
    random, calm, started = Random(seed), Calm(worlds), time.process_time()
    starts: list[tuple[World, tuple[Action, ...]]] = [(worlds.beginning(), ())]
    known = len(worlds.machine.states)
    made = transitions = deepest = 0

    def found(verdict: str, **more: object) -> Found:
        values = {"states": made, "transitions": transitions, "depth": deepest, "exact": True}
        values["seconds"] = time.process_time() - started  # type: ignore[assignment]
        return Found(verdict=verdict, **(values | more))  # type: ignore[arg-type]

    while walks is None or made < walks:
        world, before = random.choice(starts) if patient and made % 2 else starts[0]
        way = list(before)
        problem: Problem | None = None
        speeds: dict[tuple[int, int], float] | None = {} if overtaking and made % 2 else None
        rare = random.choice(PATIENT) if patient else RARE
        while len(way) < LONGEST:
            action = _chosen(worlds, world, random, rare, speeds, by_kind=patient)
            if action is None:
                break
            way.append(action)
            transitions += 1
            world, problem = worlds.perform(world, action)
            if problem is None:
                problem = broken_property(worlds, world, properties)
            if problem is not None:
                return found("violated", problem=problem, actions=tuple(way), calm=len(way))
            if patient and len(worlds.machine.states) > known:
                known = len(worlds.machine.states)
                place = len(starts) if len(starts) < KEPT else random.randrange(1, KEPT)
                starts[place : place + 1] = [(world, tuple(way))]
        made += 1
        deepest = max(deepest, len(way))
        bad = calm.judge(world) if calm.is_quiet(world) else None
        if len(way) >= LONGEST:
            way, bad = _endless(worlds, way, calm)
        if bad is not None:
            return found("violated", problem=bad[0], actions=(*way, *bad[1]), calm=len(way))
        why = progress(made, transitions, 0, len(way)) if progress is not None else None
        if why:
            return found("not exhausted", why=f"{made} random walks, seed {seed}: {why}")
        fresh = anew()
        if fresh is not None:
            worlds, calm = fresh, Calm(fresh)
            starts, known = [(worlds.beginning(), ())], len(worlds.machine.states)
    return found("not exhausted", why=f"{made} random walks, seed {seed}")


def _endless(
    worlds: Worlds, way: list[Action], calm: Calm
) -> tuple[list[Action], tuple[Problem, list[Action]] | None]:
    """A walk that did not come to rest, and the first part of it after which nodes would talk for ever, if any."""
    world, done, look_at = worlds.beginning(), 0, 8
    while look_at < len(way):
        for action in way[done:look_at]:
            world, _ = worlds.perform(world, action)
        bad = calm.judge(world)
        if bad is not None and bad[0].words.endswith(ENDLESS):
            return way[:look_at], bad
        done, look_at = look_at, 2 * look_at
    return way, None


def _chosen(
    worlds: Worlds,
    world: World,
    random: Random,
    rare: float,
    speeds: dict[tuple[int, int], float] | None,
    *,
    by_kind: bool,
) -> Action | None:
    arriving: list[Action] = []
    others: dict[str, list[Action]] = {}
    for action in worlds.actions(world):
        if action[0] in ("receive", "hear"):
            arriving.append(action)
        else:
            others.setdefault(action[0] if by_kind else "", []).append(action)
    if not arriving and not others:
        return None
    if others and (not arriving or random.random() < rare):
        kinds = list(others.values())
        action = random.choice(random.choice(kinds) if by_kind else kinds[0])
    else:
        action = random.choice(arriving) if speeds is None else _fastest(arriving, random, speeds)
    if action[0] in CALLS and worlds.may_vary(world):
        worlds.perform(world, action)
        variants = list(worlds.variants(world, action, worlds.effects))
        if variants and random.random() < 0.5:
            return random.choice(variants)
    return action


def _fastest(arriving: list[Action], random: Random, speeds: dict[tuple[int, int], float]) -> Action:
    """A frame of the fastest link on which one is under way."""
    for action in arriving:
        speeds.setdefault(action[1:3], random.random())
    link = max((action[1:3] for action in arriving), key=speeds.__getitem__)
    if random.random() < CHANGED:
        speeds[link] = min(speeds.values()) - 1.0
    return random.choice([action for action in arriving if action[1:3] == link])


def shorten(worlds: Worlds, found: Found, properties: tuple[Property, ...] = ()) -> Found:
    """The same violation in fewer steps: each action that can be left out is. What broke, breaks still."""
    if found.problem is None:
        return found
    actions, calm = list(found.actions[: found.calm]), Calm(worlds)
    problem, tail = found.problem, found.actions[found.calm :]
    endless = problem.words.endswith(ENDLESS)
    place = len(actions) - 1
    while place >= 0:
        fewer = actions[:place] + actions[place + 1 :]
        again = _played(
            worlds, fewer, calm, found.problem.property, properties, judged=bool(tail), endless=endless
        )
        if again is not None:
            problem, actions, tail = again
            place = min(place, len(actions))
        place -= 1
    if tail and problem.property not in ENDS:
        problem, tail = _trimmed(worlds, actions, problem, tail)
    return _replaced(found, problem, actions, tail)


def _trimmed(
    worlds: Worlds, actions: list[Action], problem: Problem, tail: tuple[Action, ...]
) -> tuple[Problem, tuple[Action, ...]]:
    """A violation of order in the calm after some actions, without what it does not need of that calm."""
    calm = worlds.beginning()
    for action in actions:
        calm, _ = worlds.perform(calm, action)
    for place in range(len(tail) - 2, -1, -1):
        fewer, world = tail[:place] + tail[place + 1 :], calm
        for done, action in enumerate(fewer, start=1):
            if not worlds.is_possible(world, action, free=True):
                break
            world, broken = worlds.perform(world, action, free=True)
            if broken is not None:
                if broken.property == problem.property:
                    problem, tail = broken, fewer[:done]
                break
    return problem, tail


def _replaced(found: Found, problem: Problem, actions: list[Action], tail: tuple[Action, ...]) -> Found:
    from dataclasses import replace

    return replace(found, problem=problem, actions=(*actions, *tail), calm=len(actions))


def _played(
    worlds: Worlds,
    actions: list[Action],
    calm: Calm,
    broken: str,
    properties: tuple[Property, ...],
    *,
    judged: bool,
    endless: bool,
) -> tuple[Problem, list[Action], tuple[Action, ...]] | None:
    """Whether these actions still break the same property, or if that is `judged`, the calm behind them: then how,
    and in how many of them."""
    world = worlds.beginning()
    for place, action in enumerate(actions):
        if not worlds.is_possible(world, action):
            return None
        world, problem = worlds.perform(world, action)
        problem = problem or broken_property(worlds, world, properties)
        if problem is not None:
            same = problem.property == broken
            return (problem, actions[: place + 1], ()) if same else None
    if (broken in ENDS or judged) and (endless or calm.is_quiet(world)):
        bad = calm.judge(world)
        if bad is not None and bad[0].property == broken:
            return bad[0], actions, tuple(bad[1])
    return None
