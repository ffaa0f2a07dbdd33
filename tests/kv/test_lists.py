"""Histories of lists against the definitions, and lists that were never there."""

import random
from collections import defaultdict

import pytest

from antecast.kv import INITIAL, HistoryBuilder, check
from antecast.kv.oracle import _sequences, closure


def made(rng):
    """A history as one server would give it, in which some lists were then cut, shuffled or torn."""
    store, history, count = defaultdict(list), [], 0
    for _ in range(rng.randint(2, 5)):
        operations = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            key = rng.choice("xy")
            if rng.random() < 0.5:
                count += 1
                store[key].append(count)
                operations.append(("append", key, count))
            else:
                operations.append(("read", key, altered(rng, list(store[key]))))
        history.append((rng.choice("abc"), operations))
    return history


def altered(rng, seen):
    change = rng.choice([None, None, None, "cut", "shuffle", "tear"]) if seen else None
    if change == "cut":
        return seen[: rng.randrange(len(seen) + 1)]
    if change == "shuffle":
        rng.shuffle(seen)
    elif change == "tear":
        seen.pop(rng.randrange(len(seen)))
    return seen


def built(history):
    builder = HistoryBuilder(lists=True)
    for line, (session, operations) in enumerate(history, 1):
        builder.begin(session)
        for kind, key, value in operations:
            if kind == "append":
                builder.write(key, value, line)
                continue
            for each in value[:-1]:
                builder.observe(key, each, line)
            builder.read(key, value[-1] if value else INITIAL, line)
    return builder.build()


def violated(history):
    """The causal levels that a history violates, by the definitions of `antecast.kv.oracle`, with lists."""
    n = len(history)
    writer = {(k, v): t for t, (_, ops) in enumerate(history) for kind, k, v in ops if kind == "append"}
    so = {(a, b) for a in range(n) for b in range(a + 1, n) if history[a][0] == history[b][0]}
    shown = {
        (writer[key, each], t)
        for t, (_, ops) in enumerate(history)
        for kind, key, value in ops
        if kind == "read"
        for each in value
    }
    co = closure(so | {(a, b) for a, b in shown if a != b}, n)
    if any((a, a) in co for a in range(n)):
        return {"CC", "CCv", "CM"}

    def right(sequence, judged):
        store = defaultdict(list)
        for t in sequence:
            for kind, key, value in history[t][1]:
                if kind == "append":
                    store[key].append(value)
                elif t in judged and store[key] != value:
                    return False
        return True

    past = [frozenset({a for a in range(n) if (a, t) in co} | {t}) for t in range(n)]
    orders = _sequences(frozenset(range(n)), frozenset(co))
    found = set()
    if not any(all(right([a for a in arb if a in past[t]], {t}) for t in range(n)) for arb in orders):
        found.add("CCv")
    for t in range(n):
        session = {a for a in range(t + 1) if history[a][0] == history[t][0]}
        for level, judged in (("CC", {t}), ("CM", session)):
            if not any(right(each, judged) for each in _sequences(past[t], frozenset(co))):
                found.add(level)
    return found


def test_lists_are_judged_as_the_definitions_say(request):
    for seed in range(5000 if request.config.getoption("--soak") else 250):
        history = made(random.Random(seed))
        wrong, verdict = violated(history), check(built(history))
        if not any(kind == "append" for _, operations in history for kind, _, _ in operations):
            continue
        assert verdict.levels["CCv"] == ("violated" if "CCv" in wrong else "kept"), history
        for level in ("CC", "CM"):
            assert verdict.levels[level] in ("inconclusive", "violated" if level in wrong else "kept"), history


@pytest.mark.parametrize(
    ("lists", "anomaly"),
    [
        ([["a", ("append", "x", 1), ("append", "x", 2)], ["b", ("read", "x", [1])]], "intermediate-read"),
        ([["a", ("append", "x", 1), ("append", "x", 2)], ["b", ("read", "x", [2])]], "intermediate-read"),
        ([["a", ("append", "x", 1), ("append", "x", 2), ("read", "x", [2])]], "not-my-own-write"),
        ([["a", ("append", "x", 1)], ["b", ("append", "x", 2), ("read", "x", [2, 1])]], "not-my-own-write"),
        ([["a", ("append", "x", 1)], ["a", ("append", "x", 2), ("read", "x", [2])]], "fractured-read-CO"),
    ],
)
def test_a_list_that_was_never_there_is_named(lists, anomaly):
    verdict = check(built([(session, operations) for session, *operations in lists]))
    assert list(verdict.counts) == [anomaly] and verdict.levels["CC"] == "violated"


def test_lists_in_different_orders_before_a_common_end_have_a_witness():
    lists = [("abc"[n - 1], [("append", "x", n)]) for n in (1, 2, 3)]
    lists += [("d", [("read", "x", [1, 2, 3])]), ("e", [("read", "x", [2, 1, 3])])]
    verdict = check(built(lists))
    assert verdict.levels["CCv"] == "violated" and len(verdict.witness.events) >= 6
