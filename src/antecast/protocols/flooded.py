"""Three protocols over flooding: no order, FIFO order, causal order.

All of them promise integrity in every run, whatever the network does. They reach every node that
stays connected, or comes back while the messages it missed are still kept (`retain`), over links
that lose nothing; over links that lose, once `repair` is set.
"""

from typing import Annotated, Any

import msgspec

from antecast.core import Frame, NodeId, Protocol
from antecast.core.settings import Duration, Settings
from antecast.protocols.barrier import Barrier
from antecast.protocols.fifo import Fifo
from antecast.protocols.flood import Flood
from antecast.protocols.layered import Layered
from antecast.protocols.ordering import Ordering
from antecast.protocols.registry import Guarantee, Need, Specification, Unit, register
from antecast.protocols.retained import Summary
from antecast.protocols.unordered import Unordered
from antecast.protocols.vector import Vector


class FloodSettings(Settings, frozen=True, kw_only=True):
    retain: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """How many delivered messages a node keeps for neighbours that were away."""
    repair: Duration | None = None
    """How often a node compares with a neighbour; needed over links that lose. 0 for never."""
    patience: Duration = Duration(10 * 10**9)
    """How long a node with a past waits before it gives up messages that a neighbour no longer has."""
    early: Annotated[int, msgspec.Meta(ge=1000)] = 1 << 27
    """About how many bytes of memory early messages from one neighbour may take; more of them are taken later."""


def _needs(settings: FloodSettings) -> frozenset[Need]:
    return frozenset() if settings.repair else frozenset({Need.RELIABLE_LINKS})


def _heartbeats(settings: FloodSettings) -> tuple[type[Frame], ...]:
    return (Summary,) if settings.repair else ()


def over_flood(node: NodeId, ordering: Ordering[Any], settings: FloodSettings) -> Protocol:
    """A node that orders by an ordering what flooding brings."""
    flood = Flood(
        node,
        retain=settings.retain,
        repair=settings.repair or None,
        patience=settings.patience,
        ordered=ordering.waits,
        early=settings.early,
    )
    return Layered(node, ordering, flood)


GAUGES = {
    "pending": Unit.MESSAGES,
    "stored": Unit.MESSAGES,
    "clock": Unit.ENTRIES,
    "barrier": Unit.ENTRIES,
    "out_of_turn": Unit.ENTRIES,
}
"""What the gauges of orderings over flooding count."""

R_BROADCAST = register(
    Specification(
        name="r-broadcast",
        title="reliable, in no order",
        reference="Hadzilacos and Toueg, A modular approach to fault-tolerant broadcasts and related problems",
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT}),
        needs=_needs,
        control="constant",
        memory="N counters, kept messages",
        delivery="constant",
        settings=FloodSettings,
        make=lambda node, settings: over_flood(node, Unordered(), settings),
        loss_settings={"repair": "100ms"},
        heartbeats=_heartbeats,
        gauges=GAUGES,
    )
)

FIFO = register(
    Specification(
        name="fifo",
        title="reliable, each source in order",
        reference="Hadzilacos and Toueg, A modular approach to fault-tolerant broadcasts and related problems",
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO}),
        needs=_needs,
        control="constant",
        memory="N counters, kept and early messages",
        delivery="constant",
        settings=FloodSettings,
        make=lambda node, settings: over_flood(node, Fifo(node), settings),
        loss_settings={"repair": "100ms"},
        heartbeats=_heartbeats,
        gauges=GAUGES,
    )
)

_CAUSAL = frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO, Guarantee.CAUSAL})
_BSS = "Birman, Schiper and Stephenson, Lightweight causal and atomic group multicast"

VECTOR = register(
    Specification(
        name="vector",
        title="causal, by whole vector clocks",
        reference=_BSS,
        guarantees=_CAUSAL,
        needs=_needs,
        control="N entries",
        memory="N counters, kept and early messages",
        delivery="N, and what it releases",
        settings=FloodSettings,
        make=lambda node, settings: over_flood(node, Vector(node), settings),
        loss_settings={"repair": "100ms"},
        heartbeats=_heartbeats,
        gauges=GAUGES,
    )
)

VECTOR_CHANGES = register(
    Specification(
        name="vector-changes",
        title="causal, by the changed entries of vector clocks",
        reference=_BSS,
        guarantees=_CAUSAL,
        needs=_needs,
        control="entries changed since the sender's last broadcast, N at most",
        memory="2 N counters, kept and early messages",
        delivery="changed entries, and what it releases",
        settings=FloodSettings,
        make=lambda node, settings: over_flood(node, Barrier(node), settings),
        loss_settings={"repair": "100ms"},
        heartbeats=_heartbeats,
        gauges=GAUGES,
        trusts_closure=True,
    )
)
