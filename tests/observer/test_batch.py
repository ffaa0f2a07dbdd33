"""The observer on arrays is the one for single messages: order, positions, waits, flags, reasons, what is kept."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.observer import (
    MODES,
    REASONS,
    BatchObserver,
    Bounds,
    Carried,
    Observer,
    Policy,
    Stamps,
    Timestamp,
)

GAP = 60


def policies(mode):
    def make(epsilon, delta, percent, stamps, elements):
        return Policy(
            bounds=Bounds(epsilon=epsilon, delta=delta, nodes=3, events_a_tick=2),
            mode=mode,
            percent=100 if mode in ("exact", "earlier-send", "paced") else percent,
            violations=0.05 if mode == "paced" else None,
            stamps="hybrid" if (mode, stamps) == ("earlier-send", "physical") else stamps,
            elements=min(elements, epsilon + 1) if stamps == "bounded" else None,
        )

    stamps = st.sampled_from(["bounded", "hybrid", "physical"])
    return st.builds(make, st.integers(0, 5), st.integers(0, 9), st.integers(0, 100), stamps, st.integers(0, 3))


def stream(draw, policy, size, wild):
    """Stamps and readings of a clock that mostly moves on, mostly in small steps; `wild` of them are anything."""
    stamps, readings, now = [], [], draw.choice([0, 1000, -50])
    bounds = policy.bounds
    for _ in range(size):
        now += draw.choice([0, 0, 0, 1, 1, 2, 15])
        r = now - draw.randrange(-bounds.epsilon, bounds.delta + bounds.epsilon + 1)
        c = draw.randrange(bounds.epsilon + 1)
        kn = tuple(draw.randrange(3) for _ in range(policy.width))
        before = draw.choice([None, r - draw.randrange(10)])
        reading = now
        if draw.random() < wild:
            r = draw.choice([r - 30, r - 500, r + 500, r + 503, 10**9, r])
            c = draw.choice([c, c, -1, 99])
            kn = draw.choice([kn, tuple(-1 for _ in kn), tuple(99 for _ in kn)])
            before = draw.choice([before, r + 50])
            reading = draw.choice([now, now, now - bounds.epsilon, now - 40, now + 300])
        stamps.append((Timestamp(r, c, kn, before), draw.randrange(3)))
        readings.append(reading)
    return stamps, readings


def one_by_one(policy, clock, stamps, readings, every_tick, evidence=None, until=None):
    observer = Observer(policy, clock=clock, gap=GAP)
    observer.evidence = evidence
    out = []
    for item, ((stamp, source), reading) in enumerate(zip(stamps, readings, strict=True)):
        if clock == "rows":
            out += observer.receive(item, stamp, source)
            continue
        while every_tick and observer.now is not None and observer.now < reading:
            out += observer.advance(observer.now + 1)
        out += observer.receive(item, stamp, source, reading)
    if until is not None:
        out += observer.advance(until)
    return observer, out


def on_arrays(policy, clock, stamps, readings, cuts, every_tick, evidence=None, until=None):
    """The same in several calls; items are numbered through."""
    observer = BatchObserver(policy=policy, clock=clock, gap=GAP, every_tick=every_tick)
    carried, names, out, refused = Carried.nothing(policy), np.zeros(0, np.int64), [], []
    edges = [0, *cuts, len(stamps)]
    for start, end in pairwise(edges):
        columns = Stamps.gather(stamps[start:end], policy.width)
        given = np.array(readings[start:end], np.int64) if clock == "given" else None
        done = observer.observe(
            carried, columns, readings=given, evidence=evidence, until=until if end == len(stamps) else None
        )
        names = np.concatenate([names, np.arange(start, end)])
        places = range(done.first, done.first + len(done.delivered))
        out += zip(names[done.delivered].tolist(), places, done.waited.tolist(), done.late.tolist(), strict=True)
        refused += zip(names[done.refused].tolist(), (REASONS[each] for each in done.reason), strict=True)
        carried, names = done.carried, names[done.kept]
        assert len(carried) == len(names)
    return carried, names, out, refused


@pytest.mark.parametrize("clock", ["given", "rows"])
@pytest.mark.parametrize("mode", MODES)
@given(data=st.data(), seed=st.integers(0, 1 << 32), wild=st.sampled_from([0, 0, 0.02, 0.3]))
def test_arrays_and_single_messages_agree(clock, mode, data, seed, wild):
    draw = random.Random(seed)
    policy = data.draw(policies(mode))
    stamps, readings = stream(draw, policy, draw.randrange(1, 80), wild)
    every_tick = clock == "given" and wild == 0 and draw.random() < 0.5
    evidence = draw.choice([None, stamps[-1][0].r]) if clock == "rows" else None
    until = draw.choice([None, stamps[-1][0].r + 5]) if clock == "rows" else None
    observer, single = one_by_one(policy, clock, stamps, readings, every_tick, evidence, until)
    cuts = sorted(draw.randrange(len(stamps) + 1) for _ in range(draw.randrange(5)))
    carried, names, out, refused = on_arrays(policy, clock, stamps, readings, cuts, every_tick, evidence, until)
    assert out == [tuple(each)[:4] for each in single if each.reason is None]
    assert sorted(refused) == sorted((each.item, each.reason) for each in single if each.reason is not None)
    waiting = sorted(each.item for each in observer.waiting()) + [each[0] for each in observer.held]
    size = len(names) - carried.held
    assert sorted(names[:size].tolist()) + names[size:].tolist() == waiting
    assert carried.front == observer.rows.front
    assert (carried.now, carried.position, carried.late) == (observer.now, observer.position, observer.late)
    assert observer.top == (None if carried.top is None else tuple(carried.top.tolist()))
    last = [each[:1] for each in map(tuple, observer.flush())]
    flushed = BatchObserver(policy=policy, clock=clock, gap=GAP).observe(
        carried,
        Stamps.gather([], policy.width),
        readings=np.zeros(0, np.int64) if clock == "given" else None,
        flush=True,
    )
    assert not len(flushed.carried)
    assert sorted(names[flushed.delivered].tolist() + names[flushed.refused].tolist()) == sorted(
        each for (each,) in last
    )


@given(seed=st.integers(0, 1 << 32), mode=st.sampled_from(["dapw", "cbd", "margin"]), percent=st.integers(0, 100))
def test_how_messages_are_divided_into_calls_changes_nothing(seed, mode, percent):
    draw = random.Random(seed)
    policy = Policy(bounds=Bounds(epsilon=3, delta=6), mode=mode, percent=percent, stamps="hybrid")
    stamps, readings = stream(draw, policy, 60, 0.05)
    whole = on_arrays(policy, "rows", stamps, readings, [], False)
    by_ones = on_arrays(policy, "rows", stamps, readings, list(range(len(stamps))), False)
    assert sorted(whole[1].tolist()) == sorted(by_ones[1].tolist())
    assert whole[2] == by_ones[2]
    assert sorted(whole[3]) == sorted(by_ones[3])


@pytest.mark.parametrize("mode", ["exact", "cbd"])
@given(seed=st.integers(0, 1 << 32))
def test_a_corrupted_state_wedges_nothing(mode, seed):
    draw = random.Random(seed)
    policy = Policy(bounds=Bounds(epsilon=3, delta=6), mode=mode, stamps="hybrid")
    stamps, _ = stream(draw, policy, 60, 0)
    observer = BatchObserver(policy=policy, gap=GAP)
    done = observer.observe(Carried.nothing(policy), Stamps.gather(stamps[:30], 1))
    wild = np.array([draw.choice([-(10**9), 0, 10**9]) for _ in range(len(done.carried))], np.int64)
    field = draw.choice(["due", "arrived", "now", "top"])
    value = {"now": 10**9, "top": np.array([10**12, 0, 0])}.get(field, wild)
    carried = replace(done.carried, **{field: value})
    rest = observer.observe(carried, Stamps.gather(stamps[30:], 1))
    later = [(Timestamp(stamps[-1][0].r + each, 0, (0,)), each % 2) for each in range(40)]
    end = observer.observe(rest.carried, Stamps.gather(later, 1))
    assert end.carried.now == later[-1][0].r
    assert len(end.carried) <= policy.bounds.longest + 2
    assert not end.late[-10:].any()


def test_physical_time_ignores_what_else_rows_carry():
    policy = Policy(bounds=Bounds(epsilon=1, delta=1), stamps="physical")
    stamps = Stamps.gather([(Timestamp(5, 1, (3,)), 0), (Timestamp(4, 0, (0,)), 1)], 1)
    done = BatchObserver(policy=policy).observe(Carried.nothing(policy), stamps, flush=True)
    assert done.delivered.tolist() == [1, 0]
