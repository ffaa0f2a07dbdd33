"""What a verdict of any model says, as a list of places: the form that gates and annotations need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from antecast.history.log_files import Log
from antecast.history.log_places import locate
from antecast.history.verdict import Verdict
from antecast.kv import KvVerdict
from antecast.text.wording import plural

PLACED = 50
"""Violations of a table of broadcasts that are looked up in their files."""


@dataclass(frozen=True)
class Finding:
    """One violation, or one thing that could not be judged, where it shows."""

    kind: str
    words: str
    file: str | None = None
    line: int | None = None
    level: str = "error"
    """`error` for a violation, `warning` for what is not settled, `note` for either at levels not required."""


def findings(verdict: Any, log: Log | None = None, *, placed: int | None = PLACED) -> Iterator[Finding]:
    """Everything that a verdict lists; of a table of broadcasts, the first `placed` with file and line."""
    if isinstance(verdict, Verdict):
        yield from _of_broadcasts(verdict, log, placed)
        return
    if isinstance(verdict, KvVerdict):
        yield from _of_operations(verdict)
        return
    for row in verdict.violations.to_pylist():
        yield Finding(str(row["kind"]), str(row["words"]), row["file"], row["line"])
    for words, count in verdict.unsettled.items():
        if count:
            notes = [note for note in verdict.notes if "would settle" in note]
            yield Finding("inconclusive", "; ".join([f"{count:,} {words}", *notes[:1]]), level="warning")


def _of_operations(verdict: KvVerdict) -> Iterator[Finding]:
    """Where what is required is kept, what breaks other levels, or leaves them open, is told and fails nothing."""
    violated = "error" if verdict.outcome == "violated" else "note"
    unsettled = "note" if verdict.outcome == "kept" else "warning"
    for row in verdict.violations.to_pylist():
        words = f"session {row['session']}, transaction {row['txn']}: {row['operation']}"
        if row["other"] is not None:
            where = f" ({row['other_file']}:{row['other_line']})" if row["other_line"] else ""
            words += f", though {row['other']}{where}"
        words += f" (violates {row['level']})"
        yield Finding(row["anomaly"], words, row["file"], row["line"] or None, violated)
    for each in verdict.missing:
        yield Finding("inconclusive", each, level=unsettled)


def _of_broadcasts(verdict: Verdict, log: Log | None, placed: int | None) -> Iterator[Finding]:
    rows = verdict.violations.to_pylist()
    keys = [(row.get("run"), row["node"], row["pos"]) for row in rows[:placed]]
    places = {} if log is None else locate(log, keys)
    for row in rows:
        file, line = places.get((row.get("run"), row["node"], row["pos"]), (None, None))
        yield Finding(row["problem"], _words(row), file, line)
    if verdict.tally.unknown:
        examples = "; ".join(verdict.unknown_examples)
        unknown = plural(verdict.tally.unknown, "delivery", "deliveries")
        words = f"{unknown} without a broadcast in the log, for example {examples}"
        yield Finding("inconclusive", words, level="warning")
    elif not verdict.tally.deliveries:
        yield Finding("inconclusive", "nothing was delivered", level="warning")
    for note in verdict.unsettled:
        yield Finding("inconclusive", note, level="warning")


def _words(row: dict[str, Any]) -> str:
    name = row.get("message") or f"{row['origin']}:{row['seq']}"
    cause = row.get("cause_message") or f"{row['cause_origin']}:{row['cause_seq']}"
    run = f"in run {row['run']}, " if row.get("run") is not None else ""
    where = f"{run}node {row['node']}, position {row['pos']}: {name}"
    if row["problem"] == "early":
        return f"{where} came before {cause} (position {row['cause_pos']}), which happened before it"
    if row["problem"] == "late":
        return f"{where} came after {cause} (position {row['cause_pos']}), which depends on it"
    if row["problem"] == "duplicate":
        return f"{where} was delivered before, at position {row['cause_pos']}"
    return f"{where} was delivered at a time before its broadcast"
