"""`check`: the verdict on a history.

What is not known is never taken for fine:
- A read without a known result, or of a value that several transactions wrote, is left out at first. What is
  violated without it is violated; what is kept without it may not be.
- If few enough reads have several candidates, every choice of writers is tried. A level is kept if some choice
  keeps it, and violated if none does. Otherwise a choice of likely writers is tried: if it keeps a level, the
  level is kept; if not, the verdict is inconclusive. (Without unique values the question is NP-complete,
  Bouajjani et al.)
- Indeterminate transactions: see `resolve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np
import pyarrow as pa

from antecast.kv.anomalies import ANOMALIES, Finding, findings, tally
from antecast.kv.engine import Analysis, analyse
from antecast.kv.history import History, LongArray, Status
from antecast.kv.levels import CAUSAL, LEVELS, SESSION, Level, Outcome
from antecast.kv.memory import keeps_lists
from antecast.kv.resolve import Misread, Resolved, resolve
from antecast.kv.verdict import SCHEMA, KvVerdict
from antecast.kv.witness import Witness, witness_of


@dataclass(frozen=True)
class Options:
    """What a person may say about a check."""

    require: tuple[Level, ...] = LEVELS
    """The levels that the outcome is about; all are reported."""
    complete: bool = True
    """Whether the history has every transaction. If not, a read that nobody wrote is a gap, no violation."""
    limit: int = 10_000
    """Violations of a kind that are listed."""
    choices: int = 512
    """Choices of writers that are tried where values were written more than once."""
    witnesses: bool = True
    """Whether to look for the smallest witness of each kind of violation."""


def check(history: History, options: Options | None = None) -> KvVerdict:
    """Judge a history by all levels."""
    options = options or Options()
    resolved = resolve(history)
    first = analyse(resolved)
    levels, analysis = _settle(history, resolved, first, options)
    missing = _missing(history, resolved, options, levels)
    found = findings(analysis, options.limit)
    counts = tally(analysis, found)
    if not options.complete:
        found = [each for each in found if each.anomaly != "thin-air-read"]
        counts.pop("thin-air-read", None)
    return KvVerdict(
        levels,
        options.require,
        len(history),
        len(history.session),
        len(history.sessions),
        counts,
        _table(history, found),
        _witnesses(analysis, found) if options.witnesses else (),
        tuple(missing),
        tuple(_assumptions(history, options)),
    )


def _settle(
    history: History, resolved: Resolved, first: Analysis, options: Options
) -> tuple[dict[Level, Outcome], Analysis]:
    """The outcome of each level, and the analysis whose findings are shown."""
    violated = _violated(first, options)
    outcomes: dict[Level, Outcome] = {level: "violated" if level in violated else "kept" for level in LEVELS}
    analysis = first
    left = [level for level in LEVELS if level not in violated]
    if resolved.open and left:
        for number, choice in enumerate(_choices(history, resolved, options)):
            other = analyse(resolve(history, choice))
            kept = [level for level in left if level not in _violated(other, options)]
            left = [level for level in left if level not in kept]
            if not left:
                break
            analysis = other if number == 0 else analysis
        exhausted = prod(len(each) for each in resolved.open.values()) <= options.choices
        for level in left:
            outcomes[level] = "violated" if exhausted else "inconclusive"
        if not (exhausted and left):
            analysis = first
    if len(resolved.unknown) or _is_void(history):
        outcomes = {level: "inconclusive" if each == "kept" else each for level, each in outcomes.items()}
    if history.lists:  # of lists, only convergence is judged in full
        unclear = [level for level in LEVELS if level not in ("CCv", "CM") and outcomes["CCv"] != "kept"]
        if not keeps_lists(analysis.resolved):
            unclear.append("CM")
        outcomes |= {level: "inconclusive" for level in unclear if outcomes[level] == "kept"}
    lost = np.isin(resolved.misread, (Misread.THIN_AIR, Misread.ABORTED)).any()
    if lost:
        outcomes |= {
            level: "inconclusive"
            for level in (SESSION if options.complete else LEVELS)
            if outcomes[level] == "kept"
        }
    return outcomes, analysis


def judged_levels(
    analysis: Analysis, misreads: LongArray, unknown: int, opened: int, options: Options, *, committed: bool
) -> dict[Level, Outcome]:
    """The outcomes of a history of which only numbers are known; values that several wrote leave them open, and so
    does a history in which nothing was committed."""
    violated = set(analysis.violated)
    wrong = misreads.copy()
    if not options.complete:
        wrong[Misread.THIN_AIR] = 0
    if wrong.any():
        violated |= {"read-committed", "read-atomic", *CAUSAL}
    if misreads[[Misread.NOT_MY_OWN, Misread.NOT_MY_LAST]].any():
        violated.add("read-your-writes")
    unclear = set(LEVELS) if unknown or opened or not committed else set()
    if misreads[[Misread.THIN_AIR, Misread.ABORTED]].any():
        unclear |= set(SESSION if options.complete else LEVELS)
    open_or_kept: dict[Level, Outcome] = {
        level: "inconclusive" if level in unclear else "kept" for level in LEVELS
    }
    return open_or_kept | dict.fromkeys(violated, "violated")


def what_is_missing(unknown: int, opened: int, misreads: LongArray, levels: Mapping[Level, Outcome]) -> list[str]:
    """What keeps such a history from being judged, and what would settle it."""
    if "inconclusive" not in levels.values():
        return []
    said = []
    if unknown:
        said.append(f"reads without a result: {unknown}; log what they returned")
    if opened:
        said.append(f"reads of values that several transactions wrote: {opened}; write each value once per key")
    lost = int(misreads[[Misread.THIN_AIR, Misread.ABORTED]].sum())
    if lost:
        said.append(f"reads of what no committed transaction wrote: {lost}; log all writers")
    return said or ["the history has no operation that was committed; nothing was judged"]


def _is_void(history: History) -> bool:
    """Whether there is nothing to judge: transactions that did nothing are none."""
    return not (history.status[history.txn] == Status.COMMITTED).any()


def _violated(analysis: Analysis, options: Options) -> set[Level]:
    """In a history that is not complete, reads that nobody wrote are gaps."""
    misread = analysis.resolved.misread
    if options.complete or not len(misread) or (misread != Misread.THIN_AIR).any() or analysis.cyclic:
        return analysis.violated
    return analyse(_without_gaps(analysis.resolved)).violated


def _without_gaps(resolved: Resolved) -> Resolved:
    real = resolved.misread != Misread.THIN_AIR
    return replace(
        resolved, misread=resolved.misread[real], m_op=resolved.m_op[real], m_write=resolved.m_write[real]
    )


def _choices(history: History, resolved: Resolved, options: Options) -> list[Mapping[int, int]]:
    """All choices of writers if they are few, else one that is likely: the last candidate before the read."""
    reads = list(resolved.open)
    if prod(len(each) for each in resolved.open.values()) <= options.choices:
        return [dict(zip(reads, each, strict=True)) for each in product(*resolved.open.values())]
    likely = {op: max((each for each in some if each < op), default=some[0]) for op, some in resolved.open.items()}
    newest = {op: some[-1] for op, some in resolved.open.items()}
    oldest = {op: some[0] for op, some in resolved.open.items()}
    return [likely, newest, oldest]


def _witnesses(analysis: Analysis, found: list[Finding]) -> tuple[Witness, ...]:
    """One for each anomaly; two findings may have the same smallest witness."""
    firsts: dict[str, Finding] = {}
    for each in found:
        firsts.setdefault(each.anomaly, each)
    made = [witness_of(analysis, each) for each in firsts.values()]
    return tuple({witness.ops: witness for witness in made if witness is not None}.values())


def _table(history: History, found: list[Finding]) -> pa.Table:
    txn = [int(history.txn[each.op]) for each in found]
    has = [each.other >= 0 for each in found]
    columns = {
        "anomaly": [each.anomaly for each in found],
        "pattern": [ANOMALIES[each.anomaly].pattern for each in found],
        "level": [ANOMALIES[each.anomaly].level for each in found],
        "session": [str(history.sessions[int(history.session[each])]) for each in txn],
        "txn": [history.txn_name(each)[1:] for each in txn],
        "operation": [history.describe(each.op) for each in found],
        "file": [history.place(each.op).file for each in found],
        "line": [history.place(each.op).line for each in found],
        "other": [history.describe(each.other) if ok else None for each, ok in zip(found, has, strict=True)],
        "other_file": [
            history.place(each.other).file if ok else None for each, ok in zip(found, has, strict=True)
        ],
        "other_line": [
            history.place(each.other).line if ok else None for each, ok in zip(found, has, strict=True)
        ],
        "txns": [[history.txn_name(one)[1:] for one in each.txns] for each in found],
    }
    return pa.table(columns, schema=SCHEMA)


def _missing(history: History, resolved: Resolved, options: Options, levels: Mapping[Level, Outcome]) -> list[str]:
    """What keeps levels from being judged, and what would settle it."""
    if _is_void(history):
        return ["the history has no operation that was committed; nothing was judged"]
    if "inconclusive" not in levels.values():
        return []
    said = []
    if len(resolved.unknown):
        where = history.place(int(resolved.unknown[0]))
        said.append(f"reads without a result: {len(resolved.unknown)} ({where}); log what they returned")
    if resolved.open:
        where = history.place(next(iter(resolved.open)))
        said.append(
            f"reads of values that several transactions wrote: {len(resolved.open)} ({where}); "
            "write each value once per key"
        )
    if history.lists:
        said.append("of lists, CCv is judged in full, other levels by the last elements; registers settle them")
    lost = resolved.m_op[np.isin(resolved.misread, (Misread.THIN_AIR, Misread.ABORTED))]
    if len(lost):
        where = history.place(int(lost[0]))
        said.append(f"reads of what no committed transaction wrote: {len(lost)} ({where}); log all writers")
    return said


def _assumptions(history: History, options: Options) -> list[str]:
    said = [
        "the history has every transaction of every session" if options.complete else "transactions may be missing"
    ]
    doubtful = int((history.status == Status.INDETERMINATE).sum())
    if doubtful:
        said.append(
            f"indeterminate transactions ({doubtful}) count as committed if their writes were read, else aborted"
        )
    if history.lists:
        said.append("a list that was read counts as a read of its last element that depends on all the others")
    return [*said, *history.notes]
