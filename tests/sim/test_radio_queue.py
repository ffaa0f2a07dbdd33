"""One radio for all contacts of a node: a contact that ends frees it, and what was not sent is not counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.sim import run
from antecast.sim.scenario import make_scenario

SECOND = 10**9
BITS_NS = 8 * 10**9
BANDWIDTH = 1000


def scenario(contacts, broadcasts, **network):
    faults = []
    for start, end, a, b in contacts:
        faults.append({"kind": "link", "at": f"{start}ms", "a": a, "b": b})
        faults.append({"kind": "cut", "at": f"{end}ms", "a": a, "b": b})
    return make_scenario(
        {
            "nodes": 4,
            "duration": "400s",
            "protocol": {"name": "epidemic", "order": "oldest"},
            "network": {
                "topology": {"kind": "links", "links": []},
                "delay": "0s",
                **({} if "transmission" in network else {"bandwidth": f"{BANDWIDTH}b/s"}),
                **network,
            },
            "workload": [{"kind": "at", "broadcasts": [{"t": f"{t}ms", "node": node} for t, node in broadcasts]}],
            "faults": faults,
            "log": {"sample": 0},
        }
    )


def rows(result, *kinds):
    return [row for row in result.events.to_pylist() if row["kind"] in kinds]


@pytest.mark.parametrize("queue", ["node", "link"])
def test_a_contact_that_ends_frees_the_radio(queue):
    """A hundred frames of 0.6 s wait for a contact of 1 s. The next contact finds the radio free."""
    result = run(
        scenario(
            [(100_000, 101_000, 0, 1), (200_000, 400_000, 0, 2)], [(0, 0)] * 100, queue=queue, bandwidth="10kb/s"
        )
    )
    first = next(row for row in rows(result, "deliver") if row["node"] == 2)
    assert 200 * SECOND < first["t"] < 201 * SECOND
    to_one = [row for row in rows(result, "send") if row["node"] == 0 and row["peer"] == 1]
    received = [row for row in rows(result, "receive") if row["node"] == 1]
    assert len(to_one) - len(received) == 1  # the one that was on the air
    assert len(rows(result, "deliver")) == 200 + len([row for row in received if row["origin"] is not None])


def test_other_contacts_need_not_wait_for_one_that_ended():
    """0 is sending to 1 when that contact ends; 2, in contact all the time, gets its turn at once."""
    result = run(scenario([(10_000, 11_000, 0, 1), (10_500, 60_000, 0, 2)], [(0, 0)] * 10))
    sent = [row for row in rows(result, "send") if row["node"] == 0 and row["peer"] == 2]
    assert sent[0]["t"] == 11 * SECOND


def test_a_frame_withdrawn_leaves_no_turn_behind():
    """The frame for 3 is withdrawn while another is on the air; two more come just when that one has been sent."""
    contacts = [(0, 30_000, 0, 1), (0, 30_000, 0, 2), (10_000, 10_250, 0, 3)]
    result = run(scenario(contacts, [(10_100, 0), (10_300, 0)], transmission="100ms"))
    sent = [row["t"] // 10**6 for row in rows(result, "send") if row["node"] == 0 and row["t"] > 10_050 * 10**6]
    assert sent == [10_100, 10_200, 10_300, 10_400]


def by_bytes(size):
    return size * BITS_NS // BANDWIDTH


def assert_one_at_a_time(result, takes):
    """A node has one frame on the air at a time, unless its contact ended; what is received was sent before, just
    as long as it takes."""
    busy, sent = {}, {}
    for row in rows(result, "send", "receive", "down", "crash"):
        node, t = row["node"], row["t"]
        if row["kind"] == "crash":
            busy.pop(node, None)
        elif row["kind"] == "down":
            if node in busy and busy[node][1] == row["peer"]:
                del busy[node]
        elif row["kind"] == "send":
            assert node not in busy or busy[node][0] <= t
            busy[node] = t + takes(row["bytes"]), row["peer"]
            sent.setdefault((node, row["peer"], row["origin"], row["seq"]), []).append((t, row["bytes"]))
        else:
            frames = sent[row["peer"], node, row["origin"], row["seq"]]
            assert any(at + takes(size) == t and size == row["bytes"] for at, size in frames)


@st.composite
def meetings(draw):
    grid, steps = draw(st.sampled_from([(1, 30_000), (100, 30)]))
    """On a coarse one, contacts end, frames leave and broadcasts are made at the same instant."""
    times = st.integers(0, steps).map(lambda step: step * grid)
    contacts, free = [], {}
    for _ in range(draw(st.integers(1, 12))):
        a, b = draw(st.sampled_from([(a, b) for a in range(4) for b in range(a + 1, 4)]))
        start = max(draw(times), free.get((a, b), 0))
        end = start + draw(st.sampled_from([grid, 300, 1_000, 20_000]))
        free[a, b] = end + grid
        contacts.append((start, end, a, b))
    broadcasts = draw(st.lists(st.tuples(times, st.integers(0, 3)), max_size=30))
    if draw(st.booleans()):
        network = {"queue_limit": draw(st.sampled_from([None, 300, 2000]))}
        return scenario(contacts, broadcasts, **network), by_bytes
    packet = draw(st.sampled_from([grid, 70, 900]))
    network = {"transmission": f"{packet}ms", "processing": draw(st.sampled_from(["0s", "40ms"]))}
    return scenario(contacts, broadcasts, **network), lambda size: packet * 10**6


@given(meetings())
def test_a_node_has_one_frame_on_the_air_at_a_time_and_counts_what_it_sent(made):
    """By bytes or by packets."""
    network, takes = made
    assert_one_at_a_time(run(network), takes)


def test_packets_for_a_contact_that_ended_are_withdrawn():
    """A hundred packets of 0.1 s wait for a contact of 1 s, and the next one begins at its end."""
    contacts = [(100_000, 101_000, 0, 1), (101_000, 400_000, 0, 2)]
    result = run(scenario(contacts, [(0, 0)] * 100, transmission="100ms"))
    first = next(row for row in rows(result, "deliver") if row["node"] == 2)
    assert 101 * SECOND < first["t"] < 102 * SECOND
    sent = [row for row in rows(result, "send") if row["node"] == 0 and row["peer"] == 1]
    received = [row for row in rows(result, "receive") if row["node"] == 1]
    assert 5 < len(sent) <= 10
    assert len(sent) - len(received) <= 1


def test_a_node_that_crashes_sends_nothing_more_and_starts_anew():
    made = scenario([(0, 400_000, 0, 1), (0, 400_000, 0, 2)], [(0, 0)] * 20)
    faults = [{"kind": "crash", "at": "5s", "node": 0}, {"kind": "recover", "at": "6s", "node": 0}]
    plain = made.plain()
    result = run(make_scenario(plain | {"faults": [*plain["faults"], *faults]}))
    assert_one_at_a_time(result, by_bytes)
    assert not [row for row in rows(result, "send") if row["node"] == 0 and 5 * SECOND <= row["t"] < 6 * SECOND]
    assert {row["node"] for row in rows(result, "deliver") if row["seq"] == 20} == {0, 1, 2}
