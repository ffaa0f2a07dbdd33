"""The experiments of the VCube study at sizes that take seconds, and what is read from their logs."""

from collections import Counter, defaultdict

import pyarrow as pa
import pytest

from antecast.papers.findings import Mark
from antecast.papers.layout import lay_out
from antecast.papers.paper import load_paper
from antecast.papers.vcube import data, judgement, measures
from antecast.papers.vcube import study as reproduction
from antecast.papers.vcube.experiment import MODELS, compare, load, scenario, variant
from antecast.protocols.causal import CausalDelivery
from antecast.sim import run

NODES = 32
MS = 10**6


@pytest.fixture(scope="module", params=[True, False], ids=["with aggregation", "without"])
def events(request):
    return run(scenario(NODES, "calibrated", 3, aggregate=request.param)).events


def test_a_summary_agrees_with_a_plain_walk_through_the_log(events):
    """Row by row, with dictionaries, as slowly as it can be done."""
    sent_at, received_at, held = {}, {}, defaultdict(float)
    packets, waiting, most_waiting = [], Counter(), Counter()
    delivered, dependencies = Counter(), {}
    rows = events.to_pylist()
    for index, row in enumerate(rows):
        node, message, t = row["node"], row["origin"], row["t"]
        if row["kind"] == "broadcast":
            sent_at[message] = t
            dependencies[message] = delivered[node]
        elif row["kind"] == "send":
            if row["bytes"]:
                packets.append((node, []))
            packets[-1][1].append(message)
        elif row["kind"] == "receive":
            received_at[node, message] = t
            waiting[node] += 1
        elif node != message:
            held[node, message] = t - received_at[node, message]
            delivered[node] += 1
            waiting[node] -= 1
        following = next((each for each in rows[index + 1 :] if each["node"] == node), None)
        if following is None or following["t"] != t:
            most_waiting[node] = max(most_waiting[node], waiting[node])
    found = measures.summary(measures.Log(events, NODES), 50)
    assert found["packets"] == len(packets)
    together = Counter(len(inside) for _, inside in packets)
    assert {n: count for n, count in enumerate(found["messages per packet"]) if count} == dict(together)
    assert found["several"] == sum(count for n, count in together.items() if n > 1)
    assert found["aggregated messages"] == sum(n * count for n, count in together.items() if n > 1)
    sizes = Counter(20 + sum(50 + 4 * (dependencies[m] + 1) for m in inside) for _, inside in packets)
    assert {n: count for n, count in enumerate(found["size histogram"]) if count} == dict(sizes)
    assert sum(found["sizes"]) == len(packets)
    assert found["sizes"][0] == sum(count for size, count in sizes.items() if size <= 100)
    assert found["dependencies"] == [
        Counter(dependencies.values())[n] for n in range(max(dependencies.values()) + 1)
    ]
    latencies = [(t - sent_at[message]) / MS for (_, message), t in received_at.items()]
    assert found["reception"] == pytest.approx(sum(latencies) / len(latencies))
    assert found["reception, longest"] == pytest.approx(max(latencies))
    assert found["held"] == pytest.approx(sum(held.values()) / len(held) / MS)
    assert found["delivery"] == pytest.approx(found["reception"] + found["held"])
    assert found["delayed messages"] == sum(time > 0 for time in held.values())
    assert {n: count for n, count in enumerate(found["buffered"]) if count} == dict(
        Counter(most_waiting[node] for node in range(NODES))
    )
    largest = Counter()
    for node, inside in packets:
        largest[node] = max(largest[node], len(inside))
    assert {n: count for n, count in enumerate(found["most aggregated"]) if count} == dict(
        Counter(largest[node] for node in range(NODES))
    )
    assert found["splits"] == 0 and found["transit"] > 100


def test_split_packets_are_counted():
    chosen = scenario(64, "literal", 1, aggregate=True, payload=700)
    log = measures.Log(run(chosen).events, 64)
    rows = list(zip(log.sent.node, log.sent.peer, log.sent.t, strict=True))
    begun = [rows[index] for index in log.sent.first]
    assert log.splits == len(begun) - len(set(begun)) > 0


@pytest.mark.parametrize("model", MODELS)
def test_packets_of_two_are_set_beside_the_same_messages_alone(model):
    found = compare(NODES, model, 1)
    assert found["without"]["packets"] == NODES * (NODES - 1) > found["with"]["packets"]
    assert found["pairs"]["packets"] == found["with"]["messages per packet"][2] > 0
    assert found["pairs"]["held"] < found["pairs"]["held, plain"]
    assert found["pairs"]["reception"] > found["pairs"]["reception, plain"]


def test_a_run_that_breaks_its_promise_gives_no_figures(monkeypatch):
    monkeypatch.setattr(CausalDelivery, "release", lambda self, message: [message])  # whatever it waits for
    with pytest.raises(RuntimeError, match=r"vcube calibrated, 32 nodes, seed 1: not everything .* early=[1-9]"):
        variant(NODES, "calibrated", 1, "vcube", 50)


def test_a_single_root_is_a_bottleneck():
    idle, busy = (load(16, rate, "vcube-single", 1)["latency"] for rate in (0.02, 0.6))
    assert busy > 3 * idle
    idle, busy = (load(16, rate, "vcube", 1)["latency"] for rate in (0.02, 0.6))
    assert busy < 1.2 * idle


def test_small_messages_leave_room_for_more():
    small, large = (variant(64, "literal", 1, "vcube", payload)["with"] for payload in (5, 700))
    assert len(small["most aggregated"]) > len(large["most aggregated"])


class Here:
    """A job that makes its points in this process."""

    quick = True

    def runs(self, *, quick, full):
        return 2

    def map(self, name, function, points, *, engines):
        return pa.Table.from_pylist([point | function(**point) for point in points])


@pytest.fixture(scope="module")
def results():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduction, "_QUICK", (8, 16, 32, 64))
        for module in (judgement, data):
            patch.setattr(module, "ONE", 64)
        for module in (reproduction, judgement, data):
            patch.setattr(module, "RATES", (0.02, 0.6))
        return reproduction.study(Here())


def test_every_figure_of_the_paper_is_answered(results):
    paper = load_paper("vcube")
    answered = {
        (each.item, each.quantity.removesuffix(")").rpartition(" (")[0] or each.quantity)
        for each in results.findings
    }
    answered |= {(each.item, each.quantity) for each in results.findings}
    large = {("Fig. 7", "delivery at 1024 nodes"), ("Fig. 10", "smaller messages")}
    for item, what in paper.items.items():
        for quantity in what.quantities:
            assert (item, quantity) in answered | large
    assert [grid.item for grid in lay_out(paper, results.findings)] == list(paper.items)


def test_what_was_not_run_is_not_compared(results):
    for each in results.findings:
        if each.item in ("Fig. 9", "Fig. 10") or (each.item == "Table 1" and each.setting == "1024"):
            assert each.mark is Mark.PAPER_ONLY and each.reason == "not run at the quick size"


def test_packets_without_aggregation_are_exact_and_with_it_near(results):
    found = {(each.quantity, each.setting): each for each in results.findings if each.item == "Table 1"}
    for size in ("16", "32", "64"):
        assert found["packets without aggregation (calibrated)", size].mark is Mark.AGREES
        assert found["packets (calibrated)", size].mark is Mark.AGREES
        assert found["packets (calibrated)", size].ours < found["packets (literal)", size].ours


def test_figures_have_points(results):
    assert {"fig-1", "fig-6", "fig-7", "fig-8", "fig-11"} <= results.figures.keys()
    paper = load_paper("vcube")
    for item, what in paper.items.items():
        table = results.figures.get(item.lower().replace(". ", "-"))
        if what.chart is not None and table is not None:
            assert {what.chart.x, what.chart.y} <= set(table.column_names)
            assert {what.chart.series, what.chart.facet} - {""} <= set(table.column_names)
