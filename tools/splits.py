"""How often a Spray overlay ends in parts, with and without its memory of lost processes (docs/overlays.md).

Run with `python tools/splits.py [runs]`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from antecast.history.log import DiscardSink, EventWriter, SampleWriter
from antecast.sim.engine import Engine
from antecast.sim.overlay import memory
from antecast.sim.overlay.spray import SprayOverlay
from antecast.sim.scenario import make_scenario

EVERY = 5
DURATION, FAULTS_END = 240, 180
"""Seconds: the last minute is without faults."""

SETTINGS: list[dict[str, Any]] = [
    {"nodes": 12, "length": 3, "crashes": 3},
    {"nodes": 12, "length": 20, "crashes": 3},
    {"nodes": 30, "length": 3, "crashes": 4},
    {"nodes": 30, "length": 6, "crashes": 4},
    {"nodes": 30, "length": 40, "crashes": 4},
    {"nodes": 30, "length": 30, "partitions": 3, "crashes": 12},
    {"nodes": 30, "length": 30, "partitions": 3, "crashes": 12, "leaves": 8},
    {"nodes": 12, "length": 30, "partitions": 3, "crashes": 3, "leaves": 6},
]


def faults(seed: int, nodes: int, length: int, partitions: int, crashes: int, leaves: int) -> list[dict[str, Any]]:
    """Random crashes, departures and partitions; all who have not left are up and whole again in the end."""
    draw = random.Random(seed)
    found: list[dict[str, Any]] = []
    for _ in range(crashes):
        node, at = draw.randrange(nodes), draw.uniform(5, FAULTS_END)
        found.append({"kind": "crash", "at": f"{at:.3f}s", "node": node})
        found.append({"kind": "recover", "at": f"{draw.uniform(at, FAULTS_END):.3f}s", "node": node})
    for node in draw.sample(range(nodes), leaves):
        found.append({"kind": "leave", "at": f"{draw.uniform(5, FAULTS_END):.3f}s", "node": node})
    for index in range(partitions):
        at, share = 20 + index * (length + 20), draw.uniform(0.05, 0.5)
        group = [node for node in range(nodes) if draw.random() < share]
        found.append({"kind": "partition", "at": f"{at}s", "groups": [group]})
        found.append({"kind": "heal", "at": f"{at + length}s"})
    return found


def run(
    seed: int, nodes: int, length: int, *, partitions: int = 1, crashes: int = 0, leaves: int = 0
) -> tuple[int, float, float]:
    """Parts at the end, and arcs per process at the start and at the end."""
    scenario = make_scenario(
        {
            "nodes": nodes,
            "seed": seed,
            "duration": f"{DURATION}s",
            "protocol": {"name": "pc-broadcast"},
            "network": {"topology": {"kind": "spray", "every": f"{EVERY}s"}, "delay": "100ms", "fifo": True},
            "faults": faults(seed, nodes, length, partitions, crashes, leaves),
            "log": {"sample": 0, "events": "order"},
        }
    )
    sink = DiscardSink()
    engine = Engine(scenario, EventWriter("run", sink), SampleWriter("run", sink))
    overlay = engine._overlay
    assert isinstance(overlay, SprayOverlay)
    before = sum(map(len, overlay.views.values())) / nodes
    engine.run()
    left = {node for node, host in engine.hosts.items() if host.up}
    after = sum(len(overlay.views[node]) for node in left) / len(left)
    parts = 0
    while left:
        parts += 1
        frontier = {left.pop()}
        while frontier:
            frontier = {peer for node in frontier for peer in engine.hosts[node].links} & left
            left -= frontier
    return parts, before, after


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    kept = memory.KEPT
    for setting in SETTINGS:
        cells = []
        for memory.KEPT in (0, kept):
            found = [run(seed, **setting) for seed in range(runs)]
            split = sum(parts > 1 for parts, _, _ in found)
            start, end = (sum(each[place] for each in found) / runs for place in (1, 2))
            cells.append(f"{split} of {runs} split, arcs {start:.2f} → {end:.2f}")
        print(", ".join(f"{name} {value}" for name, value in setting.items()), "|", " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
