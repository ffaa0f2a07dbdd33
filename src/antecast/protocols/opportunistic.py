"""Protocols for opportunistic networks: epidemic exchange, without order, in causal order, and in Δ-causal
order ("Causal and Δ-causal broadcast in opportunistic networks", Guidec, Launay and Mahéo). Vector clocks over the
same exchange are there for comparison.

None of them can promise that a message reaches everyone: that depends on who meets whom, and when. Over links that
stay up and lose nothing, all of them do except `delta`, whose messages expire.
"""

from typing import Annotated, Any

import msgspec

from antecast.core import NodeId, Protocol
from antecast.core.settings import Duration, Settings
from antecast.protocols.barrier import Barrier
from antecast.protocols.delta import Delta, Rule
from antecast.protocols.epidemic import Epidemic, Order
from antecast.protocols.layered import Layered
from antecast.protocols.message_cache import Policy
from antecast.protocols.ordering import Ordering
from antecast.protocols.registry import Guarantee, Need, Specification, Unit, register
from antecast.protocols.unordered import Unordered
from antecast.protocols.vector import Vector

_PAPER = "Guidec, Launay and Mahéo, Causal and Δ-causal broadcast in opportunistic networks"


class EpidemicSettings(Settings, frozen=True, kw_only=True):
    capacity: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How many messages the cache holds; default: no limit."""
    policy: Policy = "oldest"
    """Which message makes room in a full cache."""
    order: Order = "random"
    """The order in which the messages of a transfer go."""
    patience: Duration = Duration(30 * 10**9)
    """How long others are not asked for a message that one neighbour was asked for."""
    early: Annotated[int, msgspec.Meta(ge=0)] = 1 << 24
    """Bytes of memory that early messages from one neighbour may take. More of them are not taken yet."""


class BarrierSettings(EpidemicSettings, frozen=True, kw_only=True):
    prune: bool = True
    """Leave out of a barrier what another of its entries implies."""


class DeltaSettings(BarrierSettings, frozen=True, kw_only=True):
    lifetime: Duration = Duration(20 * 60 * 10**9)
    """How long a message may travel, unless its broadcast says otherwise."""
    max_lifetime: Duration | None = None
    """The longest lifetime in the network; default: `lifetime`. Deadlines further ahead are refused."""
    clock_bound: Duration = Duration(10 * 10**9)
    """The largest difference between two clocks of the network."""
    rule: Rule = "safe"
    """`paper` for the published rule, which can violate causal order."""

    def __post_init__(self) -> None:
        if self.max_lifetime is not None and self.max_lifetime < self.lifetime:
            raise ValueError(
                f"max_lifetime of {self.max_lifetime} is below the lifetime of {self.lifetime}: nobody would"
                " take a message; leave it out, or raise it"
            )


def _needs(_: Settings) -> frozenset[Need]:
    return frozenset({Need.RELIABLE_LINKS})


def _over_epidemic(node: NodeId, ordering: Ordering[Any], settings: EpidemicSettings) -> Protocol:
    epidemic = Epidemic(
        node,
        capacity=settings.capacity,
        policy=settings.policy,
        order=settings.order,
        patience=settings.patience,
        early=settings.early,
        stamped=ordering.stamp_type is not None,
    )
    return Layered(node, ordering, epidemic)


def _longest_lifetime(settings: DeltaSettings) -> int:
    return settings.lifetime if settings.max_lifetime is None else settings.max_lifetime


def _make_delta(node: NodeId, settings: DeltaSettings) -> Protocol:
    delta = Delta(
        node,
        lifetime=settings.lifetime,
        max_lifetime=_longest_lifetime(settings),
        clock_bound=settings.clock_bound,
        rule=settings.rule,
        prune=settings.prune,
    )
    return _over_epidemic(node, delta, settings)


GAUGES = {
    "pending": Unit.MESSAGES,
    "cached": Unit.MESSAGES,
    "clock": Unit.ENTRIES,
    "barrier": Unit.ENTRIES,
    "dropped": Unit.COUNTER,
    "refused": Unit.COUNTER,
}
"""What the gauges of orderings over epidemic exchange count."""

_UNBOUNDED = {"capacity": (None,)}
"""A causal order may wait for what every full cache has dropped: agreement needs a cache that is large enough."""

EPIDEMIC = register(
    Specification(
        name="epidemic",
        title="store, carry and forward, in no order",
        reference=_PAPER,
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT}),
        needs=_needs,
        control="constant",
        memory="N counters, the cache",
        delivery="constant",
        settings=EpidemicSettings,
        make=lambda node, settings: _over_epidemic(node, Unordered(), settings),
        gauges=GAUGES,
    )
)

BARRIER = register(
    Specification(
        name="barrier",
        title="causal, by causal barriers, store, carry and forward",
        reference=_PAPER,
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO, Guarantee.CAUSAL}),
        needs=_needs,
        control="immediate predecessors, N at most",
        memory="2 N counters, the cache, early messages",
        delivery="its predecessors, and what it releases",
        settings=BarrierSettings,
        make=lambda node, settings: _over_epidemic(node, Barrier(node, prune=settings.prune), settings),
        gauges=GAUGES,
        draws=_UNBOUNDED,
    )
)

EPIDEMIC_VECTOR = register(
    Specification(
        name="epidemic-vector",
        title="causal, by whole vector clocks, store, carry and forward",
        reference="Birman, Schiper and Stephenson, Lightweight causal and atomic group multicast",
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO, Guarantee.CAUSAL}),
        needs=_needs,
        control="N entries",
        memory="N counters, the cache, early messages",
        delivery="N, and what it releases",
        settings=EpidemicSettings,
        make=lambda node, settings: _over_epidemic(node, Vector(node), settings),
        gauges=GAUGES,
        draws=_UNBOUNDED,
    )
)

DELTA = register(
    Specification(
        name="delta",
        title="Δ-causal: causal, within a lifetime",
        reference=_PAPER,
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.FIFO, Guarantee.CAUSAL, Guarantee.DEADLINE}),
        needs=lambda _: frozenset({Need.RELIABLE_LINKS, Need.CLOCKS}),
        control="immediate predecessors that have not expired, N at most",
        memory="2 entries for each source heard of within a lifetime, the cache, early messages",
        delivery="its predecessors, and what it releases",
        settings=DeltaSettings,
        make=_make_delta,
        lifetime=_longest_lifetime,
        clock_bound=lambda settings: int(settings.clock_bound),
        gauges=GAUGES,
        draws={"rule": ("safe",), **_UNBOUNDED},
    )
)
