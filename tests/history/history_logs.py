"""Logs for the tests of `antecast.history`: written by hand in a few words, or made by Hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]
SCHEMA = pa.schema([("pos", pa.int64()), ("kind", pa.string()), ("seq", pa.int64())])


def rows_of(text: str) -> list[Row]:
    """Rows from a line a node, such as `3: b3:1 d1:4 d2:1`; positions count from 0."""
    rows: list[Row] = []
    for line in text.strip().splitlines():
        node, *events = line.split()
        for pos, event in enumerate(events):
            origin, seq = event[1:].split(":")
            kind = {"b": "broadcast", "d": "deliver"}[event[0]]
            name = _name(node.rstrip(":"))
            rows.append({"node": name, "pos": pos, "kind": kind, "origin": _name(origin), "seq": int(seq)})
    return rows


def log(text: str) -> pa.Table:
    return table(rows_of(text))


def table(rows: Sequence[Row], *, text_names: bool = False) -> pa.Table:
    """A table with the columns the rows have; an empty one has the columns that are always needed."""
    kind = pa.string() if text_names or any(isinstance(row["node"], str) for row in rows) else pa.int64()
    fields = [("node", kind), ("origin", kind), *((field.name, field.type) for field in SCHEMA)]
    if rows and "run" in rows[0]:
        fields.append(("run", pa.dictionary(pa.int32(), pa.string())))
    if not rows or "t" in rows[0]:
        fields.append(("t", pa.int64()))
    return pa.Table.from_pylist(list(rows), schema=pa.schema(fields))


def _name(word: str) -> int | str:
    return int(word) if word.isdigit() else word


@st.composite
def histories(draw: st.DrawFn, *, causal: bool = False, most: int = 60) -> list[Row]:
    """Rows of a run that could have been: nothing is delivered before it is broadcast.

    Anything may be lost, repeated or out of order, and nodes may deliver their own messages late or never;
    with `causal` a node delivers only what it has the whole past of, once.
    """
    nodes = draw(st.integers(2, 5))
    actions = draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, 15)), max_size=most))
    gap = draw(st.integers(1, 3))
    seqs = draw(st.sampled_from([_counting, _scattered, _descending]))
    own = draw(st.booleans())
    past: dict[tuple[int, int], set[tuple[int, int]]] = {}
    seen: list[set[tuple[int, int]]] = [set() for _ in range(nodes)]
    delivered: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    rows: list[Row] = []

    def add(node: int, kind: str, message: tuple[int, int]) -> None:
        pos = gap * sum(row["node"] == node for row in rows)
        rows.append({"node": node, "pos": pos, "kind": kind, "origin": message[0], "seq": message[1]})
        seen[node].add(message)
        if kind == "deliver":
            delivered[node].append(message)

    for node, choice in actions:
        pending = [each for each in past if each not in delivered[node] and (each[0] != node or own)]
        if causal:
            pending = [each for each in pending if each[0] != node and past[each] <= seen[node]]
        if choice < 4 or not pending:
            message = (node, seqs(sum(origin == node for origin, _ in past)))
            past[message] = set(seen[node])
            add(node, "broadcast", message)
            if causal and own:
                add(node, "deliver", message)
        elif choice == 4 and delivered[node] and not causal:
            add(node, "deliver", delivered[node][len(rows) % len(delivered[node])])
        else:
            add(node, "deliver", pending[choice % len(pending)])
    return rows


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Logs as they come: several runs, names of any kind, broadcasts missing, rows in any order."""
    runs = draw(st.integers(1, 2))
    logs = [draw(histories()) for _ in range(runs)]
    rows = [row | {"run": f"run-{run}"} for run, log in enumerate(logs) for row in log]
    if runs == 1:
        rows = [{name: value for name, value in row.items() if name != "run"} for row in rows]
    broadcasts = [row for row in rows if row["kind"] == "broadcast"]
    lossy: bool = draw(st.booleans())
    if broadcasts and lossy:
        lost = draw(st.lists(st.sampled_from(broadcasts), max_size=2))
        rows = [row for row in rows if row not in lost]
    text_names: bool = draw(st.booleans())
    if text_names:
        rows = [row | {"node": f"n{row['node']}", "origin": f"n{row['origin']}"} for row in rows]
    rows += [row | {"kind": "send"} for row in rows[:3]]  # other kinds do not count, wherever they stand
    return table(draw(st.permutations(rows)), text_names=text_names)


def _counting(i: int) -> int:
    return i + 1


def _scattered(i: int) -> int:
    return 3 + (i * 7) % 64 + 100 * (i // 64)


def _descending(i: int) -> int:
    return 1000 - i
