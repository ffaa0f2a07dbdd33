"""The auditor: does a log keep causal order?

Theory of operation. For a node j let reach_j(x) be the largest position at j of any message in the
causal past of x, x included. Along a topological order it is the maximum of the position of x at j and
of reach_j(d) for the direct dependencies d of x. Message m came too early at j exactly when reach_j(m)
exceeds its position, for then, and only then, something of its past came later: the message at the
position that reach_j(m) names. A message that j never got has no position but it has a reach, so order
is carried across what was lost, which a test of direct dependencies alone would miss. The mirror pass,
smallest positions against the topological order, gives the messages that came too late. If nothing is
early then nothing is late, and it is skipped.

Nodes are independent, and are checked in blocks (`antecast.history.blocks`). Runs are independent too, and a
block looks only at the messages of its own.

`audit` does it all in one process. Everything it calls works on parts: `MessageIndex.read` on the
broadcasts, then for the rows of some nodes `read_histories`, `sketch`, `reduce` and `check_block`. It makes use
of that where a log has more events than memory has room for (`antecast.history.storage`).
"""

from __future__ import annotations

from contextlib import ExitStack

from antecast.history.blocks import MEMORY, blocks, check_block
from antecast.history.dependencies import (
    ENOUGH,
    Dependencies,
    Ordered,
    cycle_error,
    reduce,
    sketch,
    topological_order,
)
from antecast.history.histories import LIMIT, Clock
from antecast.history.joints import with_joints
from antecast.history.messages import MessageIndex
from antecast.history.rows import Events, rereadable
from antecast.history.storage import EventCounts, HistoryParts, read_parts
from antecast.history.verdict import Verdict
from antecast.history.violations import add_tallies, merge_violations
from antecast.history.witness import CYCLE_STEPS, find_witness, witness_of_parts


def audit(
    events: Events,
    *,
    clock: Clock = "local",
    pairs: bool = False,
    limit: int = LIMIT,
    memory: int | None = None,
) -> Verdict:
    """Judge a log: its broadcasts and deliveries say all.

    `clock="global"` says that times of different nodes compare, and checks that nothing is delivered before
    its broadcast. `pairs` counts every pair in the wrong order, which can take far longer than all
    the rest. `limit` bounds the violations of each kind that are listed; all are counted. `memory` bounds the
    bytes for events and for matrices; events beyond it wait in temporary files. Default: all events in memory, 8
    bytes each. Besides, messages take some 100 bytes each.

    Raises `BrokenLog` if the log contradicts itself.
    """
    batches, counts = rereadable(events), EventCounts()
    matrices = MEMORY if memory is None else min(MEMORY, memory // 4)
    room = None if memory is None else memory - matrices
    index = MessageIndex.read(counts.counting(batches()), timed=clock == "global")
    with ExitStack() as kept:
        parts, reading = read_parts(batches(), index, counts, clock=clock, limit=limit, room=room, kept=kept)
        matrix = _dependencies(parts, index)
        order, cycle = topological_order(matrix, index)
        if cycle:  # told by what nodes have seen, without joints
            plain = _dependencies(parts, index, joints=False)
            cycle = topological_order(plain)[1]
            origins = {index.nodes.names[index.origin[each]] for each in cycle[:CYCLE_STEPS]}
            raise cycle_error(cycle, parts.pick(origins), index, most=CYCLE_STEPS)
        ordered = Ordered.of(matrix, order)
        tally, runs, tables = reading.tally, reading.runs, [reading.violations]
        for part in parts:
            for block in blocks(part, index, ordered, matrices):
                check = check_block(block, index, ordered, pairs=pairs, limit=limit)
                tally += check.tally
                runs = add_tallies(runs, check.runs) if check.runs else runs
                tables.append(check.violations)
        violations = merge_violations(tables, limit)
        if len(parts) == 1:
            witness = find_witness(violations, reading.histories, index)
        else:
            witness = witness_of_parts(violations, parts.pick, index, matrix)
        return Verdict(
            messages=len(index),
            tally=tally,
            pairs=tally.pairs if pairs else None,
            violations=violations,
            unknown_examples=reading.unknown_examples,
            witness=witness,
            runs=runs,
        )


def _dependencies(parts: HistoryParts, index: MessageIndex, *, joints: bool = True) -> Dependencies:
    """Few dependencies per message; with joints, a second round only where the first leaves many."""
    matrix = Dependencies.gather([sketch(part, index) for part in parts])
    if not matrix.cut:
        return matrix
    first = _reduced(parts, index, matrix, joints=joints)
    if len(first.deps) <= ENOUGH * len(index):
        return first
    if len(first.joints):  # a second round takes what the first has without them
        first = _reduced(parts, index, matrix, joints=False)
    return _reduced(parts, index, first, joints=joints)


def _reduced(parts: HistoryParts, index: MessageIndex, matrix: Dependencies, *, joints: bool) -> Dependencies:
    reduced = []
    for part in parts:
        own = reduce(part, index, matrix)
        reduced.append(with_joints(own, part, index) if joints else own)
    return Dependencies.gather(reduced)
