"""More than the air carries, for a while: cells bear it, and recover by themselves when it ends."""

from collections import Counter

import pyarrow.compute as pc
import pytest

from antecast import audit
from antecast.sim import run
from antecast.sim.scenario import make_scenario

HOSTS, SECOND = 70, 10**9


def overload(rate, lasts, drain, **protocol):
    return run(
        make_scenario(
            {
                "nodes": HOSTS,
                "duration": f"{5 + lasts}s",
                "drain": f"{drain}s",
                "protocol": {"name": "cellular"} | protocol,
                "network": {"topology": {"kind": "cells"}},
                "workload": [{"kind": "poisson", "rate": rate / HOSTS, "payload": 100, "start": "5s"}],
                "log": {"events": "order", "sample": "1s"},
            }
        )
    )


def kept(result):
    """Messages that all stations keep, by the second."""
    counted = Counter()
    for row in result.samples.to_pylist():
        if row["gauge"] == "station_sent_buffer":
            counted[row["t"] // SECOND] += row["value"]
    return counted


def test_cells_recover_from_an_overload_within_seconds():
    result = overload(150, 6, 14)
    backlog = kept(result)
    assert max(backlog.values()) > 1000
    assert backlog[5 + 6 + 12] == 0
    deliveries = pc.sum(pc.equal(result.events["kind"], "deliver")).as_py()
    assert deliveries == HOSTS * pc.sum(pc.equal(result.events["kind"], "broadcast")).as_py()
    assert audit(result).outcome == "causal"


def test_seventy_broadcasts_a_second_are_borne():
    """The paper's retransmission timers bear 50 in this radio."""
    backlog = kept(overload(70, 12, 6))
    assert max(backlog.values()) < 7 * 300
    assert backlog[5 + 12 + 5] == 0


@pytest.mark.parametrize("measured", [True, False])
def test_order_is_kept_whatever_the_timers(measured):
    assert audit(overload(40, 5, 5, measured=measured)).outcome == "causal"
