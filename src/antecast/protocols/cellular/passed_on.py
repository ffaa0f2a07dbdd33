"""The newest message of each host that a station has passed on: no name is passed on twice.

Whatever way the messages of a host take, each station gets them in the host's order. So a message whose number is
not above all that came before it, of the same host, is a copy or a forgery: the host has started its count anew
under an old number, or tells two stations different things.
"""

from __future__ import annotations

from antecast.core import NodeId, RemoteFault
from antecast.protocols.cellular.frames import MOST_MESSAGES, Data
from antecast.protocols.cellular.rules import Rules

_MOST_HOSTS = 1 << 16
"""Beyond this, the host that has been silent longest is forgotten."""


class PassedOn:
    def __init__(self, rules: Rules) -> None:
        self._believed = not rules.printed  # the printed rules pass messages on twice
        self._newest: dict[NodeId, int] = {}
        """Last used last."""

    def __len__(self) -> int:
        return len(self._newest)

    def next(self, host: NodeId) -> int:
        """The least number that is not used up."""
        return self._newest.get(host, 0) + 1 if self._believed else 1

    def is_new(self, message: Data) -> bool:
        return message.seq >= self.next(message.origin)

    def add(self, message: Data) -> None:
        self._newest.pop(message.origin, None)
        self._newest[message.origin] = message.seq
        if len(self._newest) > _MOST_HOSTS:
            del self._newest[next(iter(self._newest))]

    def snapshot(self) -> list[list[int]]:
        return [[host, newest] for host, newest in self._newest.items()]

    def restore(self, state: list[list[int]]) -> None:
        self._newest = {host: newest for host, newest in state}  # noqa: C416


def check_number(host: NodeId, number: int) -> None:
    """Refuse a number of a message that no host reaches: there must be a next one."""
    if number >= MOST_MESSAGES:
        raise RemoteFault(f"host {host} has no message {number}")
