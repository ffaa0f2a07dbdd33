"""The published anomalies by name, and where a history has them.

The fourteen are the transactional anomalous patterns of Liu, Gu, Wei and Basin, *Plume: Efficient and Complete
Black-Box Checking of Weak Isolation Levels*, with their letters; `pattern` is the name of the same thing in
Bouajjani et al., *On Verifying Causal Consistency*. Causal memory adds two of the latter. CO is causality; AO is
the order of transactions that reads demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecast.kv.cycles import NO_EDGES, Edges, short_cycles, way_before
from antecast.kv.engine import Analysis, precedes
from antecast.kv.history import LongArray
from antecast.kv.levels import Level
from antecast.kv.resolve import Misread, Resolved
from antecast.kv.stale import ATOMIC, COMMITTED, Stale

CYCLES = 10
"""Cycles of a kind that are listed: one that is found is cut, and the search goes on."""


class Anomaly(NamedTuple):
    letter: str
    name: str
    level: Level
    """The weakest level, of the line of read committed, read atomic and the causal ones, that forbids it."""
    pattern: str
    words: str


ANOMALIES = {
    each.name: each
    for each in (
        Anomaly("a", "thin-air-read", "read-committed", "ThinAirRead", "a read returns what nobody wrote"),
        Anomaly("b", "aborted-read", "read-committed", "ThinAirRead", "a read returns what was rolled back"),
        Anomaly("c", "future-read", "read-committed", "CyclicCO", "a read returns its transaction's later write"),
        Anomaly("d", "not-my-own-write", "read-committed", "WriteCORead", "a read misses its transaction's write"),
        Anomaly(
            "e", "not-my-last-write", "read-committed", "WriteCORead", "a read misses its transaction's last write"
        ),
        Anomaly(
            "f", "intermediate-read", "read-committed", "WriteCORead", "a read returns what its writer overwrote"
        ),
        Anomaly("g", "cyclic-causal-order", "read-committed", "CyclicCO", "transactions depend on each other"),
        Anomaly(
            "h",
            "non-monotonic-read-CO",
            "read-committed",
            "WriteCORead",
            "a read returns less than an earlier one of its transaction has shown",
        ),
        Anomaly(
            "i",
            "non-monotonic-read-AO",
            "read-committed",
            "CyclicCF",
            "reads of transactions demand an order that has a cycle",
        ),
        Anomaly(
            "j", "non-repeatable-read", "read-atomic", "CyclicCF", "two reads of a key in a transaction differ"
        ),
        Anomaly(
            "k",
            "fractured-read-CO",
            "read-atomic",
            "WriteCORead",
            "a read is older than what its transaction reads elsewhere, or its session wrote",
        ),
        Anomaly(
            "l",
            "fractured-read-AO",
            "read-atomic",
            "CyclicCF",
            "reads that see parts of transactions demand an order that has a cycle",
        ),
        Anomaly("m", "conflict-CO", "CC", "WriteCORead", "a read is older than its causal past"),
        Anomaly("n", "conflict-AO", "CCv", "CyclicCF", "no one order of all transactions explains the reads"),
        Anomaly(
            "-", "cyclic-happened-before", "CM", "CyclicHB", "no order of its past explains the reads of a session"
        ),
        Anomaly(
            "-",
            "stale-initial-read",
            "CM",
            "WriteHBInitRead",
            "a read finds nothing, though its session's order has a write before it",
        ),
    )
}

_MISREADS = {
    Misread.THIN_AIR: "thin-air-read",
    Misread.ABORTED: "aborted-read",
    Misread.FUTURE: "future-read",
    Misread.NOT_MY_OWN: "not-my-own-write",
    Misread.NOT_MY_LAST: "not-my-last-write",
    Misread.INTERMEDIATE: "intermediate-read",
}


def misread_name(kind: Misread) -> str:
    """The anomaly that a wrong read is."""
    return _MISREADS[kind]


@dataclass(frozen=True)
class Finding:
    """One anomaly: the operation that shows it, and the transactions that it takes to see why."""

    anomaly: str
    op: int
    other: int
    """The write that the operation returned or missed; -1 if there is none."""
    txns: tuple[int, ...]


def findings(analysis: Analysis, limit: int) -> list[Finding]:
    """What was found, at most so many of a kind; of cycles fewer."""
    found = list(_misreads(analysis.resolved, limit))
    if analysis.cyclic:
        return [*found, *_cycles(analysis, "cyclic-causal-order", NO_EDGES)]
    if analysis.stale is not None:
        unrepeatable = list(_unrepeatable(analysis.resolved, limit))
        plain = [set(each.txns) for each in unrepeatable]
        demanded = [each for each in _demanded(analysis) if not any(set(each.txns) <= some for some in plain)]
        found += [*_stale(analysis, limit), *unrepeatable, *demanded]
    if "CC" not in analysis.violated:  # what breaks CC breaks CM, and says more
        for broken in analysis.broken[:limit]:
            edges = Edges(broken.before, broken.after, broken.reads)
            if broken.stale_initial >= 0:
                stale = _read_finding(analysis, "stale-initial-read", broken.stale_initial, broken.overwriter)
                reader = int(analysis.resolved.r_node[broken.stale_initial])
                nodes = way_before(analysis, edges, broken.overwriter, reader)
                found.append(replace(stale, txns=_txns(analysis.resolved, {*stale.txns, *nodes})))
            else:
                found += _cycles(analysis, "cyclic-happened-before", edges, most=1)
    return found


def tally(analysis: Analysis, found: list[Finding]) -> dict[str, int]:
    """How often each anomaly was found: all reads, and the cycles that are listed."""
    counts = dict.fromkeys(ANOMALIES, 0)
    for each in found:
        counts[each.anomaly] += 1
    for kind, name in _MISREADS.items():
        counts[name] = int((analysis.resolved.misread == kind).sum())
    if analysis.stale is not None:
        names = _stale_names(analysis.stale)
        counts |= {name: int((names == name).sum()) for name in _STALE}
        counts["conflict-CO"] += len(np.setdiff1d(analysis.lost, analysis.stale.reads))
        counts["non-repeatable-read"] = len(_differing(analysis.resolved)[1])
    return {name: count for name, count in counts.items() if count}


def _misreads(resolved: Resolved, limit: int) -> Iterator[Finding]:
    txn = resolved.history.txn
    for kind, name in _MISREADS.items():
        for at in np.flatnonzero(resolved.misread == kind)[:limit]:
            op, write = int(resolved.m_op[at]), int(resolved.m_write[at])
            txns = {int(txn[op])} | ({int(txn[write])} if write >= 0 else set())
            yield Finding(name, op, write, tuple(sorted(txns)))


_STALE = ("non-monotonic-read-CO", "fractured-read-CO", "conflict-CO")


def _stale_names(stale: Stale) -> NDArray[np.str_]:
    """The anomaly of each stale read: the one that the weakest level forbids."""
    committed, atomic = (stale.breaks & COMMITTED) > 0, (stale.breaks & ATOMIC) > 0
    return np.where(committed, _STALE[0], np.where(atomic, _STALE[1], _STALE[2]))


def _stale(analysis: Analysis, limit: int) -> Iterator[Finding]:
    assert analysis.stale is not None
    stale = analysis.stale
    names = _stale_names(stale)
    for name in _STALE:
        for at in np.flatnonzero(names == name)[:limit]:
            yield _read_finding(analysis, name, int(stale.reads[at]), int(stale.newer[at]))
    resolved = analysis.resolved
    for read in np.setdiff1d(analysis.lost, stale.reads)[:limit]:
        nodes = [
            int(resolved.r_node[read]),
            *analysis.graph.w_node[resolved.w_key == resolved.r_key[read]].tolist(),
        ]
        yield Finding("conflict-CO", int(resolved.r_op[read]), -1, _txns(resolved, nodes))


def _read_finding(analysis: Analysis, name: str, read: int, newer: int) -> Finding:
    """A read and the newer write that it missed."""
    resolved = analysis.resolved
    reader, source = int(resolved.r_node[read]), int(resolved.r_from[read])
    write = analysis.graph.entry(int(resolved.r_key[read]), newer)
    nodes = [reader, newer] if source < 0 else [reader, newer, source]
    return Finding(name, int(resolved.r_op[read]), int(resolved.w_op[write]), _txns(resolved, nodes))


def _unrepeatable(resolved: Resolved, limit: int) -> Iterator[Finding]:
    """Reads of one key by one transaction from two sources."""
    order, differs = _differing(resolved)
    for at in differs[:limit]:
        first, second = order[at], order[at + 1]
        sources = [int(resolved.r_from[each]) for each in (first, second) if resolved.r_from[each] >= 0]
        nodes = [int(resolved.r_node[first]), *sources]
        yield Finding(
            "non-repeatable-read", int(resolved.r_op[second]), int(resolved.r_op[first]), _txns(resolved, nodes)
        )


def _differing(resolved: Resolved) -> tuple[LongArray, LongArray]:
    """The reads by transaction and key, and the places where one differs from the next."""
    order = np.lexsort((np.arange(len(resolved.r_key)), resolved.r_key, resolved.r_node))
    node, key, source = resolved.r_node[order], resolved.r_key[order], resolved.r_from[order]
    differs = (node[1:] == node[:-1]) & (key[1:] == key[:-1]) & (source[1:] != source[:-1])
    return order, np.flatnonzero(differs)


def _demanded(analysis: Analysis) -> Iterator[Finding]:
    """Cycles that need demands of reads none of which is stale by itself: at the weakest level that has some."""
    assert analysis.committed is not None and analysis.atomic is not None and analysis.demands is not None
    asked = analysis.demands
    named = (
        ("non-monotonic-read-AO", analysis.committed.before, analysis.committed.after, analysis.committed.read),
        ("fractured-read-AO", analysis.atomic.before, analysis.atomic.after, analysis.atomic.read),
        ("conflict-AO", asked.before, asked.after, np.full(len(asked.before), -1, np.int64)),
    )
    for name, before, after, reads in named:
        fresh = ~precedes(analysis, after, before)
        found = list(_cycles(analysis, name, Edges(before[fresh], after[fresh], reads[fresh])))
        yield from found
        if found:
            return


def _cycles(analysis: Analysis, name: str, edges: Edges, most: int = CYCLES) -> Iterator[Finding]:
    for cycle, nodes in short_cycles(analysis, edges, most):
        yield Finding(name, _shown(analysis, cycle, nodes), -1, _txns(analysis.resolved, nodes))


def _shown(analysis: Analysis, cycle: list[int], nodes: set[int]) -> int:
    """The operation at which a cycle shows: a read of one of its transactions."""
    resolved = analysis.resolved
    for node in (*cycle, *sorted(nodes)):
        low, high = analysis.graph.read_at[node], analysis.graph.read_at[node + 1]
        if high > low:
            return int(resolved.r_op[low])
    return int(np.flatnonzero(resolved.history.txn == resolved.node_txn[cycle[0]])[0])


def _txns(resolved: Resolved, nodes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(int(resolved.node_txn[node]) for node in set(nodes)))
