"""Δ-causal order: lifetimes that differ, clocks that differ, and the rules that bear them or do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import Deliver, Discard, LocalMisuse, Message, Send
from antecast.history.oracle import judge
from antecast.protocols import specification
from antecast.protocols.delta import Delta, Stamp
from antecast.protocols.layered import EXPIRY
from antecast.sim import run
from antecast.sim.scenario import make_scenario

SECOND = 10**9


def delta(node, *, rule="safe", lifetime=10, clock_bound=4, prune=True):
    return Delta(
        node,
        lifetime=lifetime * SECOND,
        max_lifetime=20 * SECOND,
        clock_bound=clock_bound * SECOND,
        rule=rule,
        prune=prune,
    )


def at(seconds):
    return round(seconds * SECOND)


def broadcast(ordering, node, seq, now, lifetime=None):
    return Message(node, seq, b"", ordering.stamp(seq, at(now), None if lifetime is None else at(lifetime)))


def ids(messages):
    return [(each.origin, each.seq) for each in messages]


@pytest.mark.parametrize(("rule", "violated"), [("paper", True), ("safe", False)])
def test_a_clock_that_is_ahead_makes_the_published_rule_deliver_a_cause_after_its_effect(rule, violated):
    """A's clock is 2 s ahead; B, D and E are exact. m₁ → m₃, and both can still be delivered at D at 11.2 s:
    the published rule delivers m₃, all of whose entries have expired, and then m₁, which has not."""
    a, b, d, e = (delta(node, rule=rule) for node in range(4))
    m1 = broadcast(a, 0, 1, 0 + 2)
    assert m1.stamp.deadline == at(12)
    e.accept(m1, at(0.5))
    broadcast(e, 3, 1, 1.0)
    b.accept(m1, at(0.9))
    m2 = broadcast(b, 1, 1, 1)
    e.accept(m2, at(1.2))
    m3 = broadcast(e, 3, 2, 1.5)
    now = at(11.2)
    order = []
    for message in (m3, m1):
        if d.admit(message, now) is None:
            order += ids(d.accept(message, now).ready)
    assert ((0, 1) in order and (3, 2) in order and order.index((3, 2)) < order.index((0, 1))) == violated


def test_a_deadline_never_falls_below_those_of_its_past():
    a, b = delta(0), delta(1)
    long = broadcast(a, 0, 1, 0, lifetime=20)
    b.accept(long, at(1))
    short = broadcast(b, 1, 1, 1, lifetime=5)
    assert short.stamp.deadline > long.stamp.deadline


@pytest.mark.parametrize("rule", ["safe", "paper"])
def test_tags_of_a_source_grow_strictly_whatever_its_lifetimes(rule):
    a = delta(0, rule=rule)
    tags = [
        broadcast(a, 0, seq, now, lifetime=life).stamp.deadline
        for seq, (now, life) in enumerate([(0, 9), (0, 9), (1, 2)], 1)
    ]
    assert tags == sorted(set(tags))


def test_a_message_waits_for_its_predecessor_until_that_expires():
    a, b, c = delta(0), delta(1), delta(2)
    first = broadcast(a, 0, 1, 0, lifetime=5)
    b.accept(first, at(1))
    second = broadcast(b, 1, 1, 1)
    assert c.accept(second, at(2)).ready == []
    assert c.wakeup() == at(5) + 1
    assert c.expire(at(5)).ready == []
    assert ids(c.expire(at(5) + 1).ready) == [(1, 1)]
    assert c.wakeup() is None


def test_a_sender_names_a_predecessor_until_it_has_expired_on_every_clock():
    a, b = delta(0), delta(1)
    b.accept(broadcast(a, 0, 1, 0, lifetime=5), at(1))
    assert 0 in broadcast(b, 1, 1, 8).stamp.barrier
    b.accept(broadcast(a, 0, 2, 8, lifetime=5), at(9))
    c, d = delta(2), delta(3)
    for each in (c, d):
        each.accept(broadcast(delta(0), 0, 1, 8, lifetime=5), at(9))
    assert 0 not in broadcast(c, 2, 1, 18, lifetime=20).stamp.barrier
    assert (
        0 in broadcast(d, 3, 1, 18).stamp.barrier
    )  # a clock that is at 8 s would deliver it, and its cause later
    assert 0 not in broadcast(b, 1, 2, 28).stamp.barrier


def test_an_expired_message_and_one_from_a_wild_clock_are_refused():
    ordering = delta(0)
    assert ordering.admit(Message(1, 1, b"", Stamp(at(5), {})), at(5)) is None
    assert ordering.admit(Message(1, 1, b"", Stamp(at(5), {})), at(5) + 1) == "expired"
    assert ordering.admit(Message(1, 1, b"", Stamp(at(500), {})), at(5)) == "deadline too far ahead"


def test_a_message_that_is_a_little_ahead_is_taken_and_delivered_when_its_deadline_is_in_reach():
    """Clocks are at most 4 s apart, lifetimes at most 20 s: a deadline 26 s ahead may come from a node that had
    delivered one 24 s ahead by a clock that is 4 s ahead."""
    ordering = delta(0)
    message = Message(1, 1, b"", Stamp(at(26), {}))
    assert ordering.admit(message, at(0)) is None
    assert ordering.accept(message, at(0)).ready == []
    assert abs(ordering.wakeup() - at(2)) < at(0.001)
    assert ordering.expire(ordering.wakeup() - 1).ready == []
    assert ordering.expire(ordering.wakeup()).ready == [message]


def test_a_wild_clock_stretches_nobody_s_lifetimes():
    spec = specification("delta")
    node = spec.make(0, spec.configure({"lifetime": "10s", "clock_bound": "2s"}))
    node.link_up(1, 0)
    effects = node.receive(Message(1, 1, b"", Stamp(at(10**6), {})), 1, at(1))
    assert not [effect for effect in effects if isinstance(effect, Deliver | Discard)]
    assert node.gauges()["refused"] == 1
    sent = node.broadcast(b"", at(2))
    assert sent[-1].message.stamp.deadline == at(12)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_wild_clock_costs_no_other_node_its_order_though_lifetimes_differ(forgets):
    """Node 0 is 19 s ahead. On its clock m₁ has expired when it broadcasts m₂, and for b it has not."""
    a, b, wild = (delta(node, clock_bound=2) for node in (1, 2, 0))
    broadcast(wild, 0, 1, 30, lifetime=2)
    m1 = broadcast(a, 1, 1, 20, lifetime=20)
    assert ids(wild.accept(m1, at(20 + 19)).ready) == [(1, 1)]
    if forgets:
        wild.expire(at(20 + 23))
    m2 = broadcast(wild, 0, 2, 20 + 23, lifetime=2)
    order = []
    for now, message in ((24, m2), (25, m1)):
        if b.admit(message, at(now)) is None:
            order += ids(b.accept(message, at(now)).ready)
    order += ids(b.expire(at(40) + 1).ready)
    assert order in ([(1, 1), (0, 2)], [(1, 1)])


def test_nor_does_one_that_leaps_and_is_set_right():
    """Node 0 forgets m₁ while its clock is ahead, and broadcasts m₂ while m₁ can still be delivered at b."""
    a, b, wild = (delta(node, lifetime=20, clock_bound=2) for node in (1, 2, 0))
    m1 = broadcast(a, 1, 1, 0)
    assert ids(wild.accept(m1, at(1)).ready) == [(1, 1)]
    wild.expire(at(100))
    m2 = broadcast(wild, 0, 1, 2)
    saved, wild = wild.snapshot(), delta(0, lifetime=20, clock_bound=2)
    wild.restore(saved, [])
    assert broadcast(wild, 0, 2, 3).stamp.deadline > m2.stamp.deadline > m1.stamp.deadline + at(22)
    order = []
    for now, message in ((3, m2), (4, m1), (21, m2)):
        if b.admit(message, at(now)) is None:
            order += ids(b.accept(message, at(now)).ready)
    assert order == [(1, 1), (0, 1)]


def test_a_clock_that_goes_back_repeats_no_delivery():
    """Node 0's clock leaps ahead, so that a message expires and is forgotten, and is then set right."""
    spec = specification("delta")
    node = spec.make(0, spec.configure({"lifetime": "10s", "clock_bound": "2s"}))
    node.link_up(1, at(0))
    message = Message(1, 1, b"", Stamp(at(10), {}))
    assert Deliver(message) in node.receive(message, 1, at(1))
    node.link_up(2, at(100))  # looks through its cache
    assert node.gauges()["cached"] == 0
    assert node.receive(message, 1, at(2)) == []
    later = Message(1, 2, b"", Stamp(at(11), {1: at(10)}))
    assert Deliver(later) in [*node.receive(later, 1, at(3)), *node.timer(EXPIRY, at(10) + 1)]


FALSE_STAMPS = pytest.mark.parametrize("second", [5, 6], ids=["one tag twice", "its own last one left out"])


@FALSE_STAMPS
def test_a_message_is_not_delivered_after_what_depends_on_it_though_its_source_lies(second):
    """The second message of node 3 does not wait for the first: where it came, it stands for both."""
    a, b = delta(0), delta(1)
    first = Message(3, 1, b"", Stamp(at(5), {}))
    a.accept(first, at(1))
    answer = broadcast(a, 0, 1, 1)
    assert ids(b.accept(Message(3, 2, b"", Stamp(at(second), {})), at(1)).ready) == [(3, 2)]
    assert ids(b.accept(answer, at(1)).ready) == [(0, 1)]
    late = b.accept(first, at(1))
    assert (ids(late.ready), ids(late.dropped)) == ([], [(3, 1)])


@FALSE_STAMPS
def test_nor_is_one_that_waited_meanwhile(second):
    a, b, c = delta(0), delta(1), delta(2)
    cause = broadcast(c, 2, 1, 0, lifetime=4)
    first = Message(3, 1, b"", Stamp(at(5), {2: at(4)}))
    a.accept(cause, at(1))
    a.accept(first, at(1))
    answer = broadcast(a, 0, 1, 1)
    assert answer.stamp.barrier == {3: at(5)}
    assert b.accept(first, at(1)).ready == []
    assert ids(b.accept(Message(3, 2, b"", Stamp(at(second), {})), at(1)).ready) == [(3, 2)]
    assert ids(b.accept(answer, at(1)).ready) == [(0, 1)]
    late = b.accept(cause, at(2))
    assert (ids(late.ready), ids(late.dropped)) == ([(2, 1)], [(3, 1)])
    assert b.pending() == []


def test_an_overtaken_message_is_passed_on_and_its_end_is_told_once():
    spec = specification("delta")
    node = spec.make(0, spec.configure({"lifetime": "10s"}))
    for peer in (1, 2):
        node.link_up(peer, 0)
    node.receive(Message(3, 2, b"", Stamp(at(5), {})), 1, at(1))
    first = Message(3, 1, b"", Stamp(at(5), {}))
    assert node.receive(first, 1, at(1)) == [Send(2, first), Discard(first.id, "overtaken")]
    assert node.receive(first, 2, at(1)) == []


def test_the_registry_of_deliveries_forgets_expired_sources():
    ordering = delta(0)
    for source in range(1, 6):
        ordering.accept(Message(source, 1, b"", Stamp(at(source), {})), 0)
    assert ordering.gauges()["clock"] == 5
    ordering.expire(at(3) + 1)
    assert ordering.gauges()["clock"] == 2


def test_other_protocols_know_no_lifetimes():
    spec = specification("vector")
    with pytest.raises(LocalMisuse, match="does not support lifetimes"):
        spec.make(0, spec.configure({})).broadcast(b"", 0, lifetime=5)


@st.composite
def networks(draw, *, rule="safe"):
    """Nodes that meet now and then, messages that live for seconds, clocks that are seconds apart."""
    nodes = draw(st.integers(2, 5))
    skew = draw(st.sampled_from([0, 1, 3]))
    node = st.integers(0, nodes - 1)
    times = st.integers(0, 40_000).map(lambda ms: f"{ms}ms")
    broadcasts = st.fixed_dictionaries(
        {"t": times, "node": node, "lifetime": st.sampled_from(["2s", "5s", "10s"])}
    )
    faults = []
    for _ in range(draw(st.integers(1, 40))):
        a, b = draw(node), draw(node)
        if a != b:
            begin = draw(st.integers(0, 50_000))
            length = draw(st.sampled_from([10, 500, 5_000]))
            faults.append({"kind": "link", "at": f"{begin}ms", "a": a, "b": b})
            faults.append({"kind": "cut", "at": f"{begin + length}ms", "a": a, "b": b})
    if draw(st.booleans()):
        victim, when = draw(node), draw(st.integers(0, 30_000))
        faults.append({"kind": "crash", "at": f"{when}ms", "node": victim})
        faults.append({"kind": "recover", "at": f"{when + 3000}ms", "node": victim})
    return make_scenario(
        {
            "nodes": nodes,
            "seed": draw(st.integers(0, 2**32)),
            "duration": "50s",
            "protocol": {
                "name": "delta",
                "lifetime": "5s",
                "max_lifetime": "10s",
                "clock_bound": f"{2 * skew}s",
                "rule": rule,
                "prune": draw(st.booleans()),
                "capacity": draw(st.sampled_from([None, None, 2])),
                "policy": draw(st.sampled_from(["oldest", "random", "expire-first"])),
                "order": draw(st.sampled_from(["random", "newest", "oldest"])),
            },
            "network": {"topology": {"kind": "links", "links": []}, "delay": "2ms"},
            "clocks": {"offset": f"{skew}s"},
            "workload": [{"kind": "at", "broadcasts": draw(st.lists(broadcasts, max_size=25))}],
            "faults": faults,
            "log": {"sample": 0},
        }
    )


@given(networks())
def test_the_safe_rule_never_violates_delta_causal_order(scenario):
    judgement = judge(run(scenario).events, clock="global")
    assert not judgement.early
    assert not judgement.duplicates
    assert not judgement.before_broadcast


@given(networks())
def test_nothing_is_delivered_after_its_deadline(scenario):
    """On the delivering node's clock, which is at most `offset` behind the true time."""
    rows = run(scenario).events.to_pylist()
    born = {(row["origin"], row["seq"]): row["t"] for row in rows if row["kind"] == "broadcast"}
    # A deadline is at most the longest lifetime of the past ahead of a clock that is `offset` off at most.
    longest = 10 * SECOND + 2 * scenario.clocks.offset + SECOND
    for row in rows:
        if row["kind"] == "deliver":
            assert row["t"] - born[row["origin"], row["seq"]] <= longest


def test_the_published_rule_violates_causal_order_in_some_networks():
    """The same networks, as many as it takes: mixed lifetimes alone are enough."""
    values = {
        "nodes": 5,
        "duration": "120s",
        "protocol": {"name": "delta", "lifetime": "10s", "max_lifetime": "20s", "rule": "paper"},
        "network": {"topology": {"kind": "links", "links": []}, "delay": "1ms"},
        "workload": [{"kind": "poisson", "rate": 0.1, "lifetime": life} for life in ("5s", "10s", "20s")],
        "log": {"sample": 0},
    }

    def violations(rule, seed):
        from antecast.sim.streams import Stream

        stream = Stream(seed, "contacts")
        faults = []
        for second in range(120):
            a, b = stream.sample(5, 2)
            faults.append({"kind": "link", "at": f"{second}s", "a": a, "b": b})
            faults.append({"kind": "cut", "at": f"{second * 1000 + 500}ms", "a": a, "b": b})
        scenario = make_scenario(
            values | {"seed": seed, "faults": faults, "protocol": values["protocol"] | {"rule": rule}}
        )
        return len(judge(run(scenario).events).early)

    seeds = range(30)
    assert sum(violations("paper", seed) > 0 for seed in seeds) >= 1
    assert sum(violations("safe", seed) for seed in seeds) == 0


def test_under_the_published_rule_a_later_message_of_the_source_stands_for_the_one_awaited():
    """Its sender, whose clock is ahead, has dropped the earlier one from its barrier; here it lives on."""
    d = delta(2, rule="paper")
    waiting = Message(1, 1, b"", Stamp(at(12), {0: at(8)}))
    assert ids(d.accept(waiting, at(1)).ready) == []
    later = Message(0, 2, b"", Stamp(at(9), {}))
    assert ids(d.accept(later, at(2)).ready) == [(0, 2), (1, 1)]
    assert d.gauges()["pending"] == 0


@pytest.mark.parametrize("rule", ["safe", "paper"])
def test_a_message_waits_no_longer_than_its_predecessor_lives(rule):
    d = delta(2, rule=rule)
    waiting = Message(1, 1, b"", Stamp(at(12), {0: at(8)}))
    d.accept(waiting, at(1))
    assert ids(d.expire(at(8)).ready) == []
    assert ids(d.expire(at(8) + 1).ready) == [(1, 1)]


def test_under_the_published_rule_what_expires_while_it_waits_is_dropped():
    d = delta(2, rule="paper")
    early, late = (Message(1, seq, b"", Stamp(at(tag), {0: at(8)})) for seq, tag in ((1, 5), (2, 12)))
    for message in (early, late):
        d.accept(message, at(1))
    assert ids(d.expire(at(6)).dropped) == [(1, 1)]
    assert d.gauges()["pending"] == 1
    assert ids(d.expire(at(9)).ready) == [(1, 2)]
