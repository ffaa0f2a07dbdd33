"""The pedestrians of the barrier paper's second scenario: how fast both engines are, and what order costs.

A district of pedestrians for five hours, contacts at 50 m, everyone broadcasting once a minute from 20 s after
its arrival on, messages that live for 20 minutes: the run of Tables V and VI in "Causal and Δ-causal broadcast in
opportunistic networks" (Guidec, Launay and Mahéo). A *reception* is a message that is new to the node. The engines
take turns, and their logs are compared. With a radio, a node has 75 kb/s, as in the study of that paper. `--small`
makes one hour with a lifetime of 5 minutes.

The second table is the control information a message carries: the length of its encoding, less the payload. Vector
clocks need every message, so they are compared where messages do not expire: among the city's buses (the paper's
first scenario) and in an hour of the pedestrians.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecast.core.settings import read_settings
from antecast.sim import RunResult, run
from antecast.sim.compiled.choice import prepare
from antecast.sim.mobility import Pedestrians, city_bus, pedestrians
from antecast.sim.scenario import make_scenario
from antecast.traces.contact_detection import find_contacts
from bench.table import report

SEED = 7
PAYLOAD = 64
HOUR: dict[str, object] = {"duration": "1h", "walkers": 426.0}


def simulate(
    folder: Path,
    network: str,
    every: str,
    protocol: dict[str, Any],
    *,
    frames: bool,
    engine: str = "auto",
    radio: str | None = None,
) -> RunResult:
    """One run over the contacts of a network, which `lay_out` has put into the folder; with a bandwidth, if its
    radio has one."""
    topology = {
        "kind": "contacts",
        "file": str(folder / f"{network}-contacts.parquet"),
        "presence": str(folder / f"{network}.parquet"),
    }
    return run(
        make_scenario(
            {
                "protocol": protocol,
                "network": {"topology": topology} | ({} if radio is None else {"bandwidth": radio}),
                "workload": [{"kind": "periodic", "every": every, "after_arrival": "20s", "payload": PAYLOAD}],
                "log": {"events": "all" if frames else "order"},
                "engine": engine,
            }
        )
    )


def lay_out(folder: Path, network: str, movement: pa.Table, reach: float) -> None:
    pq.write_table(movement, folder / f"{network}.parquet")
    pq.write_table(find_contacts(movement, reach), folder / f"{network}-contacts.parquet")


def message_frames(result: RunResult, kind: str) -> pa.Table:
    """The messages sent or received, without the frames of the exchange itself."""
    events = result.events.select(["node", "kind", "origin", "seq", "bytes"])
    return events.filter(pc.and_(pc.equal(events["kind"].cast(pa.string()), kind), pc.is_valid(events["origin"])))


def engines(
    folder: Path, network: str, every: str, protocol: dict[str, Any], radio: str | None
) -> list[dict[str, Any]]:
    """Receptions per CPU second of both engines, with the frames logged and without. What is logged does not
    change the run."""
    rows = []
    for frames in (False, True):
        results = {
            engine: simulate(folder, network, every, protocol, frames=frames, engine=engine, radio=radio)
            for engine in ("compiled", "reference")
        }
        if not results["compiled"].events.equals(results["reference"].events):
            raise RuntimeError("the engines' logs differ")
        if frames:
            received = message_frames(results["compiled"], "receive")
            receptions = received.group_by(["node", "origin", "seq"]).aggregate([]).num_rows
        rows += [
            {
                "protocol": protocol["name"],
                "radio": radio or "any speed",
                "log": "all" if frames else "order",
                "engine": engine,
                "events": result.steps,
                "CPU s": result.cpu,
                "against the reference": results["reference"].cpu / result.cpu,
            }
            for engine, result in results.items()
        ]
    return [
        row | {"receptions": receptions, "receptions per CPU second": receptions / row["CPU s"]} for row in rows
    ]


def control(folder: Path, network: str, every: str, lifetime: str | None) -> list[dict[str, Any]]:
    """Control bytes per message by protocol, over one network and exchange."""
    if lifetime is None:
        protocols: dict[str, dict[str, Any]] = {
            "none (epidemic)": {"name": "epidemic"},
            "barrier, pruned": {"name": "barrier"},
            "barrier": {"name": "barrier", "prune": False},
            "vector clock": {"name": "epidemic-vector"},
        }
    else:
        protocols = {
            "Δ-barrier, pruned": {"name": "delta", "lifetime": lifetime},
            "Δ-barrier": {"name": "delta", "lifetime": lifetime, "prune": False},
        }
    rows = []
    for name, protocol in protocols.items():
        sent = message_frames(simulate(folder, network, every, protocol, frames=True), "send")
        sizes = sent.group_by(["origin", "seq"]).aggregate([("bytes", "min")])["bytes_min"]
        rows.append(
            {
                "network": network,
                "lifetime": lifetime or "none",
                "order by": name,
                "messages": len(sizes),
                "control bytes per message": pc.mean(sizes).as_py() - PAYLOAD,
                "at most": pc.max(sizes).as_py() - PAYLOAD,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="an hour with a lifetime of 5 minutes")
    small = parser.parse_args().small
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lay_out(folder, "an hour", pedestrians(SEED, read_settings(HOUR, Pedestrians)), 50.0)
        lay_out(folder, "buses", city_bus(SEED), 200.0)
        if not small:
            lay_out(folder, "pedestrians", pedestrians(SEED), 50.0)
        network, lifetime = ("an hour", "5min") if small else ("pedestrians", "20min")
        prepare("delta")
        rows = []
        for radio in (None, "75kb/s"):
            rows += engines(folder, network, "1min", {"name": "delta", "lifetime": lifetime}, radio)
        for name in ("barrier", "epidemic"):
            rows += engines(folder, "an hour", "3min", {"name": name}, None)
        title = f"Pedestrians by both engines, lifetime {lifetime} (delta), an hour of them without (the others)"
        note = (
            "Goals, for five hours and a lifetime of 20 minutes: the compiled engine 10 times the reference, and"
            " 1,000,000 receptions per CPU second."
        )
        report("opportunistic", title, rows, note=note)
        rows = control(folder, "buses", "20min", None) + control(folder, "an hour", "1min", None)
        rows += control(folder, network, "1min", lifetime)
        note = (
            "Mean and maximum over the messages that were sent, from their encodings. An hour: of the pedestrians."
        )
        report("opportunistic", "What order costs per message", rows, note=note, part="control")


if __name__ == "__main__":
    main()
