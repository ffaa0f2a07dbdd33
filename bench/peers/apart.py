"""Peers that are Python packages with many needs of their own, such as dtnsim and ns3.

They run in an environment apart, whose Python `ANTECAST_PEERS` names (default: this one).

The work goes to `python -m bench.peers.NAME` as JSON on standard input, and the outcome comes back as JSON on
standard output. So an adapter needs nothing but its peer and the standard library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench.peers.work import Broadcast, Contact, Outcome, Work

VARIABLE = "ANTECAST_PEERS"


def _python() -> str:
    return os.environ.get(VARIABLE, sys.executable)


def problem(package: str) -> str | None:
    """Why a peer cannot be run."""
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    try:
        if subprocess.run([_python(), "-c", look]).returncode == 0:
            return None
    except OSError as error:
        return f"{VARIABLE}: {error.strerror}: {error.filename}"
    return f"pip install {package}, here or in an environment whose Python {VARIABLE} names"


def run(module: str, work: Work) -> Outcome:
    """The outcome of the work by the adapter `bench.peers.MODULE`."""
    command = [_python(), "-m", f"bench.peers.{module}"]
    home = Path(__file__).parents[2]
    made = subprocess.run(command, cwd=home, input=json.dumps(asdict(work)), capture_output=True, text=True)
    if made.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{made.stderr}")
    found = json.loads(made.stdout.splitlines()[-1])
    return Outcome({(message, node): at for message, node, at in found["arrivals"]}, found["cpu"])


def serve(simulate: Callable[[Work], Outcome]) -> None:
    """The other side of `run`: an adapter's main program."""
    given = json.load(sys.stdin)
    work = Work(
        given["nodes"],
        given["minutes"],
        [Contact(*each) for each in given["contacts"]],
        [Broadcast(*each) for each in given["broadcasts"]],
    )
    found = simulate(work)
    arrivals = [[message, node, at] for (message, node), at in found.arrivals.items()]
    print(json.dumps({"arrivals": arrivals, "cpu": found.cpu}))
