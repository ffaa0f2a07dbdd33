"""The ledger: what the applications of a group have written down, compared.

It needs no clock and no knowledge of the protocol. Whatever the nodes went through, these hold at any time:

- a node's deliveries are numbered 1, 2, 3 and so on, each number once;
- a message is delivered at most once per node, under one name, with one payload everywhere;
- it comes after all that its sender had been shown before it spoke, where the protocol promises causal order, and
  after the earlier ones of its sender, where it promises FIFO;
- local times never go back.

When everything is calm, also: each message whose broadcast was acknowledged is delivered everywhere, and what one
node has delivered, all have.

With the default settings no node may give a message up. With others (`may_give_up`) it may, if it says so in a
`Discard`: it need not deliver the message any more, nor before what depends on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Name = tuple[int, int]


@dataclass
class _Page:
    """One node's record, as far as it has been read."""

    path: Path
    offset: int = 0
    number: int = 0
    at: int = 0
    delivered: set[Name] = field(default_factory=set)
    last: dict[int, int] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    """Messages of the present life that are about to be broadcast, and not acknowledged yet."""
    lives: int = 0
    given_up: dict[int, int] = field(default_factory=dict)
    """For each source, the last message that the node has said it does without; and so for those before it."""

    def needs(self, name: Name) -> bool:
        """Whether a message has to be delivered, and has not been."""
        return name not in self.delivered and self.given_up.get(name[0], 0) < name[1]


class Ledger:
    """Reads the records as they grow; `wrong` lists what is against the rules, in words."""

    def __init__(
        self, records: dict[int, Path], *, causal: bool = True, fifo: bool = True, may_give_up: bool = False
    ) -> None:
        self._pages = {node: _Page(path) for node, path in records.items()}
        self._causal, self._fifo, self._may_give_up = causal, fifo, may_give_up
        self.accepted: dict[Name, tuple[int, int]] = {}
        """Messages whose broadcast was acknowledged, with their node and k."""
        self._payloads: dict[Name, str] = {}
        self._names: dict[tuple[int, int], Name] = {}
        self.wrong: list[str] = []

    @property
    def deliveries(self) -> int:
        return sum(len(page.delivered) for page in self._pages.values())

    def read(self) -> None:
        for node, page in self._pages.items():
            if not page.path.exists():
                continue
            with page.path.open("rb") as file:
                file.seek(page.offset)
                data = file.read()
            data = data[: data.rfind(b"\n") + 1]
            page.offset += len(data)
            for line in data.splitlines():
                kind, *rest = json.loads(line)
                if kind == "d":
                    self._deliver(node, page, rest)
                elif kind == "i":
                    page.open.add(rest[0])
                elif kind == "a":
                    self._accept(node, page, *rest)
                elif kind == "x":
                    origin, seq = rest
                    if self._may_give_up:
                        page.given_up[origin] = max(seq, page.given_up.get(origin, 0))
                else:
                    page.open.clear()
                    page.lives += 1

    def _accept(self, node: int, page: _Page, k: int, origin: int, seq: int) -> None:
        page.open.discard(k)
        name = (origin, seq)
        if name in self.accepted:
            self.wrong.append(f"node {node} named two messages {origin}:{seq}: {self.accepted[name][1]} and {k}")
        self.accepted[name] = (node, k)
        self._named(name, (node, k))

    def _named(self, name: Name, content: tuple[int, int]) -> None:
        known = self._names.setdefault(content, name)
        if known != name:
            self.wrong.append(f"message {content[1]} of node {content[0]} goes by two names, {known} and {name}")

    def _deliver(self, node: int, page: _Page, row: list[Any]) -> None:
        number, origin, seq, at, payload = row
        name, what = (origin, seq), f"node {node} delivered {origin}:{seq}"
        if number != page.number + 1:
            self.wrong.append(f"{what} as number {number}, after {page.number}")
        if at < page.at:
            self.wrong.append(f"{what} at {at}, which is before {page.at}")
        page.number, page.at = number, at
        if name in page.delivered:
            self.wrong.append(f"{what} twice")
        page.delivered.add(name)
        if self._payloads.setdefault(name, payload) != payload:
            self.wrong.append(f"{what} with another payload than others")
        try:
            source, k, _, past = json.loads(payload)
        except ValueError:
            self.wrong.append(f"{what} with a payload that nobody broadcast")
            return
        if source != origin:
            self.wrong.append(f"{what}, which node {source} broadcast")
        self._named(name, (source, k))
        if self._fifo and page.last.get(origin, 0) >= seq:
            self.wrong.append(f"{what} after {origin}:{page.last[origin]}")
        page.last[origin] = max(seq, page.last.get(origin, 0))
        if self._causal:
            for other, shown in past:
                if page.needs((other, shown)):
                    self.wrong.append(f"{what} before {other}:{shown}, on which it depends")

    # What is not there yet.

    def missing(self) -> dict[int, set[Name]]:
        """What each node has yet to deliver."""
        wanted = set(self.accepted).union(*(page.delivered for page in self._pages.values()))
        lacking = {node: {name for name in wanted if page.needs(name)} for node, page in self._pages.items()}
        return {node: names for node, names in lacking.items() if names}

    def speaking(self) -> set[int]:
        """Nodes that are about to broadcast something."""
        return {node for node, page in self._pages.items() if page.open}

    def lives(self, node: int) -> int:
        return self._pages[node].lives

    def report_missing(self) -> None:
        """Nothing moves any more: what is missing now is lost."""
        for node, names in self.missing().items():
            for name in sorted(names)[:3]:
                said = "acknowledged" if name in self.accepted else "delivered elsewhere"
                self.wrong.append(f"node {node} never delivered {name[0]}:{name[1]}, which was {said}")
