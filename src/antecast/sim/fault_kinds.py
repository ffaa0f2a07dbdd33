"""The kinds of fault that a scenario names: nodes that fail, come and go, and links that break."""

from __future__ import annotations

from typing import TypeAlias

from antecast.core.settings import Duration, Settings
from antecast.sim.network import Node


class _Fault(Settings, frozen=True, kw_only=True, tag_field="kind"):
    at: Duration


class Crash(_Fault, frozen=True, kw_only=True, tag="crash"):
    """A node stops; its links break. What it had saved is there when it recovers."""

    node: Node


class Recover(_Fault, frozen=True, kw_only=True, tag="recover"):
    """A crashed node starts again from what it had saved, and its links come up anew."""

    node: Node


class Rebirth(_Fault, frozen=True, kw_only=True, tag="rebirth"):
    """A node has lost its state for good, whether it is up or has crashed. It comes back as a newcomer under a
    number of its own, with the links of its old life."""

    node: Node
    number: Node


class Join(_Fault, frozen=True, kw_only=True, tag="join"):
    """A new node appears. Nodes beyond `nodes` exist only from their join on."""

    node: Node
    peers: list[Node] | None = None
    """Whom it links with. Default: everyone in a complete topology, else 3 nodes at random."""


class Leave(_Fault, frozen=True, kw_only=True, tag="leave"):
    """A node goes for good."""

    node: Node


class Partition(_Fault, frozen=True, kw_only=True, tag="partition"):
    """Links between different groups break. Nodes in no group form one more."""

    groups: list[list[Node]]


class Heal(_Fault, frozen=True, kw_only=True, tag="heal"):
    """A partition ends: the links it broke come up anew."""


class Cut(_Fault, frozen=True, kw_only=True, tag="cut"):
    """One link breaks."""

    a: Node
    b: Node


class Link(_Fault, frozen=True, kw_only=True, tag="link"):
    """One link comes up, whether there was one before or not."""

    a: Node
    b: Node
    by: Node | None = None
    """The common neighbour that introduces the two, if there is one."""


class Churn(Settings, frozen=True, kw_only=True, tag_field="kind", tag="churn"):
    """Every node crashes at random and recovers after a random time, both exponential."""

    uptime: Duration
    """Mean time between a recovery and the next crash."""
    downtime: Duration
    """Mean time that a node is down."""
    start: Duration = Duration(0)
    until: Duration | None = None

    def __post_init__(self) -> None:
        if not (self.uptime or self.downtime):
            raise ValueError("uptime and downtime are both 0s; time would stand still for ever")


class CellCrash(_Fault, frozen=True, kw_only=True, tag="cell-crash"):
    """A host, chosen at random in the cell of a station, crashes and recovers after a while."""

    station: Node
    """Counted from 0."""
    lasts: Duration


Fault: TypeAlias = Crash | Recover | Rebirth | Join | Leave | Partition | Heal | Cut | Link | Churn | CellCrash
