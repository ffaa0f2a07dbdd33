"""The work in The ONE (Keränen, Ott and Kärkkäinen), from a folder that the user has: `ANTECAST_THE_ONE`.

Contacts and messages are its external events, the router is `EpidemicRouter`, and its `EventLogReport` says who
got what. A message there has one receiver, who keeps it to itself: here a host that nobody meets. A host starts
one transfer per step, so times are later by some steps.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from pathlib import Path

from bench.peers.work import Outcome, Work

VARIABLE = "ANTECAST_THE_ONE"
STEP = 0.1
"""Seconds of simulated time."""


def problem() -> str | None:
    """Why it cannot be run."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return f"set {VARIABLE} to the folder of a compiled checkout"
    if not (Path(named) / "target" / "core" / "DTNSim.class").is_file():
        return f"{named} has no target/core/DTNSim.class; run its compile.sh first"
    return None


def the_one(work: Work) -> Outcome:
    home = Path(os.environ[VARIABLE]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events.txt").write_text("\n".join(_events(work)) + "\n")
        (folder / "settings.txt").write_text(_settings(work, folder))
        jars = [home / "target", *sorted((home / "lib").glob("*.jar"))]
        command = ["java", "-cp", os.pathsep.join(map(str, jars)), "core.DTNSim", "-b", "1", "settings.txt"]
        before = _children()
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        cpu = _children() - before
        (report,) = folder.glob("*EventLogReport*")
        return Outcome(_arrivals(report.read_text()), cpu)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _events(work: Work) -> list[str]:
    """Contacts and messages, in order of time; a contact that ends comes before one that begins."""
    lines = [
        (each.t, 2, f"{each.t} C m{m} {each.node} {work.nodes} 100") for m, each in enumerate(work.broadcasts)
    ]
    for each in work.contacts:
        lines.append((each.start, 1, f"{each.start} CONN {each.a} {each.b} up"))
        lines.append((each.end, 0, f"{each.end} CONN {each.a} {each.b} down"))
    return [line for _, _, line in sorted(lines)]


def _settings(work: Work, folder: Path) -> str:
    values = {
        "Scenario.name": "peer",
        "Scenario.simulateConnections": "false",
        "Scenario.updateInterval": STEP,
        "Scenario.endTime": 60 * work.minutes,
        "Scenario.nrofHostGroups": 1,
        "air.type": "SimpleBroadcastInterface",
        "air.transmitSpeed": "1000M",
        "air.transmitRange": 1,
        "Group.groupID": "n",
        "Group.nrofHosts": work.nodes + 1,
        "Group.movementModel": "StationaryMovement",
        "Group.nodeLocation": "0, 0",
        "Group.router": "EpidemicRouter",
        "Group.bufferSize": "1000M",
        "Group.msgTtl": 100 * work.minutes,
        "Group.nrofInterfaces": 1,
        "Group.interface1": "air",
        "MovementModel.rngSeed": 1,
        "MovementModel.worldSize": "100, 100",
        "MovementModel.warmup": 0,
        "Events.nrof": 1,
        "Events1.class": "ExternalEventsQueue",
        "Events1.filePath": folder / "events.txt",
        "Report.nrofReports": 1,
        "Report.warmup": 0,
        "Report.reportDir": f"{folder}/",
        "Report.report1": "EventLogReport",
        "Optimization.cellSizeMult": 5,
        "Optimization.randomizeUpdateOrder": "false",
    }
    return "".join(f"{name} = {value}\n" for name, value in values.items())


def _arrivals(report: str) -> dict[tuple[int, int], float]:
    """First transfers: `TIME DE FROM TO MESSAGE …`.

    >>> _arrivals("1.5 S n0 n2 m7\\n2.0 DE n0 n2 m7 R\\n3.0 DE n1 n2 m7 R\\n")
    {(7, 2): 2.0}
    """
    found: dict[tuple[int, int], float] = {}
    for line in report.splitlines():
        words = line.split()
        if len(words) > 4 and words[1] == "DE":
            found.setdefault((int(words[4][1:]), int(words[3][1:])), float(words[0]))
    return found
