"""Who is named to the members of an overlay in an emulation, so that they can find each other.

A live member is given the address of a contact by hand, and falls back on it when it is alone. Here, nobody's
address is known before its process listens, and a node that comes back has another one. So the oldest process
that runs is the contact of all others, and when it is gone, the next oldest is. Whoever runs then knows
the oldest, or is it: no order in which processes begin and end leaves some of them apart.
"""

from __future__ import annotations

from typing import Any, Protocol


class Process(Protocol):
    """A life of a node."""

    port: int | None

    @property
    def dead(self) -> bool: ...

    def tell(self, *command: Any) -> None: ...


class Introductions:
    def __init__(self) -> None:
        self._starting: list[Process] = []
        self._running: list[Process] = []
        """Those that listen, the oldest first."""

    def begun(self, process: Process) -> None:
        self._starting.append(process)

    def make(self) -> None:
        """Called often: name the oldest to those that listen by now, and to all when it is another one."""
        if self._running and self._running[0].dead:
            self._running = [each for each in self._running if not each.dead]
            self._name_oldest_to(self._running[1:])
        new = [each for each in self._starting if each.port is not None and not each.dead]
        if new:
            self._starting = [each for each in self._starting if each.port is None and not each.dead]
            known = len(self._running)
            self._running += new
            self._name_oldest_to(self._running[max(1, known) :])

    def _name_oldest_to(self, others: list[Process]) -> None:
        for each in others:
            each.tell("meet", self._running[0].port)
