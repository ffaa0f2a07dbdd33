"""What a model says of a log: the outcome, what it rests on, and the smallest stories that show what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from antecast.importers.source import Place
from antecast.text.wording import escaped

Outcome: TypeAlias = Literal["sound", "violated", "inconclusive"]

EXIT_CODES: Mapping[str, int] = {"sound": 0, "causal": 0, "violated": 1, "inconclusive": 3}

STORIES = 5
"""Violations of each kind that are told."""

VIOLATIONS = pa.schema(
    [
        ("kind", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("node", pa.string()),
        ("words", pa.string()),
        ("other_file", pa.string()),
        ("other_line", pa.int64()),
    ]
)
"""A row per violation: its kind, where it shows, what is wrong in words, and the other event if it takes two."""


@dataclass(frozen=True)
class Happening:
    """One event of a story."""

    node: str
    label: str
    place: Place | None = None

    def __str__(self) -> str:
        label = escaped(self.label)
        return label if self.place is None else f"{label} @{self.place.line}"


@dataclass(frozen=True)
class Story:
    """A violation with the fewest events that show it, in a possible order; arrows lead from cause to effect."""

    kind: str
    words: str
    events: tuple[Happening, ...]
    arrows: tuple[tuple[int, int], ...] = ()

    @property
    def diagram(self) -> str:
        """A column per node, time downwards, `@` before the lines of the files."""
        nodes = list(dict.fromkeys(event.node for event in self.events))
        own = {node: [str(event) for event in self.events if event.node == node] for node in nodes}
        heads = [escaped(node) for node in nodes]
        widths = [max(len(head), *map(len, own[node])) for node, head in zip(nodes, heads, strict=True)]
        lines = [heads, *([str(event) if event.node == node else "|" for node in nodes] for event in self.events)]
        return "\n".join(
            "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def summary(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        events = [
            {"node": event.node, "label": event.label}
            | ({} if event.place is None else {"file": event.place.file, "line": event.place.line})
            for event in self.events
        ]
        return {
            "kind": self.kind,
            "words": self.words,
            "diagram": self.diagram,
            "events": events,
            "arrows": [list(arrow) for arrow in self.arrows],
        }

    def __str__(self) -> str:
        return f"{escaped(self.words)}\n\n{self.diagram}"


@dataclass(frozen=True, eq=False)
class Judgement:
    """The result of a model. `violations` has a row for each violation that is listed; all are counted."""

    model: str
    scope: str
    """What was judged, in words: "1,235 events of 8 hosts"."""
    counts: Mapping[str, int]
    found: Mapping[str, int]
    """Violations by kind."""
    unsettled: Mapping[str, int]
    """What could not be judged, by what it is; any of it makes the verdict inconclusive."""
    violations: pa.Table
    stories: tuple[Story, ...] = ()
    notes: tuple[str, ...] = ()
    """What was assumed, what was accepted, what would settle an open question."""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """Further results, such as the bounds on clock skew."""

    @property
    def outcome(self) -> Outcome:
        if any(self.found.values()):
            return "violated"
        return "inconclusive" if any(self.unsettled.values()) else "sound"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    @property
    def witness(self) -> Story | None:
        """The story with the fewest events."""
        return min(self.stories, key=lambda story: len(story.events), default=None)

    @property
    def cut(self) -> int:
        """Violations that were counted but are not in the table."""
        return sum(self.found.values()) - len(self.violations)

    def summary(self) -> dict[str, Any]:
        """The verdict as plain values, ready for JSON."""
        return {
            "verdict": self.outcome,
            "model": self.model,
            "scope": self.scope,
            "counts": dict(self.counts),
            "found": dict(self.found),
            "unsettled": dict(self.unsettled),
            "notes": list(self.notes),
            "witness": None if self.witness is None else self.witness.summary(),
            "stories": [story.summary() for story in self.stories],
        }

    def to_pandas(self) -> Any:
        """The violations listed, as a pandas DataFrame."""
        return self.violations.to_pandas()

    def __repr__(self) -> str:
        return f"Judgement({self.outcome}: {self.scope}, {sum(self.found.values())} violations)"

    def _repr_html_(self) -> str:
        headline, _, rest = str(self).partition("\n")
        return f"<p><b>{escape(headline)}</b></p>" + (f"<pre>{escape(rest)}</pre>" if rest else "")

    def __str__(self) -> str:
        """The verdict for people: the outcome first, then what it rests on."""
        lines = [f"{self.outcome}: {self.scope}"]
        lines += [f"  {kind}: {count:,}" for kind, count in self.found.items() if count]
        lines += [f"  {count:,} {words}" for words, count in self.unsettled.items() if count]
        if self.cut > 0:
            lines.append(f"  {len(self.violations):,} violations are listed, {self.cut:,} are not")
        lines += [f"  {note}" for note in self.notes]
        lines = [escaped(line) for line in lines]
        for story in first_of_each_kind(self.stories):
            lines += ["", str(story)]
        return "\n".join(lines)


def first_of_each_kind(stories: Sequence[Story]) -> list[Story]:
    found: dict[str, Story] = {}
    for story in stories:
        found.setdefault(story.kind, story)
    return list(found.values())


def sampled(count: int, most: int = STORIES) -> list[int]:
    """Which of so many violations are told: the first ones, and a spread of the rest.

    >>> sampled(4), sampled(100)
    ([0, 1, 2, 3], [0, 1, 2, 51, 99])
    """
    if count <= most:
        return list(range(count))
    first, rest = most - 2, 2
    spread = [first + round((count - 1 - first) * (each + 1) / rest) for each in range(rest)]
    return [*range(first), *spread]
