"""One `receive` of PC-broadcast as the system grows, against causal broadcast by whole vector clocks.

Three sizes of system: every process is a source that has been heard of. And three loads: messages that wait.
With vector clocks they wait for one that is late. With PC-broadcast no message waits to be delivered; what waits
is what a new link, unsafe as yet, will be sent.

Measured is the receipt of a new message by a process with eight neighbours and a full log, in CPU time, without
the cycle collector, as in a run of the simulator.
"""

from __future__ import annotations

import gc
import time
from typing import Any

from antecast.core import Deliver, Message, Protocol
from antecast.protocols import specification
from bench.table import report

SIZES = (10, 1_000, 65_000)
PENDING = (0, 1_000, 10_000)
NEIGHBOURS = 8
ROUNDS = 5
RETAIN = 12_000


def process(name: str, size: int) -> Protocol:
    """Process 0 with its neighbours, after one message of every other, and enough to fill its log."""
    spec = specification(name)
    empty: dict[int, int] | None = {} if name == "vector" else None
    node = spec.make(0, spec.configure({"retain": RETAIN}))
    for peer in range(1, NEIGHBOURS + 1):
        node.link_up(peer, 0)
    for origin in range(1, size):
        node.receive(Message(origin, 1, b"", empty), 1, 0)
    for seq in range(2, RETAIN):
        node.receive(Message(2, seq, b"", empty), 1, 0)
    return node


def stamp(name: str, size: int) -> dict[int, int] | None:
    """What the second message of process 1 carries: what it has delivered of everyone else."""
    return None if name == "pc-broadcast" else dict.fromkeys(range(2, size), 1)


def hold_back(name: str, node: Protocol, pending: int) -> None:
    """Let messages wait: for one that is late, or for a link that is not safe yet."""
    if name == "pc-broadcast":
        node.link_up(NEIGHBOURS + 1, 0)
        for seq in range(2, pending + 2):
            node.receive(Message(3, seq, b"", None), 1, 0)
    else:
        for seq in range(3, pending + 3):
            node.receive(Message(3, seq, b"", {}), 1, 0)


def microseconds(name: str, size: int, pending: int) -> float:
    """CPU time of one receipt; the best of some rounds."""
    count = max(20, min(2_000, 2_000_000 // size)) if name == "vector" else 20_000
    node = process(name, size)
    if pending:
        hold_back(name, node, pending)
    carried = stamp(name, size)
    best = float("inf")
    first = 2
    for _ in range(ROUNDS):
        messages: list[Any] = [Message(1, seq, b"", carried) for seq in range(first, first + count)]
        first += count
        begin = time.process_time()
        for message in messages:
            effects = node.receive(message, 1, 0)
        best = min(best, time.process_time() - begin)
        assert isinstance(effects[-1], Deliver)
    return best / count * 1e6


def control_bytes(name: str, size: int) -> int:
    node = process(name, 10)
    return node.codec.size(Message(1, 2, b"", stamp(name, size)))


def main() -> None:
    gc.disable()
    rows = []
    base: dict[str, float] = {}
    for size, pending in [(size, 0) for size in SIZES] + [(1_000, pending) for pending in PENDING[1:]]:
        row: dict[str, Any] = {"processes": size, "messages waiting": pending}
        for name in ("pc-broadcast", "vector"):
            cost = microseconds(name, size, pending)
            base.setdefault(name, cost)
            row[f"{name}, µs"] = cost
            row[f"{name}, against the first row"] = cost / base[name]
            row[f"{name}, control bytes"] = control_bytes(name, size)
        rows.append(row)
    note = "Goal: a receipt by PC-broadcast costs the same in every row, and so do its control bytes."
    report("preventive", "One receipt of a new message, 8 neighbours", rows, note=note)


if __name__ == "__main__":
    main()
