"""Frames that links took and did not deliver are counted: whatever was sent and not received, and nothing else."""

import pyarrow.compute as pc
import pytest

from antecast.sim.run import run
from antecast.sim.scenario import make_scenario

WORK = [{"kind": "poisson", "rate": 5.0}]
SLOW = {"delay": {"kind": "uniform", "low": "50ms", "high": "400ms"}}
CUTS = [{"kind": "cut", "at": f"{t}ms", "a": 0, "b": 1 + t % 3} for t in range(200, 1900, 100)] + [
    {"kind": "link", "at": f"{t + 50}ms", "a": 0, "b": 1 + t % 3} for t in range(200, 1900, 100)
]


def rows(result, kind):
    events = result.events
    return events.filter(pc.equal(events["kind"].cast("string"), kind)).num_rows


@pytest.mark.parametrize(
    ("network", "faults"),
    [
        ({"loss": 0.1}, []),
        ({"loss": 1.0}, []),
        ({"loss": 0.0, "links": [{"a": 0, "b": 1, "loss": 0.5}]}, []),
        ({"loss": 0.2, "processing": "1ms", "transmission": "1ms"}, []),
        ({"loss": 0.3, "transmission": "1ms"}, CUTS[:1]),
        (SLOW, CUTS),
        (SLOW | {"bandwidth": "100kb/s"}, [{"kind": "crash", "at": "1s", "node": 2}]),
        (SLOW | {"notice": {"kind": "uniform", "low": "0s", "high": "100ms"}}, CUTS),
    ],
)
def test_what_was_sent_and_not_received_is_lost(network, faults):
    values = {"nodes": 4, "duration": "2s", "protocol": "r-broadcast", "network": network}
    result = run(make_scenario(values | {"workload": WORK, "faults": faults}))
    missing = rows(result, "send") - rows(result, "receive")
    assert missing > 0
    # A frame that waited for its turn when its link ended was never sent, and is lost all the same.
    waited = bool({"bandwidth", "transmission"} & network.keys()) and bool(faults)
    assert result.lost >= missing if waited else result.lost == missing
    summary = result.summary()
    assert summary["lost_frames"] == result.lost and summary["dropped_frames"] == 0


def test_nothing_is_lost_on_a_good_network():
    result = run(make_scenario({"nodes": 4, "duration": "2s", "workload": WORK}))
    assert result.lost == 0 and rows(result, "send") == rows(result, "receive") > 0
