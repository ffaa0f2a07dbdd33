"""The work by our simulator: the protocol `epidemic`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.sim import run
from antecast.sim.scenario import make_scenario
from antecast.traces.schema import CONTACTS
from bench.peers.work import Outcome, Work

SECOND = 10**9
DELAY = 0.002
"""Seconds that a frame takes."""


def antecast(work: Work, engine: Literal["reference", "compiled"]) -> Outcome:
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "contacts.parquet"
        met = [
            {"a": str(each.a), "b": str(each.b), "start": each.start * SECOND, "end": each.end * SECOND}
            for each in work.contacts
        ]
        pq.write_table(pa.Table.from_pylist(met, schema=CONTACTS), file)
        # The nodes of a run are those that have contacts, numbered in order.
        numbers = sorted({node for each in work.contacts for node in (each.a, each.b)})
        places = {node: place for place, node in enumerate(numbers)}
        sent = [{"t": f"{each.t}s", "node": places[each.node]} for each in work.broadcasts if each.node in places]
        scenario = make_scenario(
            {
                "engine": engine,
                "protocol": "epidemic",
                "duration": f"{work.minutes}min",
                "network": {
                    "topology": {"kind": "contacts", "file": str(file)},
                    "delay": f"{round(1000 * DELAY)}ms",
                },
                "workload": [{"kind": "at", "broadcasts": sent}],
                "log": {"events": "order", "sample": 0},
            }
        )
        rows = run(scenario).events.select(["node", "t", "kind", "origin"]).to_pylist()
    messages = {each.node: m for m, each in enumerate(work.broadcasts)}
    arrivals = {
        (messages[numbers[row["origin"]]], numbers[row["node"]]): row["t"] / SECOND
        for row in rows
        if row["kind"] == "deliver" and row["node"] != row["origin"]
    }
    return Outcome(arrivals, time.process_time() - begun)
