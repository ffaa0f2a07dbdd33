"""The page of a counterexample of `antecast check`: its steps to click through, and what they show."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path

from antecast.checking.counterexample import Counterexample, Replay, replay
from antecast.checking.scope import Scope, described
from antecast.core.settings import read_settings
from antecast.reporting.page import Chart, Code, Figure, Page, Section, Text
from antecast.reporting.plot import AnyMark, Axis, Dot, Label, Plot, Segment, Series, Shape
from antecast.text.wording import plural

_ROW_HEIGHT = 48
_BESIDE = 0.16
"""The distance of two marks of one step, in steps."""
SHOWN = 80
"""Steps that a page shows; what follows in a network at rest is much the same."""

_LOOKS = {
    "broadcast": Series("broadcast", "var(--c2)", swatch="dot"),
    "deliver": Series("delivery", "var(--c1)", shape="forward", swatch="dot"),
    "receive": Series("frame", "var(--c8)", shape="ring", swatch="dot"),
    "lose": Series("frame lost", "var(--bad)", shape="cross", swatch="dot"),
    "timer": Series("timer", "var(--c5)", shape="triangle", swatch="dot"),
    "crash": Series("crash, departure or break", "var(--bad)", shape="diamond", swatch="dot"),
    "up": Series("link or arrival", "var(--c3)", shape="square", swatch="dot"),
}
_SAME = {
    "leave": "crash",
    "down": "up",
    "late": "up",
    "recover": "up",
    "join": "up",
    "move": "up",
    "link": "up",
    "appear": "up",
}
_SAME |= {"break": "crash"}


def counterexample_page(found: Counterexample, file: Path) -> Page:
    """Play a counterexample again, and show it."""
    played = replay(found)
    scope: Scope = read_settings(found.scope, Scope, path="scope")
    problem = played.problem
    verdict = f"{_sentence(problem.property)}: {problem.words}." if problem else "Nothing is broken any more."
    if played.stopped is not None:
        verdict += f" Step {played.stopped} is no longer possible: the protocol has changed."
    shown = played.steps[:SHOWN]
    cut = f"{plural(len(played.steps) - len(shown), 'further step')} left out." if played.steps[SHOWN:] else ""
    sections = [
        Section("Step by step", [_chart(played, len(shown), cut)]),
        Section("In short", [Text(_sentence(played.witness.words)), Text(played.witness.diagram, pre=True)]),
        Section("Play it again", [Code(f"antecast check --replay {shlex.quote(str(file))}")]),
    ]
    calm = f"{found.calm} until the network calms down" if found.calm < len(found.actions) else ""
    return Page(
        title=f"{found.protocol}: a counterexample",
        verdict=verdict,
        tone="bad" if problem else "good",
        lead=[f"Found by antecast check within {described(scope)}."],
        figures=[Figure("steps", str(len(played.steps)), calm), Figure("property", found.property)],
        sections=sections,
        facts={
            "protocol": found.protocol,
            "its code": found.version,
            "settings": json.dumps(found.settings),
            "command": f"antecast report {shlex.quote(str(file))}",
        },
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _chart(played: Replay, steps: int, cut: str) -> Chart:
    story = played.story
    nodes = sorted({each.node for each in story.marks} | {each.sender for each in story.flights})
    place = {node: float(row) for row, node in enumerate(nodes)}
    flights: list[AnyMark] = []
    dots: list[AnyMark] = []
    labels: list[AnyMark] = []
    for flight in story.flights:
        if flight.step <= steps:
            look = _LOOKS["lose" if flight.lost else "receive"].name
            tip = f"step {flight.step}: {flight.what} from node {flight.sender} to node {flight.receiver}"
            flights.append(
                Segment(
                    x=flight.sent,
                    y=place[flight.sender],
                    x2=flight.step,
                    y2=place[flight.receiver],
                    width=1.2,
                    series=look,
                    key=str(flight.step),
                    tip=tip,
                )
            )
    used = set()
    together: Counter[tuple[int, int]] = Counter()
    for mark in (each for each in story.marks if each.step <= steps):
        kind = _SAME.get(mark.verb, mark.verb)
        series = _LOOKS[kind]
        used.add(kind)
        tip = f"step {mark.step}, node {mark.node}: {mark.verb} {mark.what}".rstrip()
        shape: Shape = series.shape
        size = 3.5 if kind == "receive" else 5.5
        before = together[mark.step, mark.node]  # what one call does stands side by side, in its order
        together[mark.step, mark.node] += 1
        x, y, key = mark.step + min(_BESIDE * before, 0.5), place[mark.node], str(mark.step)
        dots.append(Dot(x=x, y=y, size=size, shape=shape, tip=tip, series=series.name, key=key))
        if kind in ("broadcast", "deliver"):
            named = Label(x=x, y=y, text=mark.what, needed=False, above=True, series=series.name, key=key)
            labels.append(named)
    used |= {"lose" if each.lost else "receive" for each in story.flights if each.step <= steps}
    plot = Plot(
        x=Axis(title="step", low=0.0, high=float(max(steps, 1)) + 0.5, whole=True),
        y=Axis(names=[f"node {node}" for node in nodes]),
        marks=[*flights, *dots, *labels],
        series=[look for kind, look in _LOOKS.items() if kind in used],
        pick=False,
        stepped=True,
        height=_ROW_HEIGHT * max(len(nodes), 1),
    )
    words = (
        "A line per node, the steps from left to right. Thin lines are frames, from the step in which they were"
        " sent to the one in which they arrived. Choose a step: what comes later fades."
    )
    return Chart("What happens", [plot], words, note=cut, steps=list(played.steps[:steps]))
