"""One run in PeerSim, and the same work in ours."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from antecast.sim.overlay.compiled import simulate
from antecast.sim.scenario import make_scenario

VARIABLE = "ANTECAST_PEERSIM"
SETTLE, SECONDS, END = 600, 600, 60
EVERY = 10
"""Seconds between two broadcasts."""


@dataclass(frozen=True)
class Flooded:
    """What became of the broadcasts, and the cost."""

    processes: int
    broadcasts: int
    deliveries: int
    arcs: float
    neighbours: float
    """Means per process, at the end."""
    latency: float
    """From broadcast to delivery at another process, in seconds; the mean."""
    frames: int
    cpu: float

    @property
    def missed(self) -> int:
        return self.processes * self.broadcasts - self.deliveries


def problem() -> str | None:
    """Why PeerSim cannot be run."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return f"set {VARIABLE} to a class path with PeerSim and peersim-pcbroadcast, compiled"
    for each in named.split(os.pathsep):
        if not Path(each).exists():
            return f"{VARIABLE}: {each}: no such file or folder"
    return None


def peersim(processes: int) -> Flooded:
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as name:
        path = os.pathsep.join([os.environ[VARIABLE], name])
        sources = sorted(map(str, here.glob("*.java")))
        subprocess.run(["javac", "-cp", path, "-d", name, *sources], check=True)
        settings = Path(name) / "settings.txt"
        settings.write_text(_settings(processes))
        command = ["java", "-cp", path, "peersim.Simulator", str(settings)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    others = found["deliveries"] - found["broadcasts"]
    return Flooded(
        processes=processes,
        broadcasts=found["broadcasts"],
        deliveries=found["deliveries"],
        arcs=found["arcs"] / processes,
        neighbours=found["neighbours"] / processes,
        latency=found["waited"] / 1e3 / others,
        frames=found["frames"],
        cpu=found["cpu"] / 1e9,
    )


def _settings(processes: int) -> str:
    """Times in milliseconds. Processes join in the first 30 s, and the overlay settles for ten minutes."""
    first = SETTLE * 1000 + 5000
    end = (SETTLE + SECONDS + END) * 1000
    return f"""
random.seed 1
network.size {processes}
simulation.endtime {end}
simulation.logtime {2 * end}
protocol.air UniformRandomTransport
protocol.air.mindelay 1000
protocol.air.maxdelay 1000
protocol.spray descent.bidirectionnal.BiSpray
protocol.spray.pid spray
protocol.spray.listener cb
protocol.spray.step 60000
protocol.cb PeerBroadcast
protocol.cb.pid cb
protocol.cb.linkable spray
protocol.cb.transport air
protocol.cb.step 1
protocol.cb.from {end}
init.exchanges CDScheduler
init.exchanges.protocol spray
init.exchanges.randstart
control.join descent.controllers.CDynamicNetwork
control.join.protocols spray
control.join.step 1000
control.join.addingPerStep {-(-processes // 25)}
control.join.startAdd 0
control.join.endAdd 30000
control.speak PeerSpeaker
control.speak.broadcast cb
control.speak.overlay spray
control.speak.step {EVERY * 1000}
control.speak.from {first}
control.speak.until {(SETTLE + SECONDS) * 1000}
control.speak.FINAL
"""


def ours(processes: int, arcs: float) -> Flooded:
    times = range(5, SECONDS, EVERY)
    scenario = make_scenario(
        {
            "nodes": processes,
            "duration": f"{SECONDS}s",
            "drain": f"{END}s",
            "protocol": {"name": "pc-broadcast", "timeout": "1000s"},
            "network": {"topology": {"kind": "spray", "arcs": arcs}, "fifo": True, "delay": "1s"},
            "workload": [
                {
                    "kind": "at",
                    "broadcasts": [{"t": f"{t}s", "node": 7 * k % processes} for k, t in enumerate(times)],
                }
            ],
            "log": {"sample": 0, "events": "order"},
        }
    )
    found = simulate(scenario, every=SECONDS * 10**9 // 2, arrivals=True)
    arrived = found.arrival >= 0
    waited = np.where(arrived, found.arrival - found.broadcasts[:, None], 0)
    return Flooded(
        processes=processes,
        broadcasts=len(times),
        deliveries=int(arrived.sum()),
        arcs=float(found.sizes.mean()),
        neighbours=found.samples[-1].links,
        latency=float(waited.sum()) / 1e9 / (int(arrived.sum()) - len(times)),
        frames=found.counts["frames"],
        cpu=found.cpu,
    )
