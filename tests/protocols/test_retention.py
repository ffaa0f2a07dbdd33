"""Messages that nobody keeps any more: who goes on without them, when, and in what order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwise import Stepwise

from antecast.core import Message
from antecast.history.oracle import judge
from antecast.protocols import Guarantee, specification
from antecast.protocols.retained import Base, Summary
from antecast.sim import run
from antecast.sim.scenario import make_scenario
from antecast.testing import Bench, Move, Plan, assert_contract
from antecast.testing.hostile import HOSTILE, Stage

SECOND = 10**9
ORDERED = ["fifo", "vector", "vector-changes"]
ALL = ["r-broadcast", *ORDERED]

happenings = st.lists(
    st.sampled_from(
        [
            "broadcast",
            "broadcast",
            "open",
            "up",
            "up",
            "up",
            "frame",
            "lose",
            "flow",
            "down",
            "wait",
            "crash",
            "recover",
            "join",
        ]
    ),
    min_size=30,
    max_size=80,
)


repairs = st.sampled_from([None, None, "4s"])
"""With repair, frames may be lost."""


def play(protocol, nodes, steps, *, seed, fifo, **settings):
    """A network in which these steps have been taken, and which is whole again."""
    network = Stepwise(Bench(protocol, nodes=nodes, seed=seed, fifo=fifo, settings={"patience": "10s"} | settings))
    for step in steps:
        if step != "lose" or settings["repair"] is not None:
            network.step(step)
    network.heal()
    network.rest()
    return network


def moves(rows):
    return tuple(Move(*row) for row in rows)


def assert_order(network):
    guarantees = network.bench.spec.guarantees
    network.assert_order(fifo=Guarantee.FIFO in guarantees, causal=Guarantee.CAUSAL in guarantees)


@pytest.mark.parametrize("protocol", ALL)
@given(happenings, st.integers(2, 4), st.integers(0, 5), repairs, st.integers(0, 2**32), st.booleans())
def test_order_is_kept_and_everyone_reaches_everyone_after_healing(
    protocol, steps, nodes, retain, repair, seed, fifo
):
    network = play(protocol, nodes, steps, seed=seed, fifo=fifo, retain=retain, repair=repair)
    network.everyone_reaches_everyone(at_once=False)
    network.everyone_reaches_everyone(at_once=True)
    assert_order(network)
    assert_nothing_is_missed_without_a_word(network.bench)


def assert_nothing_is_missed_without_a_word(bench):
    """A node with a past that never delivers a message names it, or a later one of its source, in a discard."""
    with_a_past = set()
    for event in bench.log:
        if event.kind == "deliver":
            if event.id.origin != event.node:
                with_a_past.add(event.node)
            continue
        for node in with_a_past & bench.nodes.keys() - {event.node}:
            told = any(
                each.origin == event.id.origin and each.seq >= event.id.seq for each in bench.discarded[node]
            )
            assert told or event.id in bench.delivered[node], f"node {node} misses {event.id}, and does not say so"


@pytest.mark.parametrize("protocol", ALL)
@given(happenings, st.integers(2, 4), repairs, st.integers(0, 2**32), st.booleans())
def test_nothing_is_given_up_while_everything_is_kept(protocol, steps, nodes, repair, seed, fifo):
    network = play(protocol, nodes, steps, seed=seed, fifo=fifo, retain=1000, repair=repair)
    everything = {event.id for event in network.bench.log}
    assert all(set(network.bench.delivered[node]) == everything for node in network.bench.nodes)
    assert_order(network)


@pytest.mark.parametrize("protocol", ALL)
def test_a_neighbour_learns_what_was_given_up(protocol):
    """0 was apart for longer than messages are kept; 1 and 2 were linked all the time."""
    bench = Bench(protocol, nodes=3, fifo=True, settings={"retain": 20})
    bench.link(1, 2)
    bench.broadcast(1)
    bench.broadcast(2)
    bench.transfer()
    for _ in range(41):
        bench.broadcast(0)
    bench.link(0, 1)
    network = Stepwise(bench)
    network.rest()
    network.everyone_reaches_everyone(at_once=True)
    assert bench.delivered[2] == [(2, 1), (1, 1), *[(0, seq) for seq in range(22, 42)], (0, 42), (1, 2), (2, 2)]


@pytest.mark.parametrize("protocol", ORDERED)
def test_a_line_of_three_agrees_after_a_partition(protocol):
    result = run(
        make_scenario(
            {
                "nodes": 3,
                "duration": "80s",
                "drain": "60s",
                "protocol": {"name": protocol, "retain": 20},
                "network": {
                    "delay": "10ms",
                    "topology": {"kind": "links", "links": [[0, 1], [1, 2]]},
                },
                "workload": [{"kind": "periodic", "every": "1s"}],
                "faults": [
                    {"kind": "partition", "at": "10s", "groups": [[0], [1, 2]]},
                    {"kind": "heal", "at": "50s"},
                ],
            }
        )
    )
    assert protocol == "fifo" or not judge(result.events).early
    delivered = {node: set() for node in range(3)}
    for row in result.events.to_pylist():
        if row["kind"] == "deliver":
            delivered[row["node"]].add((row["origin"], row["seq"]))
    late = {name for names in delivered.values() for name in names if name[1] > 60}
    assert len(late) >= 45
    assert all(late <= names for names in delivered.values())


def test_a_base_holds_what_it_depends_on_though_that_is_still_kept():
    """2 gives up messages of 1 that depend on one of its own. It keeps that one, and offers 0 what it gave up."""
    bench = Bench("vector-changes", nodes=3, settings={"retain": 2})
    bench.link(1, 2)
    bench.broadcast(2)
    bench.transfer()
    bench.unlink(1, 2)
    for _ in range(4):
        bench.broadcast(1)  # the first depends on 2:1; 1 keeps the last two, and no longer 2:1
    bench.link(1, 2)
    for flight in arrivals(bench, lost=(1, 4)):
        bench.arrive(flight)
    bench.unlink(1, 2)
    bench.pass_time(bench.now + bench.settings.patience)
    assert bench.delivered[2] == [(2, 1), (1, 3)]
    bench.link(0, 2)
    for flight in arrivals(bench, last=(2, 1)):
        bench.arrive(flight)
    bench.pass_time(bench.now + 2 * bench.settings.patience)
    assert bench.delivered[0] == [(1, 3)]


def arrivals(bench, *, lost=None, last=None):
    """What is in flight, one by one, with one message lost or kept back until nothing else is."""
    late = []
    while bench.flying or late:
        flight = bench.wiring.pop() if bench.flying else late.pop()
        names = [each.id for each in flight.frame.carried]
        if names == [last] and bench.flying:
            late.append(flight)
        elif names != [lost]:
            yield flight


PLANS = {
    "what is held and precedes what is given up is not delivered behind it": Plan(
        "vector-changes",
        3,
        moves(
            (
                ("burst", 2, 2, 0),
                ("broadcast", 0, 0, 12000),
                ("crash", 1, 0, 0),
                ("recover", 0, 1, 12000),
                ("shock", 2, 0, 0),
                ("join", 0, 0, 0),
                ("join", 3, 0, 0),
                ("broadcast", 3, 2, 0),
                ("recover", 4, 0, 3000),
                ("broadcast", 1, 1, 100),
                ("shock", 3, 2, 0),
                ("flap", 2, 2, 12000),
                ("flap", 1, 1, 0),
                ("recover", 2, 1, 0),
                ("broadcast", 2, 0, 0),
                ("flap", 4, 0, 0),
            )
        ),
        {"retain": 2},
        delay=2000,
    ),
    "what was given up takes no place among what is kept": Plan(
        "fifo",
        4,
        moves(
            (
                ("cut", 4, 2, 0),
                ("flap", 0, 2, 0),
                ("shock", 4, 1, 0),
                ("join", 2, 0, 100),
                ("stranger", 4, 1, 100),
                ("burst", 1, 0, 3000),
                ("shock", 4, 0, 0),
                ("burst", 0, 0, 3000),
                ("flap", 3, 0, 3000),
                ("link", 3, 0, 0),
                ("burst", 2, 0, 12000),
            )
        ),
        {"retain": 5},
        delay=2000,
        notice=5000,
    ),
    "patience is lost on one link after the other": Plan(
        "fifo",
        2,
        moves(
            (
                ("doom", 1, 0, 0),
                ("stranger", 0, 0, 3000),
                ("cut", 3, 1, 100),
                ("join", 1, 0, 12000),
                ("join", 0, 0, 12000),
                ("leave", 0, 0, 0),
                ("stranger", 2, 0, 3000),
                ("crash", 3, 0, 100),
                ("cut", 1, 0, 100),
                ("join", 0, 0, 0),
                ("stranger", 1, 0, 100),
                ("burst", 4, 2, 0),
                ("shock", 2, 0, 0),
                ("burst", 2, 0, 3000),
                ("doom", 4, 2, 100),
                ("doom", 0, 1, 0),
                ("join", 2, 1, 0),
                ("crash", 3, 2, 3000),
                ("crash", 3, 0, 12000),
                ("crash", 1, 2, 100),
            )
        ),
        {"retain": 1},
        delay=2000,
        blackout=True,
        answers=True,
        seed=1,
    ),
}
"""Plans of `plans` that failed once."""


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_plans_that_failed_once(plan):
    assert_contract(specification(plan.protocol), plan)


@pytest.mark.parametrize("protocol", ORDERED)
def test_what_was_turned_away_and_is_gone_does_not_keep_later_messages_out(protocol):
    """Each of these messages fills the quota of its link, and its sender keeps nothing. If what was turned away
    were waited for only when the next message comes, the one after that would be turned away, and so on."""
    bench = Bench(protocol, nodes=3, settings={"retain": 0, "early": 1000, "patience": "2s"})
    bench.link(0, 1)
    bench.broadcast(1)
    bench.transfer()
    bench.unlink(0, 1)
    bench.broadcast(1)
    bench.link(0, 1)
    bench.link(1, 2)
    bench.transfer()
    for node in (1, 2):  # the first waits for 1:2, the second is turned away
        bench.broadcast(node, bytes(1500))
        bench.transfer()
    bench.run(20 * SECOND)
    names = []
    for node in (1, 2):
        names.append(bench.broadcast(node, bytes(1500)))
        bench.transfer()
    bench.run(20 * SECOND)
    assert bench.delivered[0][-2:] == names


@pytest.mark.parametrize("protocol", ORDERED)
def test_what_is_turned_away_on_one_link_after_the_other_comes_to_an_end(protocol):
    """A line in which every message fills a quota and nobody keeps anything: what one node turned away, the next
    one lacks. All are given up after as many rounds as there are links, and then everybody delivers everything."""
    bench = Bench(protocol, nodes=6, settings={"retain": 0, "early": 1000, "patience": "2s"})
    for node in range(5):
        bench.link(node, node + 1)
    for node in bench.nodes:
        bench.broadcast(node)
        bench.transfer()
    for node in range(5):
        bench.unlink(node, node + 1)
    for node in bench.nodes:
        bench.broadcast(node)
    for node in range(5):
        bench.link(node, node + 1)
    bench.transfer()
    lacking = []
    for _ in range(7):
        names = {bench.broadcast(node, bytes(1500)) for node in bench.nodes}
        bench.run(60 * SECOND)
        lacking.append(sum(len(names - set(bench.delivered[node])) for node in bench.nodes))
    assert lacking[0] > 0
    assert lacking[5:] == [0, 0]


def test_a_held_message_is_not_dropped_before_what_it_waits_for_was_given_up_two_links_away():
    """Node 2 went on without 9:1, which never was, so 2:2 depends on it. Node 0 gets 2:2, and the word of a liar
    that it went on without 2:2, before it gets the word of node 1 about 9:1."""
    bench = Stage(specification("vector"), attached=(2,)).open()
    asks = Summary({HOSTILE: 1}, {}, False)
    bench.inject(HOSTILE, 2, asks, Base({HOSTILE: 1}), Message(HOSTILE, 2, b"", {}))
    bench.run(11 * SECOND)
    assert list(map(str, bench.discarded[2])) == ["9:1"]
    bench.unlink(HOSTILE, 2)
    bench.link(HOSTILE, 0)
    names = [bench.broadcast(2) for _ in range(2)]
    bench.inject(HOSTILE, 0, asks, Base({2: 2}))
    bench.run(50 * SECOND)
    assert bench.delivered[0][-2:] == names


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), unique=True), st.data())
def test_what_another_lacks_is_found_in_the_order_of_delivery_however_little_it_is(names, data):
    log = specification("fifo").make(5, specification("fifo").configure({}))._dissemination._log
    filler = [(4, seq) for seq in range(1, 40)]
    place = data.draw(st.integers(0, len(filler)))
    for name in [*filler[:place], *names, *filler[place:]]:
        log.add(Message(*name, b"", None))
    upto = data.draw(st.dictionaries(st.integers(0, 4), st.integers(0, 40))) | {4: data.draw(st.integers(30, 40))}
    beyond = data.draw(st.dictionaries(st.integers(0, 3), st.lists(st.integers(1, 9))))
    lacking = [
        (each.origin, each.seq)
        for each in log.store.values()
        if each.seq > upto.get(each.origin, 0) and each.seq not in beyond.get(each.origin, ())
    ]
    assert [(each.origin, each.seq) for each in log._missing_in(upto, beyond)] == lacking
