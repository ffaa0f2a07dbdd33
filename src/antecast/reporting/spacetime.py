"""Space-time diagrams: a line per node, time across, and messages from their broadcast to their deliveries.

What is drawn is a message and its causal past. The past comes from the auditor's matrix of direct dependencies:
it is that of the log, not what a protocol says. Pasts grow without bound, so a diagram holds the
messages nearest to the chosen one, `MESSAGES` at most, at `NODES` nodes at most, and says so. Of a log with more
than `WINDOW_ROWS` broadcasts and deliveries only a stretch that long is looked at: the one that ends with the
chosen message, or the first.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.core.errors import ConfigurationError
from antecast.history.dependencies import Dependencies, direct_dependencies, topological_order
from antecast.history.histories import read_histories
from antecast.history.log import iter_events
from antecast.history.messages import MessageIndex
from antecast.history.names import Name
from antecast.history.rows import COLUMNS
from antecast.reporting.diagram import TABLE, Diagram
from antecast.text.wording import listed, plural

MESSAGES = 16
NODES = 12
WINDOW_ROWS = 5_000_000

_CANDIDATES = 20_000
"""Messages, from the first on, among which the one to be drawn is looked for: later ones have larger pasts."""

_COUNTED = 100_000
"""Messages of a past that are counted."""


def parse_message(text: str) -> tuple[int, int]:
    """
    >>> parse_message("49.1"), parse_message("49:1")
    ((49, 1), (49, 1))
    """
    found = re.fullmatch(r"(\d+)[.:](\d+)", text.strip())
    if not found:
        problem = f"expected the number of a node and of its message, such as 49.1, got {text!r}"
        raise ConfigurationError(problem, field="--message")
    return int(found[1]), int(found[2])


class Past:
    """A stretch of a run's log, and the causal order of the messages in it."""

    def __init__(self, folder: Path, *, until: tuple[int, int] | None = None, rows: int = WINDOW_ROWS) -> None:
        self._folder = folder
        batches, self.whole = _window(folder, until, rows)
        self.index = MessageIndex.read(batches, timed=True)
        histories = read_histories(batches, self.index).histories
        self.matrix: Dependencies = direct_dependencies(histories, self.index)

    def find(self, origin: int, seq: int) -> int | None:
        """The number of a message; None if its broadcast is not in the stretch."""
        runs = {name.run for name in self.index.nodes.names}
        codes = [code for run in runs if (code := self.index.nodes.code(Name(run, origin))) >= 0]
        if len(codes) != 1:
            return None
        found = self.index.find(np.array(codes, np.int32), np.array([seq], np.int64))
        return None if found[0] < 0 else int(found[0])

    def nearest(self, message: int) -> tuple[list[int], int]:
        """The message, then its past, nearest first, up to `MESSAGES`; and the size of the past, if counted."""
        queue, seen = [message], {message}
        for each in queue:
            if len(seen) > _COUNTED:
                break
            for dep in sorted(self.matrix.of(each).tolist(), key=self._age):
                if dep not in seen:
                    seen.add(dep)
                    queue.append(dep)
        return queue[:MESSAGES], len(seen) - 1

    def telling(self) -> int | None:
        """The message with the largest past that can be drawn whole, the last of these; None in an empty log."""
        order, _ = topological_order(self.matrix)
        pasts: dict[int, frozenset[int] | None] = {}
        best: tuple[int, int, int] | None = None
        for each in order[:_CANDIDATES].tolist():
            past: set[int] | None = set()
            for dep in self.matrix.of(each).tolist():
                before = pasts.get(dep)
                if before is None or past is None or len(past | before | {dep}) >= MESSAGES:
                    past = None
                    break
                past |= before | {dep}
            pasts[each] = None if past is None else frozenset(past)
            if past is not None:
                best = max(best or (-1, -1, -1), (len(past), self._age(each), each))
        return None if best is None else best[2]

    def _age(self, message: int) -> int:
        assert self.index.t is not None  # read with times
        return int(self.index.t[message])

    def diagram(self, message: int, *, also: Iterable[int] = ()) -> Diagram:
        """A message and its past; `also` names nodes that must be in it."""
        shown, size = self.nearest(message)
        origins = [int(str(self.index.origin_name(each))) for each in shown]
        events = _events(self._folder, [(o, int(self.index.seq[m])) for o, m in zip(origins, shown, strict=True)])
        name = self.index.name(message)
        late = events.filter(_is(events, "deliver", message=(origins[0], int(self.index.seq[message]))))
        slowest = late.sort_by([("t", "descending")])["node"].to_pylist()
        others = sorted(set(events["node"].to_pylist()))
        nodes = list(dict.fromkeys([*also, *origins, *slowest[:1], *slowest[::-1], *others]))[:NODES]
        direct = set(self.matrix.of(message).tolist())
        role = {
            self.index.name(each): "the message"
            if each == message
            else "direct past"
            if each in direct
            else "further past"
            for each in shown
        }
        everywhere = len(set(events["node"].to_pylist()) | set(origins))
        more = "more than " if size > _COUNTED else ""
        words = (
            f"Message {name}, broadcast by node {origins[0]}, and its causal past of {more}"
            f"{plural(size, 'message')}: each line leads from a broadcast to a delivery, time runs to the right. "
            f"{_directly(self, message)}"
        )
        cuts = []
        if size > len(shown) - 1:
            cuts.append(
                f"the {len(shown) - 1} messages of the past that are nearest to it are drawn, of {more}{size:,}"
            )
        if everywhere > len(nodes):
            cuts.append(
                f"{len(nodes)} of {everywhere:,} nodes: those that broadcast, and where {name} came last and first"
            )
        if not self.whole:
            cuts.append(f"the past is looked for in {WINDOW_ROWS:,} rows of the log")
        roles = [("the message", "var(--c2)"), ("direct past", "var(--c1)"), ("further past", "var(--c8)")]
        there = set(role.values())
        return Diagram(
            title=f"Message {name} and its causal past",
            table=_table(events, {str(node) for node in nodes}, role),
            nodes=[str(node) for node in sorted(nodes)],
            roles=[each for each in roles if each[0] in there],
            words=words,
            cut=f"Cut: {'; '.join(cuts)}." if cuts else "",
        )


def _directly(past: Past, message: int) -> str:
    names = [past.index.name(each) for each in past.matrix.of(message).tolist()]
    if not names:
        return "Nothing happened before it."
    shown = listed(names if len(names) <= 6 else [*names[:6], f"{len(names) - 6} more"])
    return f"It depends directly on {shown}."


def _window(folder: Path, until: tuple[int, int] | None, rows: int) -> tuple[list[pa.RecordBatch], bool]:
    """Broadcasts and deliveries, `rows` of them at the most, and whether these are all."""
    kept: deque[pa.RecordBatch] = deque()
    count, whole, found = 0, True, until is None
    for batch in iter_events(folder, list(COLUMNS)):
        some = batch.filter(pc.or_(_is(batch, "broadcast"), _is(batch, "deliver")))
        if found and kept and count + len(some) > rows:
            return list(kept), False
        kept.append(some)
        count += len(some)
        if until is not None and not found:
            found = bool(pc.any(_is(some, "broadcast", message=until)).as_py())
        while count > rows and len(kept) > 1:
            count -= len(kept.popleft())
            whole = False
    return list(kept), whole


def _events(folder: Path, messages: Sequence[tuple[int, int]]) -> pa.Table:
    """All broadcasts and deliveries of some messages."""
    wanted = set(messages)
    origins = pa.array(sorted({origin for origin, _ in wanted}), pa.int32())
    seqs = pa.array(sorted({seq for _, seq in wanted}), pa.int64())
    found = []
    for batch in iter_events(folder, list(COLUMNS)):
        near = pc.and_(pc.is_in(batch.column("origin"), origins), pc.is_in(batch.column("seq"), seqs))
        kinds = pc.or_(_is(batch, "broadcast"), _is(batch, "deliver"))
        found.append(batch.filter(pc.and_(kinds, near)))
    rows = pa.Table.from_batches(found)
    names = zip(rows["origin"].to_pylist(), rows["seq"].to_pylist(), strict=True)
    return rows.filter(pa.array([name in wanted for name in names], pa.bool_()))


def _is(rows: Any, kind: str, *, message: tuple[int, int] | None = None) -> Any:
    wanted = pc.equal(rows.column("kind"), kind)
    if message is not None:
        same = pc.and_(pc.equal(rows.column("origin"), message[0]), pc.equal(rows.column("seq"), message[1]))
        wanted = pc.and_(wanted, pc.fill_null(same, False))
    return wanted


def _table(events: pa.Table, nodes: set[str], role: dict[str, str]) -> pa.Table:
    """The events at some nodes as rows of a diagram; a node's delivery of its own message is left out."""
    rows = []
    listing = events.to_pylist()
    sent = {(row["origin"], row["seq"]): row for row in listing if row["kind"] == "broadcast"}
    for row in listing:
        name, node = f"{row['origin']}:{row['seq']}", str(row["node"])
        own = row["kind"] == "deliver" and row["node"] == row["origin"]
        if node not in nodes or own:
            continue
        source = sent.get((row["origin"], row["seq"])) if row["kind"] == "deliver" else None
        there = source is not None and str(source["node"]) in nodes
        rows.append(
            {
                "message": name,
                "role": role[name],
                "verb": row["kind"],
                "node": node,
                "pos": row["pos"],
                "seconds": row["t"] / 1e9,
                "sent_at": str(source["node"]) if source is not None and there else None,
                "sent": source["t"] / 1e9 if source is not None and there else None,
            }
        )
    return pa.Table.from_pylist(rows, schema=TABLE)
