"""The network model of the paper's section 5, as printed and as fitted, against the paper's own figures.

The larger sizes belong to the study; these are the ones a test can afford.
"""

from statistics import mean

import pytest

from antecast.history import metrics
from antecast.history.audit import audit
from antecast.papers.vcube.experiment import scenario
from antecast.sim import run

PACKETS = {16: 232, 32: 919, 64: 3513, 128: 13759, 256: 49262}
"""Table 1, with aggregation."""


def run_model(nodes, seeds, *, aggregate, name="vcube"):
    """Packets and mean delivery latency (ms) of some runs; each delivers everything once, in causal order."""
    packets, latencies = [], []
    for seed in range(1, seeds + 1):
        events = run(scenario(nodes, "calibrated", seed, aggregate=aggregate, name=name)).events
        assert audit(events).outcome == "causal"
        cost = metrics.overhead(events)
        assert cost.deliveries == nodes * nodes
        latencies.append(metrics.summarise(metrics.delivery_latency(events)["latency"]).mean / 1e6)
        packets.append(cost.frames)
    return packets, mean(latencies)


@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 13, 64, 100])
def test_without_aggregation_exactly_n_times_n_less_1_packets_travel(nodes):
    packets, _ = run_model(nodes, 2, aggregate=False)
    assert packets == [nodes * (nodes - 1)] * 2


@pytest.mark.parametrize(("nodes", "seeds"), [(16, 30), (32, 20), (64, 10), (128, 4), (256, 2)])
def test_the_fitted_model_gives_the_packets_and_latencies_of_the_paper(nodes, seeds):
    packets, latency = run_model(nodes, seeds, aggregate=True)
    assert mean(packets) == pytest.approx(PACKETS[nodes], rel=0.05)
    assert latency == pytest.approx(run_model(nodes, seeds, aggregate=False)[1], rel=0.035)


def test_and_its_distribution_of_dependencies():
    """Figure 6; in the paper one run of 256 nodes, whose shares vary by 2 to 3 points from run to run."""
    dependencies = []
    for seed in range(1, 8):
        seen = [0] * 256
        events = run(scenario(256, "calibrated", seed, aggregate=True, log="order")).events
        kinds = events["kind"].combine_chunks().dictionary_decode().to_pylist()
        for node, kind in zip(events["node"].to_pylist(), kinds, strict=True):
            if kind == "broadcast":
                dependencies.append(seen[node])
            else:
                seen[node] += 1

    def share(low, high):
        return 100 * sum(low <= count <= high for count in dependencies) / len(dependencies)

    assert share(0, 0) == pytest.approx(27, abs=3)
    assert share(1, 4) == pytest.approx(28.5, abs=3)
    assert share(5, 9) == pytest.approx(18.4, abs=3)
    assert share(13, 256) == pytest.approx(23, abs=3)


def test_in_a_single_tree_everyone_but_the_root_sends_one_packet_more():
    packets, _ = run_model(16, 2, aggregate=False, name="vcube-single")
    assert packets == [16 * 15 + 15] * 2
