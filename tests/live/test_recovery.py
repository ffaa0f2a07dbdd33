"""A journal gives back the machine that it was, wherever it was cut off."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journals import machine, open_journal, restless_calls

from antecast.live.entries import Commit, JournalError
from antecast.live.machine import Clock
from antecast.live.recovery import recover
from antecast.protocols import specifications

LINKED = [spec.name for spec in specifications() if spec.make_station is None]


def survived(one):
    """What a machine is after a crash: a new object with what survives."""
    return one.renewed(one.save()).protocol.canonical()


@given(
    name=st.sampled_from(LINKED),
    seed=st.integers(0, 1000),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=30),
    cuts=st.sets(st.integers(0, 29), max_size=3),
    end=st.integers(0, 30),
)
def test_killed_after_any_group_it_comes_back_as_it_was(name, seed, sizes, cuts, end):
    """Groups of any size, snapshots anywhere, killed anywhere; and all effects are those of the first time."""
    calls = restless_calls(name, seed)
    live, effects_of = machine(name), {}
    with tempfile.TemporaryDirectory() as folder:
        journal = open_journal(Path(folder) / "a", name)
        done = 0
        for group, size in enumerate(sizes[:end]):
            for place, call in enumerate(calls[done : done + size], start=done + 1):
                effects_of[place] = live.replay(call)
            chosen = calls[done : done + size]
            done += len(chosen)
            if chosen:
                journal.commit(Commit(chosen))
            if group in cuts:
                journal.snapshot(live.save_exactly(), now=0, events=0, exact=True)
        journal.close()
        again = open_journal(Path(folder) / "a", name)
        start, replayed = again.recovered(), []
        found = recover(again, machine(name), lambda call, effects: replayed.append((call, effects)))
        again.close()
    assert found.machine.protocol.canonical() == survived(live)
    expected = [(calls[n - 1], effects_of[n]) for n in range(start.position + 1, done + 1)]
    assert replayed == expected
    assert found.now == max([call.now for call, _ in replayed], default=0)


def test_a_recovery_without_the_tail_is_not_the_machine_it_was(tmp_path):
    """The negative control of the test above: what it compares does tell the difference."""
    calls = restless_calls("vector", 3)
    live = machine("vector")
    journal = open_journal(tmp_path / "a")
    for place, call in enumerate(calls):
        live.replay(call)
        journal.commit(Commit([call]))
        if place == len(calls) // 2:
            journal.snapshot(live.save(), now=0, events=0, exact=False)
    short = machine("vector")
    short.load(journal.recovered().state)
    assert short.protocol.canonical() != survived(live)


def test_a_call_that_this_code_would_refuse_is_one_line(tmp_path):
    calls = restless_calls("vector", 3)
    first = next(place for place, call in enumerate(calls) if call.kind == 1)
    journal = open_journal(tmp_path / "a")
    journal.commit(Commit([calls[first]]))  # a frame without its link
    with pytest.raises(JournalError, match=r"call 1 cannot be replayed: node . sent a .* without a link"):
        recover(journal, machine("vector"))


class Times:
    """Time since boot and time of day, as a test sets them."""

    def __init__(self, of_day: int) -> None:
        self.elapsed, self.of_day = 0, of_day

    def clock(self, latest: int = 0) -> Clock:
        return Clock(latest, elapsed=lambda: self.elapsed, of_day=lambda: self.of_day)

    def pass_by(self, ns: int, *, step: int = 0) -> None:
        self.elapsed += ns
        self.of_day += ns + step


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(-(10**13), 10**13)), max_size=40))
def test_the_clock_never_goes_back_and_never_stands_still_whatever_is_done_to_the_time_of_day(steps):
    times = Times(10**15)
    clock = times.clock()
    before = clock.read()
    for ns, step in steps:
        times.pass_by(ns, step=step)
        now = clock.read()
        assert before + ns // 2 <= now <= before + ns + (ns + 1) // 2
        before = now


def test_the_clock_follows_the_time_of_day():
    times = Times(10**15)
    clock = times.clock()
    times.pass_by(10**9, step=10**9)
    for _ in range(5):
        times.pass_by(10**9)
        clock.read()
    assert clock.read() == times.of_day


def test_the_clock_does_not_go_back_over_a_restart():
    times = Times(10**15)
    assert times.clock(latest=10**15 + 5).read() == 10**15 + 6
