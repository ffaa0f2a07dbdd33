"""Why a part of a history violates a level, step by step, with the place of every operation.

For parts of a few operations: relations are built from their definitions, pair by pair.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from antecast.kv.engine import Analysis
from antecast.kv.history import History, LongArray
from antecast.kv.levels import Level
from antecast.kv.resolve import Misread


class Step(NamedTuple):
    """One transaction comes before another, and why."""

    first: int
    then: int
    why: str
    reader: int = -1
    """The transaction whose read demands it: it must have `first` in its past."""


def explain(analysis: Analysis, history: History, original: LongArray, level: Level) -> list[str]:
    """Sentences. `history` is the whole history and `original` the operations of the part in it."""
    return _Teller(analysis, history, original).tell(level)


class _Teller:
    def __init__(self, analysis: Analysis, history: History, original: LongArray) -> None:
        self.analysis = analysis
        self.history = history
        self.original = original
        resolved = analysis.resolved
        self.names = [
            history.txn_name(int(history.txn[original[int((resolved.history.txn == txn).argmax())]]))
            for txn in resolved.node_txn
        ]
        self.causes = self._causes()

    def op(self, op: int) -> str:
        """An operation of the part with its place."""
        whole = int(self.original[op])
        return f"{self.history.describe(whole)} ({self.history.place(whole)})"

    def tell(self, level: Level) -> list[str]:
        resolved = self.analysis.resolved
        if len(resolved.misread):
            return self._misread()
        if self.analysis.cyclic:
            return self._circle(self.causes)
        if level == "CM" and self.analysis.broken:
            return self._memory()
        if level in ("read-committed", "read-atomic"):
            edges = self.analysis.committed if level == "read-committed" else self.analysis.atomic
            assert edges is not None
            if len(edges.stale_initial):
                return self._missed(int(edges.stale_initial[0]), int(edges.overwriter[0]))
            demands = [self._demand(int(read), int(u)) for read, u in zip(edges.read, edges.before, strict=True)]
            return self._circle([*self.causes, *demands])
        assert self.analysis.demands is not None
        asked = self.analysis.demands
        if len(asked.stale_initial):
            return self._missed(int(asked.stale_initial[0]), int(asked.overwriter[0]))
        if len(self.analysis.lost):
            return self._lacking(int(self.analysis.lost[0]))
        return self._circle([*self.causes, *self._all_demands()])

    def _causes(self) -> list[Step]:
        """Session order and who read from whom."""
        resolved, steps = self.analysis.resolved, []
        for a in range(len(resolved)):
            for b in range(a + 1, len(resolved)):
                if resolved.session[a] == resolved.session[b]:
                    session = self.history.sessions[int(resolved.session[a])]
                    steps.append(Step(a, b, f"{self.names[a]} is before {self.names[b]} in session {session}"))
        reads = zip(resolved.r_from.tolist(), resolved.r_node.tolist(), resolved.r_op.tolist(), strict=True)
        seen = zip(resolved.d_from.tolist(), resolved.d_node.tolist(), resolved.d_op.tolist(), strict=True)
        for source, reader, op in (*reads, *seen):
            if source >= 0:
                why = f"{self.names[reader]} reads from {self.names[source]}: {self.op(op)}"
                steps.append(Step(source, reader, why))
        return steps

    def _past(self) -> set[tuple[int, int]]:
        n = len(self.analysis.resolved)
        closed = {(step.first, step.then) for step in self.causes}
        for middle in range(n):
            closed |= {
                (a, b) for a in range(n) for b in range(n) if (a, middle) in closed and (middle, b) in closed
            }
        return closed

    def _all_demands(self) -> list[Step]:
        resolved, past = self.analysis.resolved, self._past()
        steps = []
        for read in range(len(resolved.r_node)):
            for u, key in zip(resolved.w_node.tolist(), resolved.w_key.tolist(), strict=True):
                wrong = u == resolved.r_from[read] or key != resolved.r_key[read]
                if not wrong and (u, int(resolved.r_node[read])) in past:
                    steps.append(self._demand(read, u))
        return steps

    def _demand(self, read: int, u: int) -> Step:
        """A read demands that another writer of its key comes before the one it read from."""
        resolved = self.analysis.resolved
        t, w = int(resolved.r_node[read]), int(resolved.r_from[read])
        write = int(resolved.w_op[self.analysis.graph.entry(int(resolved.r_key[read]), u)])
        why = (
            f"{self.names[u]} must come before {self.names[w]}: {self.names[t]} has {self.names[u]} in its past, "
            f"{self.op(write)}, and reads from {self.names[w]}: {self.op(int(resolved.r_op[read]))}"
        )
        return Step(u, w, why, t)

    def _missed(self, read: int, u: int) -> list[str]:
        """A read of the initial state with a write in its past."""
        resolved = self.analysis.resolved
        t = int(resolved.r_node[read])
        write = int(resolved.w_op[self.analysis.graph.entry(int(resolved.r_key[read]), u)])
        path = self._path(self.causes, u, t) or []
        missed = f"{self.names[t]} finds nothing: {self.op(int(resolved.r_op[read]))}"
        return [f"{self.names[u]}: {self.op(write)}", *(step.why for step in path), missed]

    def _lacking(self, read: int) -> list[str]:
        """A list without something that is in the past of its reader."""
        resolved, past = self.analysis.resolved, self._past()
        t = int(resolved.r_node[read])
        shown = set(resolved.d_from[resolved.d_node == t].tolist()) | {int(resolved.r_from[read])}
        for u, key, op in zip(resolved.w_node.tolist(), resolved.w_key, resolved.w_op.tolist(), strict=True):
            if key == resolved.r_key[read] and u not in shown and (u, t) in past:
                path = self._path(self.causes, u, t) or []
                lacks = f"{self.names[t]} does not show it: {self.op(int(resolved.r_op[read]))}"
                return [f"{self.names[u]}: {self.op(op)}", *(step.why for step in path), lacks]
        return ["a list lacks something of its past"]

    def _memory(self) -> list[str]:
        resolved, broken = self.analysis.resolved, self.analysis.broken[0]
        demands = [self._demand(int(r), int(u)) for r, u in zip(broken.reads, broken.before, strict=True)]
        session = self.history.sessions[broken.session]
        head = f"in the order that session {session} sees:"
        if broken.stale_initial < 0:
            return [head, *self._circle([*self.causes, *demands])]
        read, u = broken.stale_initial, broken.overwriter
        t = int(resolved.r_node[read])
        path = self._path([*self.causes, *demands], u, t) or []
        return [
            head,
            *(step.why for step in path),
            f"{self.names[t]} finds nothing: {self.op(int(resolved.r_op[read]))}",
        ]

    def _circle(self, steps: Sequence[Step]) -> list[str]:
        """The shortest cycle of steps, in sentences."""
        best: list[Step] | None = None
        for step in steps:
            path = [] if step.first == step.then else self._path(steps, step.then, step.first)
            if path is not None and (best is None or len(path) + 1 < len(best)):
                best = [step, *path]
        if best is None:
            return ["no order of these transactions explains the reads"]
        names = " → ".join(self.names[step.first] for step in best)
        said: list[str] = []
        for step in best:
            # How the transaction comes to be in the past of the reader, unless that is plain.
            behind = self._path(self.causes, step.first, step.reader) if step.reader >= 0 else None
            said += [each.why for each in behind or ()]
            said.append(step.why)
        said.append(f"this is a circle: {names} → {self.names[best[0].first]}")
        return list(dict.fromkeys(said))

    @staticmethod
    def _path(steps: Sequence[Step], first: int, last: int) -> list[Step] | None:
        came: dict[int, Step | None] = {first: None}
        queue = deque([first])
        while queue:
            node = queue.popleft()
            if node == last:
                path: list[Step] = []
                step = came[node]
                while step is not None:
                    path.append(step)
                    step = came[step.first]
                return path[::-1]
            for each in steps:
                if each.first == node and each.then not in came:
                    came[each.then] = each
                    queue.append(each.then)
        return None

    def _misread(self) -> list[str]:
        resolved = self.analysis.resolved
        kind, op, write = Misread(int(resolved.misread[0])), int(resolved.m_op[0]), int(resolved.m_write[0])
        txn = self._txn(op)
        said = f"{txn}: {self.op(op)}"
        if kind == Misread.THIN_AIR:
            return [f"{said}, which nobody wrote"]
        wrote = f"{self._txn(write)}: {self.op(write)}"
        if self.history.lists and kind in (Misread.INTERMEDIATE, Misread.NOT_MY_OWN, Misread.NOT_MY_LAST):
            return [wrote, f"{said}, without it, or not where it belongs"]
        return {
            Misread.ABORTED: [f"{wrote}, and was aborted", said],
            Misread.FUTURE: [f"{said}, which it writes only later: {self.op(write)}"],
            Misread.NOT_MY_OWN: [f"{said}, after a write of its own to the key; the value is of {wrote}"],
            Misread.NOT_MY_LAST: [f"{said}, which it has overwritten since: {wrote}"],
            Misread.INTERMEDIATE: [f"{wrote}, and overwrote it itself", said],
        }[kind]

    def _txn(self, op: int) -> str:
        return self.history.txn_name(int(self.history.txn[int(self.original[op])]))
