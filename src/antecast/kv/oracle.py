"""The oracle: every level from its definition, as plainly as it can be written. For tests.

It shares nothing with the engine but the history. CC, CCv and CM follow Bouajjani, Enea, Guerraoui and Hamza
with transactions in place of operations: there is a causal order `co` that contains the
session order, and
- CC: each transaction has a sequence of its causal past that respects `co` and in which its own reads are right;
- CM: as CC, with the reads of all earlier transactions of its session right as well;
- CCv: there is one sequence `arb` of all transactions that respects `co`, and the past of each, in that order,
  makes its reads right.

A transaction in a sequence is right if each of its reads returns its own last write or else
the last one before it in the sequence. A larger causal order only asks for more, and it must contain who read from
whom, so the least one is enough; `every_order=True` tries all of them, for very small histories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product

from antecast.kv.history import INITIAL_CODE, History, Kind, Status
from antecast.kv.levels import LEVELS, Level

Operation = tuple[int, int, int]
"""Kind, key, value."""


@dataclass(frozen=True)
class Transaction:
    session: int
    operations: tuple[Operation, ...]

    def runs_on(self, store: dict[int, int], *, judged: bool) -> bool:
        """Apply the transaction to a store; whether its reads are right, if they are judged."""
        right = True
        for kind, key, value in self.operations:
            if kind == Kind.WRITE:
                store[key] = value
            elif judged:
                right &= store.get(key, INITIAL_CODE) == value
        return right

    def reads(self) -> Iterator[tuple[int, int]]:
        """Key and value of reads that have no own write before them."""
        written: set[int] = set()
        for kind, key, value in self.operations:
            if kind == Kind.WRITE:
                written.add(key)
            elif key not in written:
                yield key, value

    def writes(self) -> dict[int, int]:
        return {key: value for kind, key, value in self.operations if kind == Kind.WRITE}


def judge(history: History, *, every_order: bool = False) -> set[Level]:
    """The levels that a history of unique values, all of them known, violates."""
    alive = [number for number, status in enumerate(history.status) if status == Status.COMMITTED]
    operations: dict[int, list[Operation]] = {number: [] for number in alive}
    for op, txn in enumerate(history.txn.tolist()):
        if txn in operations:
            operations[txn].append((int(history.kind[op]), int(history.key[op]), int(history.value[op])))
    txns = [Transaction(int(history.session[number]), tuple(operations[number])) for number in alive]
    return _judge(txns, every_order)


def _judge(txns: list[Transaction], every_order: bool) -> set[Level]:
    n = len(txns)
    sound = _reads_are_sound(txns)
    so = {(a, b) for a in range(n) for b in range(a + 1, n) if txns[a].session == txns[b].session}
    source: dict[tuple[int, int], int] = {}
    for number, txn in enumerate(txns):
        for kind, key, value in txn.operations:
            if kind == Kind.WRITE:
                source[key, value] = number
    wr = {
        (source[key, value], number)
        for number, txn in enumerate(txns)
        for kind, key, value in txn.operations
        if kind == Kind.READ and source.get((key, value), number) != number
    }
    co = closure(so | wr, n)
    if any((a, a) in co for a in range(n)):
        return set(LEVELS)
    violated: set[Level] = set()
    if not sound:
        violated |= {"read-committed", "read-atomic", "CC", "CCv", "CM"}
    else:
        violated |= _isolation(txns, so, wr, co, source)
        orders = all_orders(so, n) if every_order else iter([co])
        missing: set[Level] = {"CC", "CCv", "CM"}
        for order in orders:
            missing -= {level for level in missing if _causal(txns, order, level)}
            if not missing:
                break
        violated |= missing
    return violated | _session(txns, so, wr, co, source)


def closure(edges: set[tuple[int, int]], n: int) -> set[tuple[int, int]]:
    closed = set(edges)
    for middle in range(n):
        before = [a for a in range(n) if (a, middle) in closed]
        after = [b for b in range(n) if (middle, b) in closed]
        closed |= set(product(before, after))
    return closed


def all_orders(so: set[tuple[int, int]], n: int) -> Iterator[set[tuple[int, int]]]:
    """Every strict partial order that contains the session order."""
    pairs = [(a, b) for a, b in permutations(range(n), 2) if (a, b) not in so]
    for count in range(len(pairs) + 1):
        for chosen in combinations(pairs, count):
            order = so | set(chosen)
            if closure(order, n) == order and not any((b, a) in order for a, b in order):
                yield order


def _reads_are_sound(txns: Sequence[Transaction]) -> bool:
    """Each read returns its own last write, or the last write of another transaction, or the initial state."""
    for txn in txns:
        store: dict[int, int] = {}
        for kind, key, value in txn.operations:
            if kind == Kind.WRITE:
                store[key] = value
            elif key in store:
                if store[key] != value:
                    return False
            elif value != INITIAL_CODE and not any(
                other is not txn and other.writes().get(key) == value for other in txns
            ):
                return False
    return True


def _sequences(members: frozenset[int], co: frozenset[tuple[int, int]]) -> list[tuple[int, ...]]:
    """All sequences of some transactions that respect an order."""

    @cache
    def endings(left: frozenset[int]) -> list[tuple[int, ...]]:
        if not left:
            return [()]
        found = []
        for last in left:
            if not any((last, other) in co for other in left):
                found += [(*rest, last) for rest in endings(left - {last})]
        return found

    return endings(members)


def _right(txns: Sequence[Transaction], sequence: Sequence[int], judged: set[int]) -> bool:
    store: dict[int, int] = {}
    return all(txns[each].runs_on(store, judged=each in judged) for each in sequence)


def _causal(txns: Sequence[Transaction], co: set[tuple[int, int]], level: Level) -> bool:
    n = len(txns)
    frozen = frozenset(co)
    past = [frozenset({a for a in range(n) if (a, t) in co} | {t}) for t in range(n)]
    if level == "CCv":
        return any(
            all(_right(txns, [a for a in arb if a in past[t]], {t}) for t in range(n))
            for arb in _sequences(frozenset(range(n)), frozen)
        )
    for t in range(n):
        session = {a for a in range(t + 1) if txns[a].session == txns[t].session}
        judged = session if level == "CM" else {t}
        if not any(_right(txns, sequence, judged) for sequence in _sequences(past[t], frozen)):
            return False
    return True


def _isolation(
    txns: Sequence[Transaction],
    so: set[tuple[int, int]],
    wr: set[tuple[int, int]],
    co: set[tuple[int, int]],
    source: dict[tuple[int, int], int],
) -> set[Level]:
    """Biswas and Enea: search for a commit order."""
    committed: set[tuple[int, int]] = set()
    atomic: set[tuple[int, int]] = set()
    initial: set[Level] = set()
    for t, txn in enumerate(txns):
        earlier: set[int] = set()
        for key, value in txn.reads():
            w = source.get((key, value))
            for u, other in enumerate(txns):
                if u in (t, w) or key not in other.writes():
                    continue
                if u in earlier:
                    committed.add((u, -1 if w is None else w))
                if (u, t) in so | wr:
                    atomic.add((u, -1 if w is None else w))
            if w is not None:
                earlier.add(w)
    levels: dict[Level, set[tuple[int, int]]] = {"read-committed": committed, "read-atomic": atomic}
    for level, asked in levels.items():
        if any(after == -1 for _, after in asked):
            initial.add(level)
            continue
        orders = _sequences(frozenset(range(len(txns))), frozenset(co))
        if not any(all(order.index(a) < order.index(b) for a, b in asked) for order in orders):
            initial.add(level)
    return initial


def _session(
    txns: Sequence[Transaction],
    so: set[tuple[int, int]],
    wr: set[tuple[int, int]],
    co: set[tuple[int, int]],
    source: dict[tuple[int, int], int],
) -> set[Level]:
    """Terry et al.: no read returns what is causally older than a write that the guarantee makes visible."""
    n = len(txns)
    so_or_same = so | {(a, a) for a in range(n)}
    visible: dict[Level, set[tuple[int, int]]] = {
        "read-your-writes": so,
        "monotonic-reads": compose(wr, so),
        "monotonic-writes": compose(so, wr),
        "writes-follow-reads": compose(compose(wr, so_or_same), wr),
    }
    violated: set[Level] = set()
    for t, txn in enumerate(txns):
        for place, (kind, key, value) in enumerate(txn.operations):
            w = source.get((key, value))
            if kind == Kind.WRITE or w == t or (w is None and value != INITIAL_CODE):
                continue
            shown = [op[1:] for op in txn.operations[:place] if op[0] == Kind.READ]
            earlier = {source[each] for each in shown if each in source} - {t}
            for u, other in enumerate(txns):
                if key in other.writes() and u != t and (w is None or (w, u) in co):
                    violated |= {level for level, pairs in visible.items() if (u, t) in pairs}
                    violated |= {"monotonic-reads"} if u in earlier else set()
            if w is not None:  # what the writer itself overwrote is older than what it wrote later
                versions = [op[2] for op in txns[w].operations if op[:2] == (Kind.WRITE, key)]
                later = versions[versions.index(value) + 1 :]
                violated |= {"read-your-writes"} if later and (w, t) in so else set()
                before = [op for a in range(t) if (a, t) in so and a != w for op in txns[a].operations]
                seen = [op[1:] for op in before if op[0] == Kind.READ] + shown
                violated |= {"monotonic-reads"} if any((key, each) in seen for each in later) else set()
        own: dict[int, int] = {}
        for place, (kind, key, value) in enumerate(txn.operations):
            if kind == Kind.WRITE:
                own[key] = value
            elif key in own and own[key] != value:
                write = (Kind.WRITE, key, value)
                future = write in txn.operations and write not in txn.operations[:place]
                if not future and (value == INITIAL_CODE or (key, value) in source):
                    violated.add("read-your-writes")
    return violated


def compose(first: set[tuple[int, int]], then: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(a, c) for a, b in first for b_, c in then if b == b_}
