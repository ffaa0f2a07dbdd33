"""Every small history, up to the names of sessions and keys; random larger ones."""

from itertools import product

import numpy as np
from hypothesis import strategies as st

from antecast.kv import INITIAL, HistoryBuilder
from antecast.kv.history import INITIAL_CODE, History, Kind


def shapes(n, keys=2):
    """What n operations in two sessions can be, before reads have values: (session of each, (kind, key) of each).

    Operations are listed session by session. Of histories that differ in the names of sessions or keys, one stays.
    """
    for first in range(n + 1):
        for kinds in product(product("rw", range(keys)), repeat=n):
            one, two = kinds[:first], kinds[first:]
            variants = []
            for a, b in ((one, two), (two, one)):
                for names in ((0, 1), (1, 0)):
                    variants.append(tuple(tuple((kind, names[key]) for kind, key in part) for part in (a, b)))
            if variants[0] == min(variants):
                yield (0,) * first + (1,) * (n - first), kinds


def groupings(sessions, transactional):
    """How the operations fall into transactions: the first operation of each."""
    n = len(sessions)
    for cuts in product((True, False), repeat=n):
        starts = [i == 0 or sessions[i] != sessions[i - 1] or cuts[i] for i in range(n)]
        if all(starts[i] == cuts[i] for i in range(n)) and (transactional or all(starts)):
            yield tuple(starts)


def every_history(n, *, transactional, keep=lambda: True):
    """All histories of n operations over two keys and two sessions, or those of them that are to be kept."""
    for sessions, kinds in shapes(n):
        writes = {key: [i for i, each in enumerate(kinds) if each == ("w", key)] for key in (0, 1)}
        sources = [[INITIAL_CODE, *writes[key]] if kind == "r" else [i] for i, (kind, key) in enumerate(kinds)]
        for starts in groupings(sessions, transactional):
            for values in product(*sources):
                if keep():
                    yield make(sessions, kinds, starts, values)


def make(sessions, kinds, starts, values):
    """A history from plain lists, without the builder: there are many."""
    n = len(kinds)
    first = np.flatnonzero(np.array(starts, bool))
    return History(
        (np.cumsum(starts) - 1).astype(np.int32),
        np.array([Kind.WRITE if kind == "w" else Kind.READ for kind, _ in kinds], np.int8),
        np.array([key for _, key in kinds], np.int32),
        np.array(values, np.int64),
        np.arange(1, n + 1),
        np.zeros(n, np.int32),
        np.array(sessions, np.int32)[first],
        np.zeros(len(first), np.int8),
        ["x", "y"],
        None,
        ["a", "b"],
    )


def told(history):
    """A history on a line, for messages of failed tests."""
    parts = []
    for txn in range(len(history.session)):
        ops = "; ".join(history.describe(op) for op in np.flatnonzero(history.txn == txn))
        parts.append(f"{history.sessions[history.session[txn]]}[{ops}]")
    return " ".join(parts)


@st.composite
def histories(draw, *, txns=7, sessions=3, keys=2, most=3, faults=False):
    """Histories of replicas that apply what they hear: often causal, with wrong reads now and then.

    Each session has a view of its own to which transactions of others are added in any order. Reads return what
    the view holds, or anything that was ever written.
    """
    count = draw(st.integers(1, txns))
    views = [{} for _ in range(sessions)]
    done, plan, value = [], [], 0
    for _ in range(count):
        session = draw(st.integers(0, sessions - 1))
        if done and draw(st.booleans()):
            for index in draw(st.lists(st.integers(0, len(done) - 1), max_size=2)):
                views[session].update(done[index])
        written, ops = {}, []
        for _ in range(draw(st.integers(1, most))):
            key = draw(st.integers(0, keys - 1))
            if draw(st.booleans()):
                value += 1
                written[key] = value
                ops.append(("w", key, value))
            else:
                ops.append(("r", key, written.get(key, views[session].get(key, INITIAL))))
        views[session].update(written)
        done.append(written)
        plan.append((session, ops))
    wild = draw(st.booleans()) if faults else False
    builder = HistoryBuilder()
    for session, ops in plan:
        builder.begin(session)
        for kind, key, seen in ops:
            if kind == "w":
                builder.write(key, seen)
            elif wild and draw(st.integers(0, 3)) == 0:
                others = [v for _, some in plan for k, o, v in some if k == "w" and o == key]
                builder.read(key, draw(st.sampled_from([INITIAL, *others])))
            else:
                builder.read(key, seen)
    return builder.build()


def nearby(transactions, chance):
    """A history a few changes away: operations left out, moved, read from elsewhere, or added.

    Random histories of this size hardly ever violate causal memory alone; those around one that does often do.
    """
    changed = [list(each) for each in transactions]
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(changed))
        kind, key, value = changed[at][2][0]
        what = chance.choice(["leave out", "move", "reread", "add"])
        if what == "leave out" and len(changed) > 4:
            del changed[at]
        elif what == "move":
            changed.insert(chance.randrange(len(changed)), changed.pop(at))
        elif what == "reread" and kind == "r":
            others = [v for _, _, ((k, x, v), *_) in changed if k == "w" and x == key]
            changed[at][2] = (("r", key, chance.choice([0, *others])),)
        elif what == "add" and len(changed) < 10:
            session = chance.choice([each[0] for each in changed])
            new = ("w", key, 50 + len(changed)) if chance.random() < 0.4 else ("r", key, chance.choice([0, value]))
            changed.insert(chance.randrange(len(changed) + 1), [session, 0, (new,)])
    written = {op[1:] for _, _, (op, *_) in changed if op[0] == "w"}
    return [each for each in changed if each[2][0][0] == "w" or not each[2][0][2] or each[2][0][1:] in written]
