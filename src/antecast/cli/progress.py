"""Progress on standard error: a bar for whoever watches a terminal, a line every few seconds for logs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from rich.progress import BarColumn, Progress, TextColumn

from antecast.cli.console import err

if TYPE_CHECKING:
    from antecast.spark.sweep import SweepProgress

_LINE_SECONDS = 5.0
"""Time between two lines of progress where there is no terminal."""

Show: TypeAlias = Callable[[str, float, str], None]
"""Takes the name of the work, the share of it that is done, and its state in words."""


@contextmanager
def progress(what: str, first: str = "", *, quiet: bool) -> Iterator[Show]:
    """Show how far a long piece of work has come, or several in turn."""
    if quiet or not err.is_terminal:
        yield (lambda *_: None) if quiet else _Lines()
        return
    columns = _words("{task.description}"), BarColumn(), _words("{task.fields[state]}")
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(what, total=1.0, state=first)

        def show(what: str, share: float, state: str) -> None:
            bar.update(task, description=what, completed=share, state=state)

        yield show


def _words(text: str) -> TextColumn:
    """A column of words, names in brackets included."""
    return TextColumn(text, markup=False)


class _Lines:
    """A line when something begins or ends, and every few seconds, if there is news."""

    def __init__(self) -> None:
        self._due = 0.0
        self._said = ("", "")

    def __call__(self, what: str, share: float, state: str) -> None:
        news = what != self._said[0] or share in (0, 1) or time.monotonic() >= self._due
        if news and (what, state) != self._said:
            self._due = time.monotonic() + _LINE_SECONDS
            self._said = (what, state)
            err.print(f"{what}: {state}", soft_wrap=True)


@contextmanager
def sweep_progress(what: str, first: str, *, quiet: bool) -> Iterator[Callable[[SweepProgress], None]]:
    """The same for runs on Spark."""
    with progress(what, first, quiet=quiet) as show:
        yield lambda at: show(what, at.share, _state(at))


def _state(at: SweepProgress) -> str:
    parts = [f"{at.resumed + at.finished} of {at.total} runs"]
    if at.failed:
        parts.append(f"{at.failed} failed")
    if ended := at.finished + at.failed:
        parts.append(f"{ended / at.seconds:.3g} runs/s")
    if at.seconds_left:
        parts.append(f"{stretch(at.seconds_left)} left")
    return ", ".join(parts)


def stretch(seconds: float) -> str:
    """A stretch of time, roughly.

    >>> stretch(4.2), stretch(75), stretch(7300)
    ('4 s', '1 min 15 s', '2 h 1 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def clocked(*, quiet: bool) -> Callable[[str], None]:
    """Says each step of a piece of work, with the seconds since its beginning."""
    started = time.monotonic()

    def note(text: str) -> None:
        if not quiet:
            err.print(f"{time.monotonic() - started:6.1f} s  {text}", style="dim", soft_wrap=True)

    return note
