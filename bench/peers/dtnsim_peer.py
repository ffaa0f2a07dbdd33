"""The work in dtnsim (Ohsaki), by its agents `Epidemic`.

Time goes in slots there, and who stands close meets: in each slot the two nodes of a contact stand together, and
all others far apart. Its agents offer what they carry once, as they meet, and a message travels one hop per slot.
So the work has to be `brief`: contacts of one slot, one at a time for a node, and no broadcast during a contact.
"""

from __future__ import annotations

import importlib
import time
from collections import defaultdict
from typing import Any

from bench.peers.apart import serve
from bench.peers.work import MINUTE, Outcome, Work

SLOT = MINUTE // 2
APART, RANGE = 200, 50
"""Metres."""


class Place:
    """The mobility of a node that is moved from outside, so that all have moved before the first looks around."""

    def __init__(self, current: Any) -> None:
        self.current = current

    def move(self, delta: int) -> None:
        pass


def dtnsim_epidemic(work: Work) -> Outcome:
    dtnsim, null, epidemic, vector = (
        importlib.import_module(f"dtnsim{name}") for name in ("", ".monitor.null", ".agent.epidemic", ".vector")
    )
    begun = time.process_time()
    arrivals: dict[tuple[int, int], float] = {}
    scheduler = dtnsim.Scheduler(delta=SLOT, max_time=MINUTE * work.minutes)
    monitor = null.Null(scheduler=scheduler)

    def seen(sender: Any, receiver: Any, message: str) -> None:
        source, _, number = map(int, message.split("-"))
        if receiver.id_ != source:
            arrivals.setdefault((number, receiver.id_ - 1), scheduler.time)

    monitor.display_forward = seen
    homes = [vector.Vector(APART * node, 0) for node in range(work.nodes)]
    agents = [
        epidemic.Epidemic(scheduler=scheduler, mobility=Place(home), monitor=monitor, range_=RANGE)
        for home in homes
    ]
    meetings = defaultdict(list)
    for each in work.contacts:
        meetings[each.start].append(each)
    waiting = sorted(((each.t, number, each.node) for number, each in enumerate(work.broadcasts)), reverse=True)
    while scheduler.is_running():
        while waiting and waiting[-1][0] <= scheduler.time:
            _, number, node = waiting.pop()
            agents[node].received[f"{node + 1}-0-{number}"] = 1  # to agent 0, which there is not
        for agent, home in zip(agents, homes, strict=True):
            agent.mobility.current = home
        for each in meetings[scheduler.time]:
            agents[each.b].mobility.current = homes[each.a]
        scheduler.cache_zones()
        for agent in agents:
            agent.advance()
        for agent in agents:
            agent.flush()
        scheduler.advance()
    return Outcome(arrivals, time.process_time() - begun)


if __name__ == "__main__":
    serve(dtnsim_epidemic)
