"""The numbers of a run are those of its log: against the oracle, and by hand."""

import pyarrow as pa
import pytest

from antecast.comparison import measures
from antecast.comparison.candidates import Candidate
from antecast.comparison.measures import CURVE_STEPS, measure
from antecast.comparison.standings import Order, curves, describe_settings, plain, standing
from antecast.history.oracle import judge
from antecast.history.schema import SAMPLES
from antecast.protocols import specification
from antecast.sim.run import run
from antecast.sim.scenario import make_scenario

UNITS = specification("vector").gauges


@pytest.fixture(scope="module")
def unordered():
    return run(
        make_scenario(
            {
                "nodes": 5,
                "duration": "1s",
                "protocol": {"name": "r-broadcast"},
                "network": {"delay": {"kind": "exponential", "mean": "80ms"}},
                "workload": [{"kind": "poisson", "rate": 8.0}],
            }
        )
    )


def measured(result, samples=None):
    return measure(
        result.events, result.samples if samples is None else samples, applications=5, until=10**9, units=UNITS
    )


def test_pairs_are_those_of_the_oracle(unordered):
    expected = judge(unordered.events, clock="global").pairs
    assert measured(unordered)["pairs"] == len(expected) > 0


def test_pairs_that_are_too_many_are_not_counted(unordered, monkeypatch):
    monkeypatch.setattr(measures, "_MOST_COMPARISONS", 10)
    assert measured(unordered)["pairs"] is None


def test_the_curve_says_after_how_long_each_part_of_the_deliveries_was_made(unordered):
    numbers = measured(unordered)
    assert numbers["missing"] == 0 and numbers["possible"] == 4 * numbers["offered"]
    curve = numbers["curve"]
    assert len(curve) == CURVE_STEPS and curve == sorted(curve)


def test_deliveries_that_never_came_end_the_curve_early(unordered):
    events = unordered.events
    gone = pa.compute.and_(pa.compute.equal(events["kind"], "deliver"), pa.compute.equal(events["node"], 4))
    numbers = measure(
        events.filter(pa.compute.invert(gone)), unordered.samples, applications=5, until=10**9, units=UNITS
    )
    of_others = len({(row["origin"], row["seq"]) for row in events.filter(gone).to_pylist() if row["origin"] != 4})
    assert numbers["missing"] == of_others
    assert len(numbers["curve"]) == int((1 - of_others / numbers["possible"]) * CURVE_STEPS)


def test_stations_are_not_expected_to_deliver(unordered):
    fewer = measure(unordered.events, unordered.samples, applications=4, until=10**9, units=UNITS)
    assert fewer["possible"] == 3 * fewer["offered"]


def samples(*rows):
    columns = zip(*(("run", *row) for row in rows), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SAMPLES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SAMPLES)


def test_memory_is_a_sum_of_gauges_at_a_node_and_its_mean_ends_with_the_broadcasts(unordered):
    table = samples(
        *((0, 1, "pending", 2), (0, 1, "stored", 3), (0, 1, "clock", 7), (0, 1, "links", 99)),
        *((1, 1, "pending", 0), (1, 1, "stored", 1), (1, 1, "clock", 5), (1, 1, "links", 99)),
        *((1, 10**9 + 1, "stored", 8), (1, 10**9 + 1, "clock", 0)),
    )
    memory = measured(unordered, table)["memory"]
    assert memory["messages"] == {"mean": 3.0, "peak": 8}
    assert memory["entries"] == {"mean": 6.0, "peak": 7}


def test_without_samples_memory_is_not_known(unordered):
    assert measured(unordered, SAMPLES.empty_table())["memory"] == {"messages": None, "entries": None}


ROW = dict.fromkeys(("late", "duplicates", "before_broadcast", "unknown", "missing"), 0)
ROW |= {
    "broken": "",
    "error": None,
    "seed": 1,
    "early": 2,
    "deliveries": 100,
    "offered": 10,
    "possible": 90,
    "pairs": 3,
}
ROW |= {"frames": 50, "control_bytes": 400, "latency_mean_ns": 1e6, "latency_p50_ns": 1e6, "latency_p99_ns": 2e6}
ROW |= {"memory": {"messages": {"mean": 1.0, "peak": 4}, "entries": None}, "curve": [1, 2, 3]}


def test_runs_are_summed_up_over_seeds():
    fifo = Candidate(specification=specification("fifo"), settings={"repair": "50ms"}, adjusted=("repair",))
    runs = [ROW, ROW | {"seed": 2, "early": 4, "control_bytes": 600, "missing": 9, "curve": [3, 4]}]
    found = standing(fifo, [*runs, {"error": "took longer than 1 s", "seed": 3}])
    assert (found.runs, found.failed, found.error) == (2, 1, "took longer than 1 s")
    assert (found.early, found.pairs, found.missing, found.order) == (6, 6, 9, Order.VIOLATED)
    assert found.violation_share.mean == pytest.approx(0.03)
    assert found.violation_share.high > 0.04
    assert (found.control_bytes.mean, found.control_bytes_frame.mean, found.frames.mean) == (5.0, 10.0, 0.5)
    assert found.delivered.mean == pytest.approx(0.95)
    assert (found.messages_peak.mean, found.entries_peak) == (4.0, None)
    assert found.settings == describe_settings(fifo) == "repair=50ms (so that it bears this network)"
    assert (found.delivered.low, found.delivered.high) == (pytest.approx(0.315, abs=1e-3), 1.0)
    row = plain(found)
    assert row["latency_p99"] == 2e6 and row["entries_mean_low"] is None and row["violations"] == 6


def test_curves_of_a_protocol_go_as_far_as_those_of_all_its_seeds():
    table = curves({"fifo": [ROW, ROW | {"seed": 2, "curve": [3, 4]}, {"error": "gone"}]})
    rows = [(row["seed"], row["share"], row["latency_ns"]) for row in table.to_pylist()]
    step = 1 / CURVE_STEPS
    assert rows[:5] == [(1, step, 1), (1, 2 * step, 2), (1, 3 * step, 3), (2, step, 3), (2, 2 * step, 4)]
    assert rows[5:] == [(None, step, 2), (None, 2 * step, 3)]
