"""Audits of logs as people have them: files, and tables with names and types of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from antecast.core.errors import ConfigurationError
from antecast.history.audit import audit
from antecast.history.completeness import Gathering
from antecast.history.histories import Clock
from antecast.history.log_columns import (
    FILE_ORDER,
    BadValue,
    all_paths,
    canonical,
    expectation,
    find,
    form_of,
    pick,
    type_at,
)
from antecast.history.log_files import Log
from antecast.history.log_kinds import KINDS, check_words, in_our_words, kinds_error
from antecast.history.rows import ALL_COLUMNS, BATCH_ROWS, BrokenLog
from antecast.history.verdict import Verdict


def audit_log(
    log: Log, *, dense: Collection[str] | None = None, complete: Collection[object] | None = None, **options: Any
) -> Verdict:
    """Judge a log in files, in this process. What is wrong with it is said with the file and the line.

    `dense` and `complete` are those of `antecast.history.completeness`.
    """
    batches = Gathering(log.batches, dense=dense, complete=complete, look=may_be_dense(log), kinds=log.kinds)
    try:
        verdict = audit(batches, clock=log.clock, **options)
    except BrokenLog as error:
        raise log.place(error) from None
    log.check_kinds(verdict.messages, verdict.tally.deliveries)
    found = batches.judge()
    return replace(verdict, assumed=found.assumed, unsettled=found.unsettled)


def may_be_dense(log: Log) -> tuple[str, ...]:
    """The numbers of a log that are looked at for gaps if nothing is said about them."""
    if log.ours:
        return ("pos",)  # protocols number more than their broadcasts
    if log.columns.get("pos") == FILE_ORDER:
        return ("seq",)  # the order of rows has no gaps of its own
    return ("pos", "seq")


def audit_table(
    table: pa.Table,
    *,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    clock: Clock = "local",
    dense: Collection[str] | None = None,
    complete: Collection[object] | None = None,
    **options: Any,
) -> Verdict:
    """Judge a table, whatever its columns are called and how its numbers and names are typed."""
    columns, kinds = columns or {}, kinds or {}
    check_words(kinds)
    for given, known, what in ((columns, ALL_COLUMNS, "column"), (kinds, KINDS, "kind")):
        for name in given:
            if name not in known:
                problem = f"no such {what} {name!r}; there are {', '.join(known)}"
                raise ConfigurationError(problem, field=f"{what}s")
    used = used_columns(table.schema, columns, clock)

    def batches() -> Iterator[pa.RecordBatch]:
        row = 0
        empty = pa.RecordBatch.from_pylist([], schema=table.schema)  # keeps the types of a log without rows
        for batch in table.to_batches(max_chunksize=BATCH_ROWS) or [empty]:
            arrays = []
            for name, steps in used.items():
                try:
                    arrays.append(canonical(name, pick(batch, steps)))
                except BadValue as error:
                    raise BrokenLog(f"row {row + error.row + 1}: {error.problem}") from None
            yield in_our_words(pa.RecordBatch.from_arrays(arrays, names=list(used)), kinds)
            row += len(batch)

    watched = Gathering(batches, dense=dense, complete=complete, kinds=kinds)
    verdict = audit(watched, clock=clock, **options)
    if len(table) and not (verdict.messages and verdict.tally.deliveries):
        words = pick(_as_one(table), used["kind"]).cast(pa.string()).unique().to_pylist()
        if wrong := kinds_error({str(word) for word in words}, kinds):
            raise BrokenLog(wrong)
    found = watched.judge()
    return replace(verdict, assumed=found.assumed, unsettled=found.unsettled)


def _as_one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def used_columns(schema: pa.Schema, columns: Mapping[str, str], clock: Clock) -> dict[str, tuple[str, ...]]:
    """The columns that count, and the way to each."""
    named = "message" in columns or (find(schema, "message") and not find(schema, columns.get("seq", "seq")))
    left_out = {"origin", "seq"} if named else {"message"}
    used: dict[str, tuple[str, ...]] = {}
    for name in ALL_COLUMNS:
        path = columns.get(name, name)
        if name in left_out or (name == "t" and clock == "local"):
            continue
        steps, kind = find(schema, path), type_at(schema, path)
        if steps is None or kind is None:
            if schema.names.count(path) > 1:
                raise BrokenLog(f"two columns are called {path!r}")
            if name == "run" and "run" not in columns:
                continue
            raise BrokenLog(f"no column {path!r}; the log has {', '.join(all_paths(schema))}")
        if form_of(name, kind) is None:
            raise BrokenLog(f"column {path!r} must hold {expectation(name)}, not {kind}")
        used[name] = steps
    return used
