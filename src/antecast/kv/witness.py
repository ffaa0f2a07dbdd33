"""The smallest part of a history that still violates a level.

A part is some of the operations. Reads of writes that are left out are left out, too, so that a part demands
nothing that the whole does not: what violates a level in a part violates it in the whole. From the transactions
in which a violation was found, operations are taken away as long as it stays; of what is left, if it is small,
every part is tried, the smallest first. A history of few operations is searched as a whole, so its witness has
the fewest operations of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecast.kv.anomalies import ANOMALIES, Finding, findings
from antecast.kv.cycles import shortest_path
from antecast.kv.engine import Analysis, analyse
from antecast.kv.history import INITIAL_CODE, UNKNOWN_CODE, History, Kind, LongArray, Place
from antecast.kv.levels import LEVELS, Level
from antecast.kv.lists import NO_OP, pieces
from antecast.kv.resolve import Misread, Resolved, resolve
from antecast.kv.words import explain
from antecast.text.wording import escaped

EXHAUSTIVE = 9
"""Operations of which every part is tried: 512 parts, well below a second."""


SEARCHED = 20_000
"""Operations of a history that is searched as a whole where a finding does not show its violation by itself."""


@dataclass(frozen=True)
class Event:
    """An operation of a witness."""

    op: int
    node: str
    """The session."""
    label: str
    """The transaction and what it does, such as `T3 read x=1`."""
    place: Place


@dataclass(frozen=True)
class Witness:
    """A few operations, in an order in which they may have happened, and why they violate the levels."""

    anomaly: str
    levels: tuple[Level, ...]
    """All levels that these operations alone violate."""
    events: tuple[Event, ...]
    arrows: tuple[tuple[int, int], ...]
    """From a write to the reads of it, as indices of events."""
    reason: tuple[str, ...]

    @property
    def ops(self) -> tuple[int, ...]:
        """The operations, ascending."""
        return tuple(sorted(event.op for event in self.events))

    @property
    def words(self) -> str:
        return "\n".join(self.reason)

    @property
    def diagram(self) -> str:
        """A column per session, time downwards; behind `@` the line, with the file if there are several."""
        files = {event.place.file for event in self.events}
        sessions = list(dict.fromkeys(event.node for event in self.events))
        rows = [[f"session {escaped(str(session))}" for session in sessions]]
        for event in self.events:
            where = event.place.line if len(files) == 1 else event.place
            rows.append([f"{escaped(event.label)} @{where}" if event.node == each else "|" for each in sessions])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)

    def summary(self) -> dict[str, Any]:
        """As plain values, ready for JSON and for the drawing of the report."""
        head = f"{ANOMALIES[self.anomaly].words}, against {', '.join(self.levels)}"
        return {
            "kind": self.anomaly,
            "words": f"{head}: {'; '.join(self.reason)}",
            "diagram": self.diagram,
            "events": [
                {"node": each.node, "label": each.label, "file": each.place.file, "line": each.place.line}
                for each in self.events
            ],
            "arrows": [list(arrow) for arrow in self.arrows],
        }

    def __str__(self) -> str:
        about = ANOMALIES[self.anomaly]
        head = f"{self.anomaly}: {about.words} (violates {', '.join(self.levels)})"
        return "\n".join([head, *map(escaped, self.reason), "", self.diagram])


@dataclass(frozen=True)
class Parts:
    """A history of which parts can be judged: every read names its writer, whatever values were written twice."""

    history: History
    value: LongArray
    writer: LongArray

    @classmethod
    def of(cls, resolved: Resolved) -> Parts:
        history = resolved.history
        value = np.where(history.kind == Kind.WRITE, np.arange(len(history)), resolved.writer)
        value[value == NO_OP] = INITIAL_CODE
        invented = resolved.m_op[resolved.misread == Misread.THIN_AIR]
        value[invented] = len(history) + invented
        value[resolved.unknown] = UNKNOWN_CODE
        value[list(resolved.open)] = UNKNOWN_CODE
        return cls(history, value, resolved.writer)

    def judge(self, ops: Iterable[int], *, memory: bool = True) -> tuple[Analysis, LongArray]:
        """The analysis of a part, and its operations."""
        mask = np.zeros(len(self.history), np.bool_)
        mask[list(ops)] = True
        return self.judge_mask(mask, memory=memory)

    def judge_mask(self, mask: NDArray[np.bool_], *, memory: bool = True) -> tuple[Analysis, LongArray]:
        if self.history.lists:  # a list is read with all of its elements, or it would seem to lack them
            end = pieces(self.history).end
            mask = mask | ((self.history.kind == Kind.OBSERVE) & mask[end])
        kept = mask & ((self.writer == NO_OP) | mask[self.writer])
        return analyse(resolve(self.history.subset(kept, self.value)), memory=memory), np.flatnonzero(kept)

    def violates(self, level: Level) -> Callable[[Iterable[int]], bool]:
        def violated(ops: Iterable[int]) -> bool:
            return level in self.judge(ops, memory=level == "CM")[0].violated

        return violated


def smallest_part(
    ops: list[int], violates: Callable[[Iterable[int]], bool], txn: Callable[[int], int]
) -> list[int]:
    """A part that violates and has no smaller one; if it is small, the smallest there is."""
    if len(ops) > EXHAUSTIVE:
        ops = _without(ops, violates, sorted({txn(op) for op in ops}), lambda each: txn(each))
        ops = _without(ops, violates, list(ops), lambda each: each)
    if len(ops) <= EXHAUSTIVE:
        for size in range(1, len(ops)):
            for part in combinations(ops, size):
                if violates(part):
                    return list(part)
    return ops


def _without(
    ops: list[int], violates: Callable[[Iterable[int]], bool], units: list[int], unit: Callable[[int], int]
) -> list[int]:
    """Leave out units (transactions or operations) in ever smaller chunks as long as the violation stays."""
    size = max(1, len(units) // 2)
    while units:
        at = 0
        while at < len(units):
            rest = set(units[:at] + units[at + size :])
            part = [op for op in ops if unit(op) in rest]
            if part and violates(part):
                units, ops = [each for each in units if each in rest], part
            else:
                at += size
        if size == 1:
            break
        size = max(1, size // 2)
    return ops


def witness_of(analysis: Analysis, finding: Finding) -> Witness | None:
    """The smallest witness of the level that a finding breaks, and its words.

    None if the transactions of the finding do not show it by themselves and the history is too large to search.
    """
    parts = Parts.of(analysis.resolved)
    level = ANOMALIES[finding.anomaly].level
    history = analysis.resolved.history
    if level not in analysis.violated:  # a cycle that is explained by something weaker
        level = next(each for each in ("CCv", "CC", "CM", *LEVELS) if each in analysis.violated)
    everything = list(range(len(history)))
    if len(history) <= EXHAUSTIVE:
        ops = everything
    else:
        chosen = np.isin(history.txn, around(analysis, finding))
        ops = np.flatnonzero(chosen).tolist()
        if not parts.violates(level)(ops):
            if len(history) > SEARCHED:
                return None
            ops = everything
    ops = smallest_part(ops, parts.violates(level), lambda op: int(history.txn[op]))
    return describe(parts, ops, level)


def describe(parts: Parts, ops: list[int], level: Level) -> Witness:
    """A part in words."""
    history = parts.history
    analysis, kept = parts.judge(ops)
    found = [each.anomaly for each in findings(analysis, 1)]
    anomaly = next((name for name in found if _reaches(name, level)), found[0] if found else "conflict-AO")
    events = [
        Event(
            int(op),
            str(history.sessions[int(history.session[history.txn[op]])]),
            f"{history.txn_name(int(history.txn[op]))} {history.describe(int(op))}",
            history.place(int(op)),
        )
        for op in _in_order(analysis, kept)
    ]
    at = {event.op: index for index, event in enumerate(events)}
    arrows = [(at[int(parts.writer[op])], at[op]) for op in at if int(parts.writer[op]) in at]
    levels = tuple(each for each in LEVELS if each in analysis.violated)
    return Witness(anomaly, levels, tuple(events), tuple(arrows), tuple(explain(analysis, history, kept, level)))


def _in_order(analysis: Analysis, kept: LongArray) -> LongArray:
    """Operations in a causal order, if causality has no cycle; those of aborted transactions first."""
    resolved = analysis.resolved
    rank = np.full(len(resolved.history.session), -1)
    if not analysis.cyclic:
        rank[resolved.node_txn[analysis.order]] = np.arange(len(resolved))
        rank = np.where(rank >= 0, rank, -1)
    found: LongArray = kept[np.lexsort((np.arange(len(kept)), rank[resolved.history.txn]))]
    return found


_LINE: tuple[Level, ...] = ("read-committed", "read-atomic", "CC", "CCv", "CM")


def _reaches(name: str, level: Level) -> bool:
    """Whether an anomaly breaks a level by itself. Cycles of demands of several readers leave CC and CM alone."""
    if level in ("CC", "CM") and name.endswith("-AO"):
        return False
    return _LINE.index(ANOMALIES[name].level) <= _LINE.index(level)


def around(analysis: Analysis, finding: Finding) -> list[int]:
    """The transactions of a finding and those that connect them causally."""
    resolved, graph = analysis.resolved, analysis.graph
    chosen = np.flatnonzero(np.isin(resolved.node_txn, finding.txns)).tolist()
    nodes = set(chosen)
    if not analysis.cyclic and finding.other >= 0 and analysis.known is not None:
        for first in chosen:
            for then in chosen:
                if first != then:
                    seen = analysis.known[then, graph.session[first]] > first - graph.start[graph.session[first]]
                    if seen:
                        nodes |= set(shortest_path(graph, first, then, {}, None) or ())
    return sorted({int(resolved.node_txn[node]) for node in nodes} | set(finding.txns))
