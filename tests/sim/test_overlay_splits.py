"""Spray after crashes, cuts and partitions of any length: whoever is there at the end is in one overlay."""

import random

import pinging
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.oracle import judge
from antecast.sim import run
from antecast.sim.overlay.memory import KEPT, Memory
from antecast.sim.scenario import make_scenario

SECOND = 10**9
EVERY = 5


def spray_engine(faults, seed=1, nodes=30, duration=180, core=2):
    return pinging.make_engine(
        seed=seed,
        nodes=nodes,
        duration=f"{duration}s",
        drain="60s",
        network={
            "topology": {"kind": "spray", "every": f"{EVERY}s", "core": core},
            "delay": "100ms",
            "fifo": True,
        },
        faults=faults,
    )


def components(engine):
    """The sizes of the parts of the overlay that have no link between them, the largest last."""
    network = engine._overlay._network
    left, sizes = set(network.present()), []
    while left:
        reached = frontier = {min(left)}
        while frontier:
            frontier = {q for p in frontier for q in network.links(p)} - reached
            reached = reached | frontier
        sizes.append(len(reached))
        left -= reached
    return sorted(sizes)


def arcs(engine):
    return sum(map(len, engine._overlay.views.values()))


def split(start, end, group):
    return [
        {"kind": "partition", "at": f"{start}s", "groups": [group]},
        {"kind": "heal", "at": f"{end}s"},
    ]


@pytest.mark.parametrize("length", [3, 6, 12, 60])
@pytest.mark.parametrize("seed", range(4))
def test_two_halves_with_full_views_find_each_other(length, seed):
    """Views are full, and after a while none of them leads to the other side any more."""
    engine = spray_engine(split(20, 20 + length, list(range(15))), seed, core=4)
    before = arcs(engine)
    across = []

    def look(_):
        across.extend((p, q) for p in range(15) for q in engine._overlay._network.links(p) if q >= 15)

    engine.scheduler.at((20 + length) * SECOND - 1, look, None)
    engine.run()
    assert not across
    assert components(engine) == [30]
    assert engine._overlay.found > 0 or length < EVERY
    # What a split costs in arcs, the reunion brings back.
    assert before <= arcs(engine) <= 1.25 * before


def test_views_do_not_grow_with_every_split():
    faults = [fault for k in range(8) for fault in split(20 + 80 * k, 50 + 80 * k, list(range(k, 15 + k)))]
    engine = spray_engine(faults, duration=700)
    before = arcs(engine)
    engine.run()
    assert components(engine) == [30]
    assert 0.9 * before <= arcs(engine) <= 1.5 * before


@given(st.data())
def test_whatever_broke_the_overlay_becomes_one_again(data):
    """Crashes, cuts, newcomers and partitions of any length, into any groups, one upon the other. Nobody who
    was there is gone for good, and after the last fault there is time to try all that are remembered."""
    nodes = data.draw(st.integers(2, 24))
    node = st.integers(0, nodes - 1)
    time = st.integers(0, 100_000)
    faults, joined = [], 0
    for kind in data.draw(
        st.lists(st.sampled_from(["crash", "cut", "partition", "join"]), min_size=1, max_size=8)
    ):
        at = data.draw(time)
        end = min(100_000, at + data.draw(st.sampled_from([100, 3000, 6000, 20_000, 60_000])))
        if kind == "crash":
            victim = data.draw(node)
            faults += [
                {"kind": "crash", "at": f"{at}ms", "node": victim},
                {"kind": "recover", "at": f"{end}ms", "node": victim},
            ]
        elif kind == "cut":
            faults.append({"kind": "cut", "at": f"{at}ms", "a": data.draw(node), "b": data.draw(node)})
        elif kind == "join":
            faults.append({"kind": "join", "at": f"{at}ms", "node": nodes + joined})
            joined += 1
        else:
            groups = data.draw(st.lists(node, min_size=nodes, max_size=nodes).map(lambda of: [g % 3 for g in of]))
            members = [[p for p in range(nodes) if groups[p] == g] for g in range(2)]
            faults.append({"kind": "partition", "at": f"{at}ms", "groups": members})
            faults.append({"kind": "heal", "at": f"{end}ms"})
    faults += [{"kind": "recover", "at": "101s", "node": p} for p in range(nodes)] + [
        {"kind": "heal", "at": "101s"}
    ]
    engine = spray_engine(faults, data.draw(st.integers(0, 2**32)), nodes, duration=101 + 2 * EVERY * (KEPT + 2))
    engine.run()
    assert components(engine) == [nodes + joined]
    overlay, network = engine._overlay, engine._overlay._network
    assert not overlay._opening and not overlay.connections._holds
    assert all(overlay.connections.needed(a, b) for a in network.present() for b in network.links(a))


def test_a_process_that_has_lost_everyone_first_asks_those_it_knew():
    """The neighbours of a process crash; it tries them before it asks for a stranger."""
    engine = spray_engine([], nodes=6)
    overlay, network = engine._overlay, engine._overlay._network
    known = set(network.links(0))
    asked = []
    seek = overlay._seek
    overlay._seek = lambda node, *args, **options: (asked.append(node), seek(node, *args, **options))
    others = range(1, 6)
    engine.scheduler.at(7 * SECOND, lambda _: [engine._crash(p) for p in others], None)
    engine.scheduler.at(40 * SECOND, lambda _: [engine._recover(p) for p in others if p in known], None)
    engine.scheduler.at(40 * SECOND, lambda _: asked.clear(), None)
    engine.run()
    assert 0 not in asked
    assert set(network.links(0)) & known


@pytest.mark.parametrize("seed", range(4))
def test_parts_find_each_other_though_those_between_them_left_for_good(seed):
    """Half of twelve processes leave, amid partitions."""
    draw = random.Random(seed)
    gone = draw.sample(range(12), 6)
    faults = [{"kind": "leave", "at": f"{draw.uniform(5, 180):.3f}s", "node": p} for p in gone]
    for start in (20, 70, 120):
        faults += split(start, start + 30, [p for p in range(12) if draw.random() < 0.4])
    engine = spray_engine(faults, seed, 12, duration=240)
    engine.run()
    assert components(engine) == [6]


def test_earlier_neighbours_come_to_mind_when_one_is_lost():
    memory = Memory()
    for peer in (1, 2, 3, 4, 5, 3):
        memory.part(peer)
    assert not memory
    memory.lose(2, owed=1)
    memory.recall()
    assert [memory.turn() for _ in range(4)] == [2, 4, 5, 3]
    assert [memory.owed_to(peer) for peer in (2, 4, 5, 3)] == [1, 0, 0, 0]


def test_messages_of_both_sides_arrive_when_a_long_partition_ends():
    for seed in range(3):
        result = run(
            make_scenario(
                {
                    "nodes": 16,
                    "seed": seed,
                    "duration": "150s",
                    "drain": "200s",
                    "protocol": {"name": "pc-broadcast"},
                    "network": {
                        "topology": {"kind": "spray", "every": "5s", "core": 3},
                        "fifo": True,
                        "delay": {"kind": "uniform", "low": "1ms", "high": "200ms"},
                    },
                    "workload": [{"kind": "poisson", "rate": 0.05}],
                    "faults": split(20, 60, list(range(8))),
                    "log": {"sample": 0, "events": "order"},
                }
            )
        )
        verdict = judge(result.events)
        assert not verdict.early and not verdict.duplicates
        kinds = result.events["kind"].to_pylist()
        assert kinds.count("deliver") == 16 * kinds.count("broadcast") > 0


def test_a_memory_is_small_and_its_order_is_that_of_trying():
    memory = Memory()
    for peer in range(KEPT + 3):
        memory.lose(peer, owed=peer % 2)
    assert len(memory) == KEPT
    assert [memory.turn() for _ in range(KEPT + 1)] == [*range(3, KEPT + 3), 3]
    memory.lose(4, owed=1)
    assert memory.owed_to(4) == 1 and memory.find(4) == 1 and len(memory) == KEPT - 1
    memory.lose(5, owed=1)
    assert memory.find(5) == 2
