"""Delivery: exact at 100 %, in time, the same by any way of looking, and never wedged by a bad message."""

import random

import pytest
from executions import execute, violations
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, LocalMisuse
from antecast.core.settings import read_settings
from antecast.observer import Bounds, Observer, Policy, Timestamp
from antecast.observer.policy import FUTURE

seeds = st.integers(0, 1 << 32)
bounds_ = st.builds(Bounds, epsilon=st.integers(0, 6), delta=st.integers(0, 8))
exact = pytest.mark.parametrize("mode", ["exact", "earlier-send", "dapw", "cbd", "margin"])
kinds = pytest.mark.parametrize("stamps", ["bounded", "hybrid"])


def watch(run, observer, *, every=1, stamps=None):
    """Let an observer see an execution, awake every so many ticks; what it delivered, and the clocks then."""
    order, clocks_then = [], []

    def note(out, clocks):
        assert all(each.reason is None for each in out)
        order.extend(each.item for each in out)
        clocks_then.extend([clocks] * len(out))

    kind = stamps or observer.policy.stamps
    for now, message, clocks in run.seen:
        now = now if observer.clock == "given" else None
        if message is not None:
            note(observer.receive(message, message.stamps[kind], message.source, now), clocks)
        elif now is not None and now % every == 0:
            note(observer.advance(now), clocks)
    note(observer.flush(), None)
    assert sorted(map(id, order)) == sorted(map(id, run.arrived))
    return order, clocks_then


@exact
@kinds
@given(seed=seeds, bounds=bounds_, every=st.integers(1, 7))
def test_nothing_is_delivered_before_what_it_depends_on(mode, stamps, seed, bounds, every):
    run = execute(random.Random(seed), bounds)
    order, _ = watch(run, Observer(Policy(bounds=bounds, mode=mode, stamps=stamps)), every=every)
    assert not violations(order)


@exact
@kinds
@given(seed=seeds, bounds=bounds_)
def test_the_same_by_the_clock_of_the_messages_themselves(mode, stamps, seed, bounds):
    run = execute(random.Random(seed), bounds)
    order, _ = watch(run, Observer(Policy(bounds=bounds, mode=mode, stamps=stamps), clock="rows"))
    assert not violations(order)


@exact
@kinds
@given(seed=seeds, bounds=bounds_)
def test_delivery_comes_within_delta_and_three_epsilon_on_the_sender_s_clock(mode, stamps, seed, bounds):
    run = execute(random.Random(seed), bounds)
    order, clocks_then = watch(run, Observer(Policy(bounds=bounds, mode=mode, stamps=stamps)))
    for message, clocks in zip(order, clocks_then, strict=True):
        if clocks is not None:  # not one of the last, which were flushed
            assert clocks[message.source] <= message.r + bounds.delta + 3 * bounds.epsilon + 1


@exact
def test_one_tick_less_is_not_enough(mode):
    """The bound is tight: an observer that believes in a δ smaller by one breaks the order, for every mode."""
    bounds, hasty = Bounds(epsilon=2, delta=3), Bounds(epsilon=2, delta=2)
    broken = 0
    for seed in range(150):
        run = execute(random.Random(seed), bounds)
        order, _ = watch(run, Observer(Policy(bounds=hasty, mode=mode, stamps="hybrid")))
        broken += len(violations(order))
    assert broken > 0


@pytest.mark.parametrize(("stamps", "elements"), [("physical", None), ("bounded", 0)])
def test_physical_clocks_alone_break_the_order(stamps, elements):
    bounds, broken = Bounds(epsilon=3, delta=3), 0
    policy = Policy(bounds=bounds, stamps=stamps, elements=elements)
    for seed in range(30):
        run = execute(random.Random(seed), bounds)
        for each in run.sent:
            stamp = each.stamps["bounded"]
            each.stamps["physical"] = Timestamp(stamp.r)
            each.stamps["bounded"] = Timestamp(stamp.r, stamp.c)
        order, _ = watch(run, Observer(policy))
        broken += len(violations(order))
    assert broken > 0


@pytest.mark.parametrize("mode", ["dapw", "cbd", "margin"])
@given(seed=seeds, bounds=bounds_, percent=st.integers(0, 100))
def test_what_is_not_called_late_is_in_the_order_of_the_timestamps(mode, seed, bounds, percent):
    run = execute(random.Random(seed), bounds)
    observer = Observer(Policy(bounds=bounds, mode=mode, percent=percent))
    out = []
    for now, message, _ in run.seen:
        out += (
            observer.advance(now)
            if message is None
            else observer.receive(message, message.stamps["bounded"], message.source, now)
        )
    out += observer.flush()
    keys = [each.item.stamps["bounded"].key(each.item.source) for each in out]
    assert [each.position for each in out] == list(range(len(run.arrived)))
    assert [key for key, each in zip(keys, out, strict=True) if not each.late] == sorted(
        key for key, each in zip(keys, out, strict=True) if not each.late
    )
    assert [each.late for each in out] == [key < max(keys[: at + 1]) for at, key in enumerate(keys)]


@kinds
@given(seed=seeds, bounds=bounds_)
def test_what_came_in_time_is_not_called_late(stamps, seed, bounds):
    """Also where concurrent messages go out of the order of their timestamps."""
    run = execute(random.Random(seed), bounds)
    observer = Observer(Policy(bounds=bounds, mode="earlier-send", stamps=stamps))
    watch(run, observer)
    assert observer.late == 0


@kinds
@given(seed=seeds, bounds=bounds_)
def test_what_came_too_late_is_called_so(stamps, seed, bounds):
    """An observer that believes in too small a δ: whatever is delivered after what depends on it is flagged."""
    run = execute(random.Random(seed), Bounds(epsilon=bounds.epsilon, delta=bounds.delta + 6))
    observer, out = Observer(Policy(bounds=bounds, mode="earlier-send", stamps=stamps)), []
    for now, message, _ in run.seen:
        out += (
            observer.advance(now)
            if message is None
            else observer.receive(message, message.stamps[stamps], message.source, now)
        )
    out += observer.flush()
    flagged = {id(each.item) for each in out if each.late}
    assert all(id(cause) in flagged for cause, _ in violations([each.item for each in out]))


class Scanning:
    """Check before delivery as the paper puts it: a message that is due looks through the queue, and where another
    has a smaller timestamp, takes its time of delivery."""

    def __init__(self, policy):
        self.policy, self.queue, self.times, self.out = policy, [], {}, []

    def receive(self, message, stamp, source, now):
        key = stamp.key(source)
        self.queue.append((key, message))
        self.times[key] = max(self.policy.due(stamp.r, stamp.c, 0), now)

    def end_of_tick(self, tick):
        changed = True
        while changed:
            changed = False
            for key, message in sorted(self.queue, key=lambda each: each[0]):
                if self.times[key] > tick:
                    continue
                smaller = [other for other, _ in self.queue if other < key]
                if smaller:
                    latest = max(self.times[other] for other in smaller)
                    if latest > self.times[key]:
                        self.times[key] = latest
                        changed = True
                    continue
                self.queue.remove((key, message))
                self.out.append((message, tick))
                changed = True


@given(seed=seeds, bounds=bounds_, percent=st.integers(0, 100))
def test_one_heap_does_what_the_published_scans_do(seed, bounds, percent):
    run = execute(random.Random(seed), bounds)
    policy = Policy(bounds=bounds, mode="cbd", percent=percent)
    observer, scanning, out = Observer(policy), Scanning(policy), []
    for now, message, _ in run.seen:
        if message is None:
            scanning.end_of_tick(now - 1)
            out += [(each.item, now - 1) for each in observer.advance(now)]
        else:
            scanning.receive(message, message.stamps["bounded"], message.source, now)
            assert not observer.receive(message, message.stamps["bounded"], message.source, now)
    assert out == scanning.out


@pytest.mark.parametrize("mode", ["dapw", "cbd", "margin"])
def test_what_goes_at_one_reading_goes_in_the_order_of_the_timestamps(mode):
    """The second is due before the first, and sorts after it: c makes its timestamp larger."""
    observer = Observer(Policy(bounds=Bounds(epsilon=10, delta=10), mode=mode, percent=0, stamps="hybrid"))
    observer.receive("first", Timestamp(r=105, kn=(0,)), 0, now=100)
    observer.receive("second", Timestamp(r=100, c=10, kn=(0,)), 1, now=100)
    assert [each.item for each in observer.advance(120)] == ["first", "second"]


def test_next_due_is_when_to_look_again():
    observer = Observer(Policy(bounds=Bounds(epsilon=1, delta=2), stamps="hybrid"))
    assert observer.next_due() is None
    observer.receive("m", Timestamp(r=10, kn=(0,)), 0, now=11)
    assert observer.next_due() == 14
    assert observer.advance(13) == []
    assert [each.item for each in observer.advance(14)] == ["m"]


@pytest.mark.parametrize("case", ["c", "far", "huge", "kn"])
def test_a_bad_message_is_refused_with_a_reason_and_holds_up_nobody(case):
    """r huge and c negative: a small timestamp, due never. Unguarded, it would block the heap for ever."""
    stamp, reason = {
        "c": (Timestamp(r=10**9, c=-(10**9) + 5, kn=(0,)), "c is negative"),
        "far": (Timestamp(r=10**9, kn=(0,)), FUTURE),
        "huge": (Timestamp(r=10, c=10**6, kn=(0,)), "c is larger than ε"),
        "kn": (Timestamp(r=10, kn=(0, 0)), "kn has the wrong length"),
    }[case]
    policy = Policy(bounds=Bounds(epsilon=2, delta=5), percent=50, stamps="hybrid")
    observer = Observer(policy)
    assert [(each.item, each.reason) for each in observer.receive("bad", stamp, 0, now=10)] == [("bad", reason)]
    observer.receive("good", Timestamp(r=10, kn=(0,)), 1, now=11)
    assert [each.item for each in observer.advance(18)] == ["good"]
    assert observer.refused == {reason: 1}


def row(r, kn=0):
    return Timestamp(r=r, kn=(kn,))


def rows_observer(**options):
    return Observer(Policy(bounds=Bounds(epsilon=1, delta=2), stamps="hybrid"), clock="rows", gap=100, **options)


def test_a_single_row_from_the_future_moves_no_clock():
    observer = rows_observer()
    out = []
    for item, r in enumerate([10, 11, 10**6, 12, 13, 14, 15, 16, 17]):
        out += observer.receive(item, row(r), 0)
    assert [(each.item, each.reason) for each in out if each.reason] == [(2, FUTURE)]
    assert observer.now == 17
    assert [each.item for each in out if not each.reason] == [0, 1, 3, 4]


@pytest.mark.parametrize("sources", ["abacab", "abaacbaac", "aabababc"])
def test_a_clock_that_stands_in_1970_and_speaks_first_has_nobody_refused(sources):
    """Its rows come between those of the others, and are in time by its own clock."""
    observer = rows_observer()
    out = []
    for item, source in enumerate([*sources, *"bcabc"]):
        out += observer.receive(item, row(0, kn=item) if source == "a" else row(10**12 + item), source)
    assert [each.item for each in out + observer.flush() if each.reason] == []
    assert observer.now == 10**12 + item


def test_one_source_alone_refuses_a_single_other_one_after_ten_rows():
    observer = rows_observer()
    observer.receive("first", row(10), "a")
    observer.receive("ahead", row(10**6), "b")
    refused = [observer.receive(each, row(10 + each), "a") for each in range(1, 11)]
    assert [len([each for each in out if each.reason]) for out in refused] == [0] * 9 + [1]


def test_after_a_silence_a_few_rows_that_agree_are_believed():
    observer = rows_observer()
    out = []
    for item, r in enumerate([10, 11, 5000, 5001, 5002]):
        out += observer.receive(item, row(r), 0)
    out += observer.flush()
    assert [(each.item, each.reason) for each in out] == [(item, None) for item in range(5)]


def test_rows_that_leap_on_and_on_are_believed_too():
    """A stream with a row now and then, further apart than the gap: none is refused that is confirmed later."""
    observer = rows_observer()
    out = []
    for item in range(10):
        out += observer.receive(item, row(1000 * item), 0)
    assert [(each.item, each.reason) for each in out + observer.flush() if each.reason is None] == [
        (item, None) for item in range(10)
    ]


def test_another_clock_can_vouch_for_a_leap():
    observer = rows_observer()
    observer.receive("first", row(10), 0)
    observer.evidence = 4999
    assert [each.item for each in observer.receive("second", row(5000), 0)] == ["first"]
    assert observer.now == 5000


def test_a_clock_that_was_wrong_from_the_start_is_set_back():
    observer = rows_observer()
    observer.receive("wrong", row(10**9), 0)
    out = []
    for item, r in enumerate(range(10, 40)):
        out += observer.receive(item, row(r), 0)
    assert observer.now == 39
    assert observer.resets > 0
    delivered = [each.item for each in out]
    assert [each for each in delivered if each != "wrong"] == list(range(26))
    assert not any(each.late for each in out[-10:])


def test_a_clock_that_steps_back_is_followed():
    observer = Observer(Policy(bounds=Bounds(epsilon=1, delta=2), stamps="hybrid"))
    observer.advance(10**9)
    observer.receive("m", row(10), 0, now=10)
    assert [each.item for each in observer.advance(14)] == ["m"]


def test_misuse_is_told():
    with pytest.raises(LocalMisuse, match="pass the reading"):
        Observer(Policy(bounds=Bounds(epsilon=1, delta=2))).receive("m", row(1), 0)
    with pytest.raises(LocalMisuse, match="pass no reading"):
        rows_observer().receive("m", row(1), 0, now=3)
    values = {"bounds": {"epsilon": 1, "delta": 2}, "mode": "exact", "percent": 40}
    with pytest.raises(ConfigurationError, match="percent is for dapw, cbd and margin"):
        read_settings(values, Policy)
    with pytest.raises(ConfigurationError, match=r"bounds\.epsilon"):
        read_settings({"bounds": {"epsilon": -1, "delta": 2}}, Policy)


@pytest.mark.parametrize("mode", ["exact", "dapw", "cbd", "margin"])
@pytest.mark.parametrize("stamps", ["bounded", "hybrid"])
@given(seed=seeds)
def test_a_system_that_was_corrupted_all_over_recovers(mode, stamps, seed):
    """Clocks of processes, stamps on their way and the observer's own state: nothing sticks, and what is sent
    after 2δ + 4ε + 1 ticks is in order again."""
    draw = random.Random(seed)
    bounds = Bounds(epsilon=3, delta=4, nodes=4, events_a_tick=40)
    at, started = draw.randrange(100, 200), []

    def wild():
        return draw.choice([-(10**9), -7, 0, 3, 50, 10**9])

    def corrupt(step, stampers, moving):
        if step != at:
            return
        started.extend(moving)
        for stamper in stampers:
            clock = stamper[stamps]
            clock._latest, clock._before = wild(), draw.choice([None, wild()])
            if stamps == "bounded":
                clock._counts = [wild() for _ in range(draw.choice([3, 4]))]
            else:
                clock._counter = wild()
        for message in moving:
            kn = tuple(wild() for _ in range(draw.choice([1, 4])))
            message.stamps[stamps] = Timestamp(wild(), wild(), kn, draw.choice([None, wild()]))

    run = execute(draw, bounds, steps=600, makers=(stamps,), corrupt=corrupt)
    observer = Observer(Policy(bounds=bounds, mode=mode, stamps=stamps))
    cut = next((now for now, message, _ in run.seen if message in started), run.seen[-1][0])
    out, corrupted, last = [], False, 0
    for now, message, _ in run.seen:
        if not corrupted and now >= cut:
            corrupted = True
            for each in observer.waiting():
                each.due, each.arrived = wild(), wild()
                each.key = (wild(), *(wild() for _ in range(observer.policy.width)), 0)
            observer.top = (10**12, 0, 0)
            observer.now = draw.choice([observer.now, 10**9])
            observer._look_at = wild()
        last = now
        out += (
            observer.advance(now)
            if message is None
            else observer.receive(message, message.stamps[stamps], message.source, now)
        )
    for now in range(last, last + 2 * bounds.longest + 2):
        out += observer.advance(now)
    assert len(observer) == 0
    assert len(out) == len(run.arrived)
    healed = cut + 2 * bounds.delta + 4 * bounds.epsilon + 1 + bounds.epsilon
    order = [each.item for each in out if each.reason is None and each.item.r > healed]
    assert not violations(order)
    assert not any(each.late for each in out if each.reason is None and each.item.r > healed + bounds.longest)
