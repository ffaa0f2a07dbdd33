"""Preventive causal broadcast in large dynamic overlays: the experiments of the PC-broadcast paper, and beyond.

Three experiments, each a pure function of its arguments:

- `overlay`: processes over Spray whose links get slower, from 10 ms to 5 s. Each exchanges once per minute, and
  broadcasts flow all the time, by PC-broadcast and by R-broadcast side by side over the same links (Fig. 7). The
  paper measured distances in the graph of links; here there are both these and the hops of real messages.
- `large`: one broadcast over an overlay of up to a million processes.
- `costs`: what a message costs in a system of N sources, by `vector`, `fifo` and `pc-broadcast` (Table 1).

The paper's processes had about 17 links, which is 8.4 arcs per process: Spray's own number would be ln n, and its
connections are used both ways.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from antecast.core import Message
from antecast.core.settings import Duration
from antecast.protocols import specification
from antecast.sim.delays import Constant, Uniform
from antecast.sim.scenario import make_scenario
from antecast.sim.topology import Spray

SECOND = 10**9
ARCS = 8.4
SLOWEST = 5.0
"""Seconds of delay at the end."""
STEPS = 10
"""Instants at which the overlay is measured, evenly over the run: delays of 0.5 s, 1 s … 5 s."""


_PAYLOAD = b"x" * 64
_TIMED = 2000
"""Deliveries that are timed together: milliseconds, on a clock of nanoseconds."""


def seconds_between(seconds: int) -> int:
    """From one broadcast to the next, in a run of so many seconds."""
    return max(1, seconds // 60)


def overlay(processes: int, seconds: int, sources: int, seed: int) -> dict[str, Any]:
    """PC- and R-broadcast over Spray while delays grow; what was measured at each step, and of each message."""
    from antecast.sim.overlay.compiled.simulation import simulate

    every = seconds_between(seconds)
    broadcasts = [{"t": f"{t}s", "node": (97 * t + 13 * seed) % processes} for t in range(every, seconds, every)]
    scenario = make_scenario(
        {
            "nodes": processes,
            "duration": f"{seconds}s",
            "drain": "120s",
            "seed": seed,
            "protocol": {"name": "pc-broadcast", "timeout": "1000s"},
            "network": {
                "topology": {"kind": "spray", "arcs": ARCS, "every": "60s"},
                "fifo": True,
                "delay": {"kind": "growing", "low": "10ms", "high": f"{SLOWEST}s", "until": f"{seconds}s"},
            },
            "workload": [{"kind": "at", "broadcasts": broadcasts}],
            "log": {"sample": "0s", "events": "order"},
        }
    )
    run = simulate(scenario, every=seconds * SECOND // STEPS, sources=sources, beside=True)
    pc, pc_missed = run.path_lengths()
    plain, plain_missed = run.path_lengths(plain=True)
    steps = []
    for step, sample in enumerate(run.samples, 1):
        assert sample.paths is not None
        ends = sample.t - seconds * SECOND // STEPS, sample.t
        during = (run.broadcasts >= ends[0]) & (run.broadcasts < ends[1])
        steps.append(
            {
                "delay": SLOWEST * step / STEPS,
                "links": sample.links,
                "unsafe": sample.unsafe_links,
                "buffered": sample.buffered,
                "path, R": sample.paths.all,
                "path, PC": sample.paths.safe,
                "path, R, as published": sample.paths.published,
                "path, PC, as published": sample.paths.published_safe,
                "hops, R": _mean(plain[during]),
                "hops, PC": _mean(pc[during]),
                "cut off": sum(sample.paths.unreached.values()),
            }
        )
    missed = int(pc_missed.sum()), int(plain_missed.sum())
    return {"steps": steps, "missed_pc": missed[0], "missed_r": missed[1], "events": run.events, "cpu": run.cpu}


def large(processes: int, arcs: float, seed: int) -> dict[str, Any]:
    """One broadcast over an overlay at rest: shortest paths, and first arrivals with delays of 1 to 100 ms."""
    from antecast.sim.overlay.compiled.flooding import flood
    from antecast.sim.overlay.compiled.snapshots import spray_snapshot

    snapshot = spray_snapshot(Spray(arcs=arcs, settle=5), processes, seed)
    model = Uniform(low=Duration(SECOND // 1000), high=Duration(SECOND // 10))
    source = (7919 * seed) % processes
    shortest = flood(snapshot, source, model=Constant(value=Duration(1)), seed=seed)
    begun = time.process_time()
    found = flood(snapshot, source, model=model, seed=seed)
    cpu = time.process_time() - begun
    reached = np.delete(found.arrival, found.source)
    return {
        "links": snapshot.links / processes,
        "path": shortest.mean_hops,
        "hops": found.mean_hops,
        "latency": found.mean_latency / SECOND,
        "last": float(reached.max()) / SECOND,
        "unreached": found.unreached,
        "cpu": cpu,
    }


def costs(protocol: str, sources: int, waiting: int) -> dict[str, Any]:
    """A receiver that has heard one message of each of so many sources, and the cost of the next ones.

    `waiting` messages that cannot be delivered yet are there when the time of a delivery is taken; where messages
    are delivered on receipt, there are none to wait.
    """
    spec = specification(protocol)
    settings = spec.fit(spec.configure({}), sources + 2)
    sender, receiver = 0, 1
    node, other = spec.make(receiver, settings), spec.make(sender, settings)
    node.link_up(sender, 0)
    other.link_up(receiver, 0)
    for source in range(2, sources + 2):
        message = _message(spec.make(source, settings).broadcast(_PAYLOAD, 0))
        node.receive(message, sender, 1)
        other.receive(message, receiver, 1)
    frames = [_message(other.broadcast(_PAYLOAD, 2)) for _ in range(waiting + _TIMED)]
    held = frames[1 : 1 + waiting] if protocol == "vector" else []
    for frame in held:
        node.receive(frame, sender, 3)
    begun = time.process_time()
    for frame in (frames[0], *frames[1 + len(held) :]):
        node.receive(frame, sender, 4)
    taken = time.process_time() - begun
    return {
        "control": other.codec.size(frames[-1]) - len(_PAYLOAD),
        "state": sum(node.gauges().get(name, 0) for name in ("clock", "sources", "received")),
        "delivery": taken / len(frames),
    }


def _mean(values: np.ndarray[Any, Any]) -> float:
    """Not a number where nothing was broadcast."""
    return float(values.mean()) if values.size else float("nan")


def _message(effects: list[Any]) -> Message[Any]:
    return next(effect.message for effect in effects if hasattr(effect, "message"))
