"""The oracle: causal order from its definition, as plainly as it can be written. For tests.

It shares nothing with the auditor but the exception. Rows become Python tuples, the past of a message
a bit set in an int, and every pair of messages is compared at every node: for small logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import pyarrow as pa

from antecast.history.rows import BrokenLog


class Node(NamedTuple):
    run: object
    node: object


class Message(NamedTuple):
    run: object
    origin: object
    seq: int

    @property
    def source(self) -> Node:
        return Node(self.run, self.origin)


@dataclass(frozen=True)
class Judgement:
    """What a log contains, each violation by name."""

    early: set[tuple[Node, Message]]
    late: set[tuple[Node, Message]]
    pairs: set[tuple[Node, Message, Message]]
    """(node, x, m) with x → m, and x after m at the node."""
    duplicates: set[tuple[Node, int, Message]]
    """With the position of the repeated delivery."""
    unknown: list[tuple[Node, int, Message]]
    before_broadcast: set[tuple[Node, int, Message]]
    direct: dict[Message, set[Message]]
    """Everything that the origin of a message broadcast or delivered before it, unreduced."""
    past: dict[Message, int]
    """The causal past as a bit set; bit i is the i-th key of this dictionary."""

    def happened_before(self, x: Message, m: Message) -> bool:
        return bool(self.past[m] >> list(self.past).index(x) & 1)


def judge(events: pa.Table, *, clock: str = "local") -> Judgement:
    """Judge a log from the definitions; raises `BrokenLog` where there can be no judgement."""
    rows = events.to_pylist()
    if any(row["kind"] is None or ("run" in row and row["run"] is None) for row in rows):
        raise BrokenLog("kind or run is null")
    rows = [row for row in rows if row["kind"] in ("broadcast", "deliver")]
    for row in rows:
        for name in ("node", "pos", "origin", "seq"):
            if row[name] is None or (name in ("pos", "seq") and row[name] < 0):
                raise BrokenLog(f"{name} is {row[name]}")
    log = sorted(
        (
            (
                Node(row.get("run"), row["node"]),
                row["pos"],
                row["kind"],
                Message(row.get("run"), row["origin"], row["seq"]),
                row.get("t"),
            )
            for row in rows
        ),
        key=lambda event: event[1],
    )
    if len({(node, pos) for node, pos, *_ in log}) < len(log):
        raise BrokenLog("two events at one position")

    broadcast_at: dict[Message, int] = {}
    broadcast_time: dict[Message, int] = {}
    for node, pos, kind, message, t in log:
        if kind == "broadcast":
            if message.source != node:
                raise BrokenLog("broadcast of another node's message")
            if message in broadcast_at:
                raise BrokenLog("broadcast twice")
            broadcast_at[message] = pos
            broadcast_time[message] = t

    position: dict[Node, dict[Message, int]] = {}
    seen_before: dict[Message, set[Message]] = {}
    seen: dict[Node, set[Message]] = {}
    duplicates, unknown, before = set(), [], set()
    for node, pos, kind, message, t in log:
        here, known = position.setdefault(node, {}), seen.setdefault(node, set())
        if kind == "broadcast":
            seen_before[message] = set(known)
            known.add(message)
            continue
        if message not in broadcast_at:
            unknown.append((node, pos, message))
            continue
        if message.source == node and pos < broadcast_at[message]:
            raise BrokenLog("delivered at its origin before its broadcast")
        if clock == "global" and t < broadcast_time[message]:
            before.add((node, pos, message))
        if message in here:
            duplicates.add((node, pos, message))
        else:
            here[message] = pos
            known.add(message)
    delivers_own = {node for node, here in position.items() if any(each.source == node for each in here)}
    for message, pos in broadcast_at.items():
        if message.source not in delivers_own:
            position[message.source].setdefault(message, pos)

    past = _closure(seen_before)
    members = list(past)
    pairs = {
        (node, x, m)
        for node, here in position.items()
        for m in here
        for i, x in enumerate(members)
        if past[m] >> i & 1 and x in here and here[x] > here[m]
    }
    return Judgement(
        early={(node, m) for node, _, m in pairs},
        late={(node, x) for node, x, _ in pairs},
        pairs=pairs,
        duplicates=duplicates,
        unknown=unknown,
        before_broadcast=before,
        direct=seen_before,
        past=past,
    )


def _closure(direct: dict[Message, set[Message]]) -> dict[Message, int]:
    try:
        order = list(TopologicalSorter(direct).static_order())
    except CycleError as error:
        raise BrokenLog(f"happened-before has a cycle: {error.args[1]}") from None
    bit = {message: 1 << i for i, message in enumerate(order)}
    past: dict[Message, int] = {}
    for message in order:
        past[message] = 0
        for x in direct[message]:
            past[message] |= bit[x] | past[x]
    return past
