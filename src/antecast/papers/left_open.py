"""All demonstrations, and the page that tells them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import fill

from antecast.papers.barrier import stories as barrier
from antecast.papers.cellular import stories as cellular
from antecast.papers.demonstration import Demonstration, Outcome, Played
from antecast.papers.observer import stories as observer
from antecast.papers.paper import load_paper
from antecast.papers.preventive import stories as preventive
from antecast.papers.vcube import stories as vcube

_MODULES = (barrier, cellular, observer, vcube, preventive)

_INTRODUCTION = """\
# What the papers left open

The five papers behind Antecast are the reason it exists, and most of what they say holds. Building their
algorithms, and running them against an oracle in thousands of random networks, also showed rules that do not do
what they promise. Each is told here in the smallest story that shows it, played by the rule as printed and by
the rule that took its place. Slips of the pen are called that; where a text can be read in two ways, the story
says so.

Play them yourself: the stories run the real protocols, and the auditor judges them.

```console
$ antecast demonstrate all
study       name                   as printed  here
barrier     mixed-lifetimes        fails       holds
barrier     clock-ahead            fails       holds
…
{count} of {count} end as described: the printed rule fails, ours holds
```
"""


def demonstrations() -> tuple[Demonstration, ...]:
    """All of them, paper by paper."""
    return tuple(each for module in _MODULES for each in module.DEMONSTRATIONS)


def as_markdown(played: Iterable[Played]) -> str:
    """The page of the documentation."""
    by_study: dict[str, list[Played]] = {}
    for each in played:
        by_study.setdefault(each.demonstration.study, []).append(each)
    parts = [_INTRODUCTION.format(count=sum(map(len, by_study.values())))]
    for study, told in by_study.items():
        paper = load_paper(study)
        parts.append(f"## {study}\n")
        parts.append(_paragraph(f"{paper.authors}, *{paper.title}*."))
        parts += [part for each in told for part in _story(each)]
    return "\n".join(parts)


def _story(played: Played) -> Iterator[str]:
    told = played.demonstration
    yield f"### `{told.name}`: {told.title}\n"
    yield _paragraph(told.story)
    yield _paragraph(f"**As printed.** {told.printed} {_ending(played.paper)}")
    if played.paper.diagram:
        yield f"```text\n{played.paper.diagram}\n```\n"
    yield _paragraph(f"**Here.** {told.ours} {_ending(played.ours)}")


def _ending(outcome: Outcome) -> str:
    return f"*{outcome.words}*" if outcome.words.endswith(".") else f"*{outcome.words}.*"


def _paragraph(text: str) -> str:
    return fill(text, 115, break_long_words=False, break_on_hyphens=False) + "\n"
