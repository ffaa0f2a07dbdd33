"""Texts that fit the window: words wrap, and a diagram that is too wide becomes a list.

In a file or a pipe nothing is wrapped (`console`).
"""

from __future__ import annotations

import re
import textwrap

from antecast.cli.console import out


def say(text: str, style: str | None = None, hanging: int = 0) -> None:
    """Print lines of a result. What is wrapped keeps the indent of its line, and `hanging` more spaces."""
    for part in fitted(text, out.width).split("\n"):
        indent = " " * (len(part) - len(part.lstrip()) + hanging)
        lines = textwrap.wrap(
            part, out.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        for line in lines or [""]:
            out.print(line, style=style, soft_wrap=True)


def fitted(text: str, width: int) -> str:
    r"""The same text, with each diagram that is too wide as a list of its events.

    >>> print(fitted("so:\n\nnode 0          node 1\nbroadcast a     |\n|               deliver a", 20))
    so:
    <BLANKLINE>
    node 0: broadcast a
    node 1: deliver a
    """
    return "\n\n".join(_as_list(part, width) for part in text.split("\n\n"))


def _as_list(paragraph: str, width: int) -> str:
    names, *rows = paragraph.split("\n")
    starts = [found.start() for found in re.finditer(r"(?:^|(?<=   ))\S", names)]
    if len(starts) < 2 or max(map(len, (names, *rows))) <= width:
        return paragraph
    columns = [slice(start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    events = []
    for row in rows:
        own = [column for column in columns if row[column].strip() not in ("", "|")]
        if len(own) != 1:
            return paragraph  # not a diagram
        events.append(f"{names[own[0]].strip()}: {row[own[0]].strip()}")
    return "\n".join(events)
