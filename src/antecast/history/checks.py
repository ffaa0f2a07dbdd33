"""Properties of broadcast, each a check of its own over an events table.

| check | holds if |
|---|---|
| `causal_order` | nothing is delivered before something of its causal past that is delivered too |
| `fifo_order` | the same for messages of one source, in the order of their broadcasts |
| `no_duplication` | no node delivers a message twice |
| `no_creation` | only what was broadcast is delivered, and by a global clock not before it was |
| `validity` | a node that stays delivers its own broadcasts |
| `agreement` | what one node that stays delivers, all that stay deliver |
| `completeness` | all nodes that stay deliver every message |
| `agreement_among` | nodes that are named deliver the same messages |
| `deadlines` | nothing is delivered too long after its broadcast, or where it has expired |

A node *stays*, for a message, if it was up when the message was broadcast and has been up since. A node is up
from the start of the log or from its last `join` or `recover`, until a `crash` or `leave`. With
`recovered=True` a crash that the node recovered from does not count: it must deliver what it missed as well.
These three checks compare times of different nodes, so `t` must be one clock for all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.history.audit import audit
from antecast.history.histories import Clock, Histories, Reading, read_histories
from antecast.history.messages import MessageIndex
from antecast.history.metrics import delivery_latency
from antecast.history.names import Nodes
from antecast.history.rows import IntArray, LongArray, rereadable

ALWAYS, NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Check:
    """The result of one check: how often the property fails, and the first failure in words."""

    name: str
    count: int
    example: str | None = None

    @property
    def ok(self) -> bool:
        return self.count == 0

    def __str__(self) -> str:
        return f"{self.name}: " + ("holds" if self.ok else f"fails {self.count} times; {self.example}")


def causal_order(events: pa.Table) -> Check:
    """Counts messages delivered too early, as the auditor does."""
    verdict = audit(events, limit=1000)
    early = verdict.tally.early
    return Check("causal order", early, verdict.witness.words if early and verdict.witness else None)


def fifo_order(events: pa.Table) -> Check:
    """Counts messages delivered after one that their source broadcast later."""
    index, reading = _read(events)
    histories = reading.histories
    row, message = _flat(histories)
    # At its origin a message counts once: at its delivery where the node logs those of its own messages.
    key = row * len(index) + message
    broadcast = histories.codes < 0
    delivers_own = np.zeros(len(histories), np.bool_)
    delivers_own[row[~broadcast & (index.origin[message] == histories.sources[row])]] = True
    counts = ~(broadcast & (delivers_own[row] | np.isin(key, key[~broadcast])))
    row, message, pos = row[counts], message[counts], histories.pos[counts]
    # Messages of a source have ascending numbers, those of different sources different ranges; sorted by
    # node and source, a running maximum therefore starts anew by itself in each group.
    order = np.lexsort((index.origin[message], row))
    row, message, pos = row[order], message[order], pos[order]
    key = row * len(index) + message
    overtaken = np.flatnonzero(key < np.maximum.accumulate(key))
    if not len(overtaken):
        return Check("FIFO order", 0)
    first = overtaken[0]
    newer = int(np.argmax(np.where(row[:first] == row[first], message[:first], -1) > message[first]))
    node = histories.names[row[first]].node
    overtaker = f"{index.name(message[newer])} (position {pos[newer]})"
    late = f"{index.name(message[first])} (position {pos[first]}), which was broadcast first"
    return Check("FIFO order", len(overtaken), f"node {node} delivered {overtaker} before {late}")


def no_duplication(events: pa.Table) -> Check:
    """Counts second and further deliveries."""
    _, reading = _read(events)
    return Check("no duplication", reading.tally.duplicates, _example(reading, "duplicate"))


def no_creation(events: pa.Table, *, clock: Clock = "local") -> Check:
    """Counts deliveries without a broadcast and, by a global clock, before it."""
    _, reading = _read(events, clock)
    count = reading.tally.unknown + reading.tally.before_broadcast
    unknown = [f"{each}, was never broadcast" for each in reading.unknown_examples[:1]]
    return Check("no creation", count, unknown[0] if unknown else _example(reading, "before-broadcast"))


def validity(events: pa.Table, *, recovered: bool = False) -> Check:
    """Counts messages that their origin, which stays, never delivers."""
    index, reading = _read(events, "global")
    row, message = _flat(reading.histories)
    delivered = np.zeros(len(index), np.bool_)
    own = reading.histories.sources[row] == index.origin[message]
    delivered[message[own & (reading.histories.codes >= 0)]] = True
    nodes, since = present_since(events, recovered=recovered)
    origins = nodes.codes(index.nodes.names)
    missing = np.flatnonzero(~delivered & (since[origins[index.origin]] <= _times(index)))
    if not len(missing):
        return Check("validity", 0)
    first = int(missing[0])
    where = f"node {index.origin_name(first)} broadcast {index.name(first)} at position {index.pos[first]}"
    return Check("validity", len(missing), f"{where} and never delivered it")


def agreement(events: pa.Table, *, recovered: bool = False) -> Check:
    """Counts (node, message): the node stays and never delivers what another node that stays has."""
    return _coverage("agreement", events, recovered, delivered_only=True)


def completeness(events: pa.Table, *, recovered: bool = False) -> Check:
    """Counts (node, message): the node stays and never delivers the message."""
    return _coverage("completeness", events, recovered, delivered_only=False)


def agreement_among(events: pa.Table, nodes: Collection[int]) -> Check:
    """Counts (node, message): one of these nodes delivers the message, and another never does."""
    rows = events.filter(
        pc.and_(
            pc.equal(events["kind"], "deliver"),
            pc.is_in(events["node"], pa.array(sorted(nodes), events["node"].type)),
        )
    )
    held = rows.group_by(["node", "origin", "seq"], use_threads=False).aggregate([])
    per_node: dict[int, set[tuple[int, int]]] = {node: set() for node in nodes}
    for row in held.to_pylist():
        per_node[row["node"]].add((row["origin"], row["seq"]))
    everything = set[tuple[int, int]]().union(*per_node.values())
    lacking = {node: everything - has for node, has in per_node.items() if has != everything}
    if not lacking:
        return Check("agreement", 0)
    node = min(lacking)
    origin, seq = min(lacking[node])
    return Check("agreement", sum(map(len, lacking.values())), f"node {node} never delivered {origin}:{seq}")


def deadlines(events: pa.Table, latest: int) -> Check:
    """Counts deliveries later than `latest` after the broadcast, and those of messages that have expired there.

    Sources push deadlines up by a nanosecond per message where clocks stand still, so as much is let pass.
    """
    latency = delivery_latency(events)
    slack = int(pc.sum(pc.equal(events["kind"], "broadcast")).as_py() or 0)
    slow = latency.filter(pc.greater(latency["latency"], latest + slack)).sort_by("t")
    dead = _after_expiry(events)
    if not slow.num_rows and not dead:
        return Check("deadlines", 0)
    if slow.num_rows:
        row = slow.slice(0, 1).to_pylist()[0]
        after = f"{row['latency'] / 1e9:g} s after its broadcast; {latest / 1e9:g} s are allowed"
    else:
        row, after = dead[0], "after it had expired there"
    example = f"node {row['node']} delivered {row['origin']}:{row['seq']} {after}"
    return Check("deadlines", slow.num_rows + len(dead), example)


def _after_expiry(events: pa.Table) -> list[dict[str, Any]]:
    """Deliveries of messages that had expired at the node before."""
    keys = ["run", "node", "origin", "seq"]
    plain = events.select([*keys, "pos", "kind"])
    plain = plain.set_column(0, "run", plain["run"].cast(pa.string()))
    expired = plain.filter(pc.equal(plain["kind"], "expire")).drop_columns(["kind"])
    if not expired.num_rows:
        return []
    first = expired.group_by(keys, use_threads=False).aggregate([("pos", "min")])
    delivered = plain.filter(pc.equal(plain["kind"], "deliver")).drop_columns(["kind"])
    both = delivered.join(first, keys, join_type="inner", use_threads=False)
    late = both.filter(pc.greater(both["pos"], both["pos_min"])).sort_by(
        [("node", "ascending"), ("pos", "ascending")]
    )
    rows: list[dict[str, Any]] = late.to_pylist()
    return rows


def present_since(events: pa.Table, *, recovered: bool = False) -> tuple[Nodes, LongArray]:
    """All nodes of a log, and since when each has been up: ALWAYS, a time, or NEVER if it ends down."""
    nodes = Nodes()
    for batch in events.to_batches():
        runs = batch.column("run") if "run" in batch.schema.names else None
        nodes.encode(runs, batch.column("node"), add=True)
    since = np.full(len(nodes), ALWAYS)
    changes = events.filter(pc.is_in(events["kind"], pa.array(["join", "recover", "crash", "leave"])))
    changes = changes.combine_chunks().unify_dictionaries()
    if not len(changes):
        return nodes, since
    runs = changes["run"].combine_chunks() if "run" in changes.column_names else None
    node = nodes.encode(runs, changes["node"].combine_chunks())
    order = np.lexsort((changes["pos"].to_numpy(), node))
    node, t = node[order], changes["t"].to_numpy()[order]
    kind = changes["kind"].cast(pa.string()).to_numpy(zero_copy_only=False)[order]
    if recovered:
        back = np.flatnonzero((kind[:-1] == "crash") & (kind[1:] == "recover") & (node[:-1] == node[1:]))
        keep = np.ones(len(node), np.bool_)
        keep[back] = keep[back + 1] = False
        node, t, kind = node[keep], t[keep], kind[keep]
    up = (kind == "join") | (kind == "recover")
    since[node] = np.where(up, t, NEVER)  # of several assignments to one node the last one stands
    return nodes, since


def _coverage(name: str, events: pa.Table, recovered: bool, *, delivered_only: bool) -> Check:
    """Counts missing deliveries at nodes that stay: of all messages, or of those that one such node has."""
    index, reading = _read(events, "global")
    histories, broadcast_time = reading.histories, _times(index)
    nodes, since = present_since(events, recovered=recovered)
    row, message = _flat(histories)
    codes = nodes.codes(histories.names)
    # An origin has its own message from the broadcast on; whether it delivers it is a question of validity.
    has = (histories.codes < 0) | (histories.sources[row] != index.origin[message])
    has &= since[codes[row]] <= broadcast_time[message]
    holders = np.bincount(message[has], minlength=len(index))
    run_of = np.unique([str(name.run) for name in nodes.names], return_inverse=True)[1]
    origins = nodes.codes(index.nodes.names)
    message_run = run_of[origins[index.origin]]
    stayers = np.zeros(len(index), np.int64)
    for run in range(run_of.max(initial=-1) + 1):
        (some,) = np.nonzero(message_run == run)
        stayers[some] = np.searchsorted(np.sort(since[run_of == run]), broadcast_time[some], side="right")
    missing = stayers - holders
    if delivered_only:
        missing[holders == 0] = 0
    if not missing.any():
        return Check(name, 0)
    first = int(np.flatnonzero(missing)[np.argmin(broadcast_time[missing > 0])])
    candidates = (run_of == message_run[first]) & (since <= broadcast_time[first])
    candidates[codes[row[has & (message == first)]]] = False
    lacking = nodes.names[int(np.argmax(candidates))].node
    return Check(name, int(missing.sum()), f"node {lacking} never delivered {index.name(first)}")


def _read(events: pa.Table, clock: Clock = "local") -> tuple[MessageIndex, Reading]:
    batches = rereadable(events)
    index = MessageIndex.read(batches(), timed=clock == "global")
    return index, read_histories(batches(), index, clock=clock, limit=1)


def _flat(histories: Histories) -> tuple[LongArray, IntArray]:
    """The row and the message of every event."""
    row = np.repeat(np.arange(len(histories)), np.diff(histories.indptr))
    return row, np.where(histories.codes < 0, ~histories.codes, histories.codes)


def _times(index: MessageIndex) -> LongArray:
    assert index.t is not None  # read with a global clock
    return index.t


def _example(reading: Reading, problem: str) -> str | None:
    rows = reading.violations.filter(pc.equal(reading.violations["problem"], problem)).slice(0, 1).to_pylist()
    if not rows:
        return None
    (row,) = rows
    what = f"node {row['node']} delivered {row['origin']}:{row['seq']} at position {row['pos']}"
    if problem == "duplicate":
        return f"{what}, the first time at position {row['cause_pos']}"
    return f"{what}, earlier than its broadcast"
