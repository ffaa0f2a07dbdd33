"""Cells as odd as they come, through the whole simulator: stations anywhere, hosts that follow a trace into cells,
out of reach and back, that crash, join and leave in the middle of it, over a radio that loses up to half. Judged
by the happened-before oracle, by what must arrive, and by what must be gone at the end."""

from collections import defaultdict

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.oracle import judge
from antecast.sim import run
from antecast.sim.scenario import make_scenario

SECOND, LOAD, START = 10**9, 12, 3
"""The load lasts from START to LOAD seconds; so do movement and faults."""

few = st.integers(0, 3)
coordinate = st.sampled_from([0.0, 30.0, 77.5, 150.0, 260.0, 400.0])
moment = st.floats(0.1, LOAD).map(lambda t: round(t, 3))


@st.composite
def networks(draw, **protocol):
    """The values of a scenario, and the walks of its hosts."""
    places = draw(st.lists(st.tuples(coordinate, coordinate), min_size=1, max_size=4))
    hosts, joins = draw(st.integers(1, 6)), draw(st.sampled_from([0, 0, 1, 2]))
    reach = draw(st.sampled_from([60.0, 120.0, 300.0]))
    cells = {
        "kind": "cells",
        "places": [list(place) for place in places],
        "range": reach,
        "loss": draw(st.sampled_from([0, 0.1, 0.3, 0.5])),
        "capture": draw(st.sampled_from([0, 1.6])),
        "carrier_sense": draw(st.booleans()),
        "queue": draw(st.sampled_from([5, 2000])),
    }
    if draw(st.booleans()):
        cells["wires"] = [[draw(st.integers(0, each - 1)), each] for each in range(1, len(places))]
    if draw(st.booleans()):
        cells["fading"] = {"every": "2s", "lasts": "500ms"}
    faults = []
    for _ in range(draw(few)):
        node, at, lasts = draw(st.integers(0, hosts - 1)), draw(moment), draw(st.floats(0.001, 4))
        faults += [{"kind": "crash", "at": f"{at}s", "node": node},
                   {"kind": "recover", "at": f"{at + lasts:.3f}s", "node": node}]  # fmt: skip
    faults += [{"kind": "join", "at": f"{draw(moment)}s", "node": hosts + index} for index in range(joins)]
    faults += [{"kind": "leave", "at": f"{draw(moment)}s", "node": 0}] * draw(st.sampled_from([0, 0, 1]))
    return {
        "seed": draw(st.integers(0, 2**16)),
        "nodes": hosts,
        "duration": f"{LOAD}s",
        "drain": "150s",
        "protocol": {"name": "cellular", "window": draw(st.sampled_from([3, 150]))} | protocol,
        "network": {"topology": cells, "delay": draw(st.sampled_from(["1ms", "10ms", "300ms"]))},
        "workload": [{"kind": "poisson", "rate": draw(st.sampled_from([0.3, 1.0])), "start": f"{START}s"}],
        "faults": faults,
        "log": {"sample": "1s"},
    }, [draw(walks(places, reach)) for _ in range(hosts + joins)]


@st.composite
def walks(draw, places, reach):
    """Pieces (t0, t1, x0, y0, x1, y1) that begin and end in a cell; between them anything, gaps too."""

    def near():
        x, y = draw(st.sampled_from(places))
        return x + reach * draw(st.sampled_from([-0.5, 0.1, 0.6])), y + reach * draw(
            st.sampled_from([-0.4, 0.0, 0.5])
        )

    spot, t = near(), START * SECOND
    pieces = [(0, t, *spot, *spot)]
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.integers(0, 5)) == 0:  # lost from sight, and found somewhere else
            t += draw(st.integers(1, 2 * SECOND))
            spot = near()
        goal = near() if draw(st.booleans()) else (draw(coordinate), draw(coordinate))
        lasts = draw(st.sampled_from([1, SECOND // 1000, SECOND // 5, SECOND, 2 * SECOND]))
        pieces.append((t, t + lasts, *spot, *goal))
        t, spot = t + lasts, goal
    goal = near()
    pieces += [(t, t + SECOND, *spot, *goal), (t + SECOND, 10_000 * SECOND, *goal, *goal)]
    return pieces


def play(values, paths, folder):
    rows = [(f"h{node:02}", *piece) for node, path in enumerate(paths) for piece in path]
    names = ("node", "t0", "t1", "x0", "y0", "x1", "y1")
    file = folder / "walks.parquet"
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), file)
    values["network"]["topology"]["mobility"] = {"kind": "trace", "file": str(file)}
    return run(make_scenario(values))


class Story:
    """What an event log says of hosts and messages."""

    def __init__(self, events):
        self.broadcast, self.delivered, self.discarded = {}, defaultdict(list), set()
        self.cell, self.down, self.gone = {}, set(), set()
        for row in events.to_pylist():
            node, message = row["node"], (row["origin"], row["seq"])
            match row["kind"]:
                case "broadcast":
                    self.broadcast[message] = row["t"]
                case "deliver":
                    self.delivered[node].append(message)
                case "discard":
                    self.discarded.add(message)
                case "up":
                    self.cell[node] = row["peer"]
                case "down":
                    self.cell.pop(node, None)
                case "crash":
                    self.down.add(node)
                    self.cell.pop(node, None)
                case "recover":
                    self.down.discard(node)
                case "leave":
                    self.gone.add(node)

    def lacking(self, hosts):
        """(host, message) that some host delivered, or one that is still there broadcast, and this host lacks
        although it has delivered an earlier one of that origin: nobody is promised what was there before him."""
        must = {m for m in self.broadcast if m[0] in hosts} | {m for host in hosts for m in self.delivered[host]}
        must -= self.discarded
        for host in hosts:
            own = set(self.delivered[host])
            first = {origin: min(seq for o, seq in own if o == origin) for origin in {o for o, _ in own}}
            yield from ((host, m) for m in sorted(must - own) if m[1] > first.get(m[0], 1 << 60))


def check_order(result):
    verdict = judge(result.events, clock="global")
    assert not verdict.early
    assert not verdict.duplicates
    assert not verdict.unknown
    assert not verdict.before_broadcast


def kept(result):
    """Buffers that are not empty at the end; who has left has none."""
    rows = result.samples.to_pylist()
    last = [row for row in rows if row["t"] == rows[-1]["t"] and row["gauge"].endswith("_buffer")]
    return {(row["node"], row["gauge"]): row["value"] for row in last if row["value"]}


@given(networks(evict=0))
def test_whatever_hosts_do_everything_arrives_once_in_order_and_is_then_forgotten(tmp_path_factory, network):
    values, paths = network
    result = play(values, paths, tmp_path_factory.mktemp("walks"))
    if not len(result.events):
        return
    check_order(result)
    story = Story(result.events)
    hosts = {node for node in range(len(paths)) if node in story.cell} - story.down - story.gone
    leaving = {fault["node"] for fault in values["faults"] if fault["kind"] == "leave"}
    assert list(story.lacking(hosts - leaving)) == []
    if not story.down:
        assert kept(result) == {}


@given(networks(evict="3s"))
def test_hosts_that_are_given_up_break_no_order_and_leave_nothing_behind(tmp_path_factory, network):
    values, paths = network
    result = play(values, paths, tmp_path_factory.mktemp("walks"))
    if len(result.events):
        check_order(result)
        assert {key: value for key, value in kept(result).items() if key[1].startswith("station")} == {}
