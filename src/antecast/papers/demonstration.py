"""A demonstration: a rule of a paper, the smallest story in which it fails, and the same story under our rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """How a story ended under one rule."""

    broken: bool
    words: str
    diagram: str = ""
    """The events that show it, a column per node."""


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """Played twice, by the rule as printed and by ours. Its texts are Markdown, and are the page in the docs."""

    name: str
    study: str
    """Which paper, by the name of its study."""
    title: str
    story: str
    """What happens, under either rule."""
    printed: str
    """The rule of the paper."""
    ours: str
    """Our rule instead."""
    by_paper: Callable[[], Outcome]
    by_us: Callable[[], Outcome]

    def play(self) -> Played:
        return Played(self, self.by_paper(), self.by_us())


@dataclass(frozen=True)
class Played:
    demonstration: Demonstration
    paper: Outcome
    ours: Outcome

    @property
    def as_claimed(self) -> bool:
        """The paper's rule fails, and ours does not."""
        return self.paper.broken and not self.ours.broken
