"""VCube: causal broadcast over one spanning tree per source, with causally related messages in one packet.

After "A Communication-Efficient Causal Broadcast Protocol" (de Araujo, Arantes, Duarte, Rodrigues and Sens).
Messages carry the changed entries of a vector clock (`barrier`), travel down the trees of a virtual hypercube
(`cube`, `trees`), and are held back from children that could not deliver them yet (`holding`). The paper leaves
failures to future work and asks for 2^d nodes; here any number works (`view`), and nodes may fail
(`diagnosis`, `reliable`).

With diagnosis (the default):
- *Causal order, FIFO order and integrity* in every run.
- *Agreement* among correct nodes: what one of them delivers, all of them deliver, whatever nodes crash, in any
  number, as long as every two correct nodes have a link that lets frames through now and then, and as long as the
  messages are still kept (`retain`). Everything that a correct node broadcasts is delivered by all of them.
- A node that *crashed and recovers* with its saved state is correct again from then on: it catches up, and so do
  the others with what only it had. Without its state it joins under a new number.
- *Liveness with little kept*: once the network has been whole and quiet for several times `patience`, what anyone
  broadcasts is delivered by all, even with `retain` 0 (`cuts`).
- *Broken and lying peers* do no lasting harm, except what only signatures would prevent (docs/vcube.md).
- The *last messages of a node that crashed* are delivered by all correct nodes if one of them has received them
  and what they depend on, otherwise by none, until a node recovers that has what is missing. This is not uniform
  agreement: what only crashed nodes delivered may be lost to the others. A message that depends on one lost in
  this way waits for ever, with all its copies, and takes memory.

Without it (`diagnosis = 0`) the protocol is the paper's: exactly N × (N − 1) packets for a message from each of
N nodes, or fewer with aggregation, over links that lose nothing, among members that stay.
"""

from typing import Annotated

import msgspec

from antecast.core import Frame, NodeId, Protocol
from antecast.core.settings import Duration, Settings
from antecast.protocols.barrier import Barrier
from antecast.protocols.flooded import GAUGES
from antecast.protocols.layered import Layered
from antecast.protocols.registry import Guarantee, Need, Specification, Unit, register
from antecast.protocols.vcube.diagnosis import Reply, Test
from antecast.protocols.vcube.reliable import ReliableTrees
from antecast.protocols.vcube.trees import Trees


class VCubeSettings(Settings, frozen=True, kw_only=True):
    aggregate: bool = True
    """Whether messages are held back from children that could not deliver them, and sent in one packet."""
    mtu: Annotated[int, msgspec.Meta(ge=64, le=65_535)] = 1500
    """The most bytes of a packet on the network, with its header; a larger message travels alone."""
    header: Annotated[int, msgspec.Meta(ge=0, le=60)] = 20
    """Bytes that the network adds to a packet."""
    diagnosis: Duration = Duration(10**9)
    """How often a node tests its neighbours; 0 for never, where neither nodes nor links fail."""
    timeout: Duration = Duration(500_000_000)
    """How long a node may take to answer a test; doubled each time a node was doubted for being slow."""
    retain: Annotated[int, msgspec.Meta(ge=0)] = 10_000
    """How many delivered messages a node keeps for others, with diagnosis."""
    patience: Duration = Duration(10 * 10**9)
    """How long a node with a past waits before it gives up messages a neighbour no longer has."""


def _make(node: NodeId, settings: VCubeSettings, *, single: bool) -> Protocol:
    ordering, room = Barrier(node), settings.mtu - settings.header
    if not settings.diagnosis:
        return Layered(node, ordering, Trees(node, aggregate=settings.aggregate, single=single, room=room))
    trees = ReliableTrees(
        node,
        aggregate=settings.aggregate,
        single=single,
        room=room,
        interval=settings.diagnosis,
        timeout=settings.timeout,
        retain=settings.retain,
        patience=settings.patience,
    )
    return Layered(node, ordering, trees)


def _needs(settings: VCubeSettings) -> frozenset[Need]:
    if settings.diagnosis:
        return frozenset({Need.COMPLETE_GRAPH})
    return frozenset({Need.COMPLETE_GRAPH, Need.RELIABLE_LINKS, Need.STATIC_MEMBERS})


def _heartbeats(settings: VCubeSettings) -> tuple[type[Frame], ...]:
    return (Test, Reply) if settings.diagnosis else ()


_PAPER = "de Araujo, Arantes, Duarte, Rodrigues and Sens, A Communication-Efficient Causal Broadcast Protocol"
_CAUSAL = frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO, Guarantee.CAUSAL})


def _specification(name: str, title: str, *, single: bool) -> Specification:
    return Specification(
        name=name,
        title=title,
        reference=_PAPER,
        guarantees=_CAUSAL,
        needs=_needs,
        control="entries changed since the sender's last broadcast, N at most",
        memory="3 N counters, kept, early and held messages",
        delivery="changed entries, log N children, and what it releases",
        settings=VCubeSettings,
        make=lambda node, settings: _make(node, settings, single=single),
        heartbeats=_heartbeats,
        loss_settings={"diagnosis": "100ms", "timeout": "200ms"},
        draws={"diagnosis": (None, "400ms", "1s")},  # a round costs as many frames as nodes: not more often
        gauges=GAUGES | {"held": Unit.MESSAGES, "doubted": Unit.ENTRIES},
    )


VCUBE = register(
    _specification("vcube", "causal, down one tree per source, several messages in a packet", single=False)
)
VCUBE_SINGLE = register(
    _specification("vcube-single", "causal, down a single tree: the baseline of vcube", single=True)
)
