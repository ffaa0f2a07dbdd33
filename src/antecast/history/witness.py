"""A witness: the smallest story that shows a violation, in words and as a space-time diagram.

For a message m that came too early at node j, some x of its past came later. The witness is a shortest
chain x → … → m, each step of which is one sentence about one node: it delivered (or broadcast) the
one message and then broadcast the other. It is found by a search back from m, breadth first. The
messages one step before z are those in the history of its origin up to the broadcast of z, so the search
grows one prefix per node and reads each history at most once.

The search uses the histories it is given and no others. The origins of the messages on any one chain,
with the node j, suffice to find a chain; `involved_nodes` names them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.history.dependencies import Dependencies
from antecast.history.histories import Histories
from antecast.history.messages import MessageIndex
from antecast.history.names import Name
from antecast.history.rows import IntArray, LongArray
from antecast.text.wording import at_position, escaped, listed, position

CANDIDATES = 64
"""Early deliveries among which the shortest chain is looked for; most violations take a single step."""


CYCLE_STEPS = 8
"""Steps of a cycle that are told."""

_EVENTS = 16_000_000
"""Events that are brought together to find a witness: 128 MB."""

_CHAINS = 8
"""Violations whose chains of dependencies are compared, if no single step shows one."""


class Pick(Protocol):
    """Gives the histories of some nodes, or what they have of some messages."""

    def __call__(self, names: Collection[Name], messages: IntArray | None = None) -> Histories: ...


@dataclass(frozen=True)
class Event:
    """One event of the story."""

    node: object
    pos: int
    verb: str
    message: str

    def __str__(self) -> str:
        return f"{self.verb} {escaped(self.message)} @{position(self.pos)}"


@dataclass(frozen=True)
class Witness:
    """A violation as a story: the chain x → … → m by name, and the events in a possible order."""

    run: object
    node: object
    chain: tuple[str, ...]
    words: str
    events: tuple[Event, ...]

    @property
    def diagram(self) -> str:
        """A column per node, time downwards, `@` before positions."""
        nodes = list(dict.fromkeys(event.node for event in self.events))
        heads = [f"node {escaped(str(node))}" for node in nodes]
        widths = [
            max(len(head), *(len(str(event)) for event in self.events if event.node == node))
            for node, head in zip(nodes, heads, strict=True)
        ]
        lines = [heads]
        lines += [[str(event) if event.node == node else "|" for node in nodes] for event in self.events]
        return "\n".join(
            "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def __str__(self) -> str:
        return f"{escaped(self.words)}\n\n{self.diagram}"


def find_witness(violations: pa.Table, histories: Histories, index: MessageIndex) -> Witness | None:
    """The shortest chain behind an early delivery; if there is none, the first violation of another kind."""
    early = violations.filter(pc.equal(violations["problem"], "early")).slice(0, CANDIDATES).to_pylist()
    if not early:
        alone = pa.array(["duplicate", "before-broadcast"])
        rows = violations.filter(pc.is_in(violations["problem"], alone)).slice(0, 1).to_pylist()
        return _single(rows[0], index) if rows else None
    rows_of = {name: row for row, name in enumerate(histories.names)}
    broadcast_rank = _broadcast_ranks(histories, len(index))
    best: tuple[int, list[int]] | None = None
    for violation in early:
        row = rows_of.get(Name(violation.get("run"), violation["node"]))
        message = _message(index, violation, "")
        if row is None:
            continue
        longest = len(index) if best is None else len(best[1]) - 1
        chain = _shortest_chain(row, message, histories, index, broadcast_rank, longest)
        if chain and (best is None or len(chain) < len(best[1])):
            best = row, chain
        if best is not None and len(best[1]) == 2:
            break
    return None if best is None else _tell(*best, histories, index)


def witness_of_parts(
    violations: pa.Table, pick: Pick, index: MessageIndex, matrix: Dependencies
) -> Witness | None:
    """The shortest chain that the first violations show, without the histories of all nodes.

    Most violations take a single step, which the node and the origin of the early message show. Where
    none does, a shortest chain of direct dependencies is told.
    """
    early = violations.filter(pc.equal(violations["problem"], "early")).slice(0, CANDIDATES).to_pylist()
    if not early:
        return find_witness(violations, Histories.gather([]), index)
    nodes: dict[Name, None] = {}
    room = max(4, _EVENTS // max(1, len(index)))
    for row in early:
        both = (Name(row.get("run"), row[each]) for each in ("node", "origin"))
        nodes |= dict.fromkeys(both) if len(nodes) + 2 <= room else {}
    witness = find_witness(violations, pick(nodes.keys()), index)
    if witness is None or len(witness.chain) > 2:
        chains = [dependency_chain(row, index, matrix) for row in early[:_CHAINS]]
        best = min(range(len(chains)), key=lambda each: len(chains[each]))
        involved = involved_nodes(early[best], index, matrix)
        only = None if len(matrix.joints) else np.array(chains[best], np.int32)
        few = pick(frozenset(involved), only)
        other = find_witness(pa.Table.from_pylist([early[best]], violations.schema), few, index)
        if witness is None or (other is not None and len(other.chain) < len(witness.chain)):
            witness = other
    return witness


def dependency_chain(violation: dict[str, object], index: MessageIndex, matrix: Dependencies) -> list[int]:
    """The messages from the cause of an early delivery to the early one, each a direct dependency of the next.

    It is the shortest such chain. Where nodes have seen more than the matrix keeps, a shorter story may exist.
    With joints in between, the origin of the next may have seen a later message of the same source instead.
    """
    message, cause = _message(index, violation, ""), _message(index, violation, "cause_")
    follower = {message: message}
    queue = [message]
    joints: set[int] = set()
    for each in queue:
        if each == cause:
            break
        near = matrix.of(each).tolist()
        for dep in near:  # grows by what is behind joints
            if dep >= len(index):
                near += matrix.of(dep).tolist() if dep not in joints else []
                joints.add(dep)
            elif dep not in follower:
                follower[dep] = each
                queue.append(dep)
    chain = [cause]
    while chain[-1] != message:
        chain.append(follower[chain[-1]])
    return chain


def involved_nodes(violation: dict[str, object], index: MessageIndex, matrix: Dependencies) -> list[Name]:
    """Nodes whose rows suffice for the witness of one early delivery, a row of the table of violations.

    Of these rows, those of the messages of its `dependency_chain` suffice.
    """
    nodes = [Name(violation.get("run"), violation["node"])]
    nodes += [index.nodes.names[index.origin[each]] for each in dependency_chain(violation, index, matrix)]
    return list(dict.fromkeys(nodes))


def _message(index: MessageIndex, violation: dict[str, object], prefix: str) -> int:
    origin = index.nodes.code(Name(violation.get("run"), violation[f"{prefix}origin"]))
    seq = np.array([violation[f"{prefix}seq"]], np.int64)
    return int(index.find(np.array([origin], np.int32), seq)[0])


def _broadcast_ranks(histories: Histories, messages: int) -> LongArray:
    """Where in its origin's history a message was broadcast; -1 if that history is not here."""
    ranks = np.full(messages, -1, np.int64)
    for row in range(len(histories)):
        codes = histories.codes[histories.span(row)]
        (own,) = np.nonzero(codes < 0)
        ranks[~codes[own]] = own
    return ranks


def _shortest_chain(
    row: int, message: int, histories: Histories, index: MessageIndex, broadcast_rank: LongArray, longest: int
) -> list[int]:
    """The shortest x → … → message, of at most `longest` messages, with x after `message` at the node."""
    rows = {int(source): row for row, source in enumerate(histories.sources)}
    position = np.full(len(index), -1, np.int64)
    seen = histories.messages(row)
    position[seen] = np.arange(len(seen))  # a self-delivery overwrites the broadcast before it
    follower = np.full(len(index), -1, np.int64)
    follower[message] = message
    reached: dict[int, int] = {}
    level = np.array([message])
    for _ in range(longest - 1):
        found = []
        for source in np.unique(index.origin[level]):
            if source not in rows:
                continue
            latest = int(level[index.origin[level] == source].max())  # what it saw includes what the others saw
            start, stop = reached.get(source, 0), int(broadcast_rank[latest])
            if stop <= start:
                continue
            reached[source] = stop
            past = np.unique(histories.messages(rows[source])[start:stop])
            past = past[follower[past] < 0]
            follower[past] = latest
            found.append(past)
        level = np.concatenate(found) if found else np.empty(0, np.int64)
        hits = level[position[level] > position[message]]
        if len(hits):
            chain = [int(hits[np.argmin(position[hits])])]
            while chain[-1] != message:
                chain.append(int(follower[chain[-1]]))
            return chain
        if not len(level):
            break
    return []


def _tell(row: int, chain: Sequence[int], histories: Histories, index: MessageIndex) -> Witness:
    """Put a chain into words and events."""
    rows = {int(source): row for row, source in enumerate(histories.sources)}
    run, node = histories.names[row]

    def event(row: int, message: int, *, last: bool) -> Event:
        """The first or last event of a message in a history: its broadcast comes before its self-delivery."""
        ranks = np.flatnonzero(histories.messages(row) == message)
        place = histories.indptr[row] + ranks[-1 if last else 0]
        verb = "deliver" if histories.codes[place] >= 0 else "broadcast"
        return Event(histories.names[row].node, int(histories.pos[place]), verb, index.name(message))

    first = chain[0]
    events = [Event(index.origin_name(first), int(index.pos[first]), "broadcast", index.name(first))]
    steps = []
    for before, after in pairwise(chain):
        at = rows[int(index.origin[after])]
        had, sent = event(at, before, last=False), event(at, after, last=False)
        events += [each for each in (had, sent) if each not in events]
        steps.append(
            f"node {had.node} {_past(had.verb)} {had.message} at {at_position(had.pos)} "
            f"and broadcast {sent.message} at {at_position(sent.pos)}"
        )
    early, late = event(row, chain[-1], last=True), event(row, chain[0], last=True)
    events += [each for each in (early, late) if each not in events]
    delivered = set(histories.messages(row).tolist())
    never = [index.name(each) for each in chain[1:-1] if each not in delivered]
    names = tuple(index.name(each) for each in chain)
    then = late.message if early.verb == late.verb else f"it {_past(late.verb)} {late.message}"
    words = (
        f"{_in_run(run)}node {node} {_past(early.verb)} {early.message} ({at_position(early.pos)}) before {then} "
        f"({at_position(late.pos)}), but {' → '.join(names)}: {'; '.join(steps)}."
    )
    if never:
        words += f" Node {node} never delivered {listed(never)}."
    return Witness(run, node, names, words, tuple(events))


def _single(violation: dict[str, object], index: MessageIndex) -> Witness:
    """The story of a violation that takes no chain: a repeated delivery, or one before its broadcast."""
    run, node, pos = violation.get("run"), violation["node"], int(str(violation["pos"]))
    message = _message(index, violation, "")
    name = index.name(message)
    broadcast = Event(index.origin_name(message), int(index.pos[message]), "broadcast", name)
    again = Event(node, pos, "deliver", name)
    if violation["problem"] == "duplicate":
        first = Event(node, int(str(violation["cause_pos"])), "deliver", name)
        twice = f"at {at_position(first.pos)} and again at {at_position(pos)}"
        words = f"{_in_run(run)}node {node} delivered {name} {twice}."
        return Witness(run, node, (name,), words, (broadcast, first, again))
    words = f"{_in_run(run)}node {node} delivered {name} ({at_position(pos)}) at a time before its broadcast."
    return Witness(run, node, (name,), words, (again, broadcast))


def _past(verb: str) -> str:
    return "delivered" if verb == "deliver" else "broadcast"


def _in_run(run: object) -> str:
    return "" if run is None else f"in run {run}, "
