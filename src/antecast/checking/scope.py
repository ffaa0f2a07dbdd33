"""The scope of a check: how large the world is, what the application does, and how much adversity there is.

Everything in a scope is a bound. The search tries each way to use it up, and each way not to.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from antecast.checking.hidden import FAULTS
from antecast.core import ConfigurationError, NodeId
from antecast.core.settings import Duration, Offset, Settings
from antecast.protocols.registry import Guarantee, Need, Specification

Small: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=99)]

BUDGET: Final = (
    "broadcasts", "answers", "losses", "breaks", "appears", "crashes", "joins", "leaves", "partitions", "moves",
    "timeouts", "ticks",
)  # fmt: skip
"""What is used up as the world goes on, in the order in which a world counts it."""

UNREST: Final = ("breaks", "appears", "crashes", "joins", "leaves", "partitions", "moves")
"""What does not happen where members and links stay."""

ADVERSITY: Final = BUDGET[2:]
"""What the network does to a protocol."""


class Scope(Settings, frozen=True, kw_only=True):
    """A small world, and what may happen in it."""

    nodes: Annotated[int, msgspec.Meta(ge=1, le=16)] = 3
    stations: Annotated[int, msgspec.Meta(ge=0, le=8)] = 0
    """Stations of a network of cells, joined by wires in a line; the nodes are hosts."""
    topology: Literal["complete", "line", "ring", "star"] = "complete"
    broadcasts: Small = 2
    """Broadcasts that any node makes at any time."""
    answers: Small = 0
    """Further broadcasts, each made by any node from inside its delivery of another's message."""
    losses: Small = 0
    """Frames that are lost on links that stay up, or by radio."""
    breaks: Small = 0
    """Links that break, and may come back. Each end notices at a moment of its own."""
    unsteady: list[tuple[NodeId, NodeId]] = []
    """The links that break. Without any, all do."""
    appears: Small = 0
    """Links that come up where none was at the start."""
    crashes: Small = 0
    """Nodes that crash, between two calls or in the middle of one, and recover from what they saved."""
    joins: Small = 0
    """Nodes that come during the run, with a link to one that is there (to all, where all must have links)."""
    leaves: Small = 0
    """Nodes that go for good: with a farewell where the protocol has one, else silently."""
    partitions: Small = 0
    """Cuts of all links between two parts of the network at once."""
    moves: Small = 0
    """Hosts that change their cell."""
    timeouts: Small = 0
    """Timers that fire before all is calm: while something is under way, or with faults still to come."""
    ticks: Small = 0
    """Times that a `tick` passes without anything else."""
    tick: Duration = Duration(10**9)
    lifetimes: list[Duration] = []
    """Lifetimes of broadcasts; each may have any of them. Without any, the protocol's own."""
    clocks: list[Offset] = []
    """How far the clock of each node is ahead; zero for those not named."""
    bound: Small | None = None
    """How many of all these things may happen altogether, broadcasts included. Default: no bound."""
    fifo: bool | None = None
    """Whether links keep the order of their frames. Default: as the protocol needs."""
    at_rest: bool = False
    """Whether what nodes say as their first links come up has arrived before anything else happens. In cells it
    always has."""
    inside: bool = True
    """Whether crashes come between two effects of a call, too."""
    nested: bool = False
    """Whether the effects of an answer are carried out in the middle of those of the delivery. No driver may do so
    (rule 1 of the contract); a protocol that bears it bears drivers that do."""
    calm: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 300
    """Timers that may fire, once nothing more goes wrong, until everything has to be delivered."""
    safe_links: bool | None = None
    """Whether every link has to become safe in the end. Default: where agreement is promised."""
    probes: bool = True
    """Whether, once everything is delivered, a further broadcast of each node has to reach all."""

    @property
    def hosts(self) -> range:
        """Those with an application, members that come later included."""
        return range(self.nodes + self.joins)

    def links(self) -> list[tuple[NodeId, NodeId]]:
        """The links at the start."""
        if self.stations:
            first = self.nodes + self.joins
            return list(pairwise(range(first, first + self.stations)))
        nodes = range(self.nodes)
        match self.topology:
            case "complete":
                return list(combinations(nodes, 2))
            case "star":
                return [(0, node) for node in nodes[1:]]
            case "ring" if self.nodes > 2:
                return [*pairwise(nodes), (0, self.nodes - 1)]
            case _:
                return list(pairwise(nodes))


def fitting(spec: Specification, settings: Any, scope: Scope) -> Scope:
    """A scope without what the protocol does not promise to bear; cells where it needs them."""
    needs = spec.needs(settings)
    changes: dict[str, Any] = {}
    if Need.CELLS in needs:
        changes |= {"breaks": 0, "appears": 0, "partitions": 0, "topology": "complete"}
        changes |= {} if scope.stations else {"stations": 2}
    else:
        changes |= {"stations": 0, "moves": 0}
        if Need.RELIABLE_LINKS in needs:
            changes["losses"] = 0
    if scope.nodes < 3:
        changes["leaves"] = 0
    if Need.STATIC_MEMBERS in needs:
        changes |= dict.fromkeys(UNREST, 0)
    if Need.COMPLETE_GRAPH in needs:
        changes["topology"] = "complete"
    if changes.get("topology", scope.topology) == "complete":
        changes["appears"] = 0
    if Need.FIFO_LINKS in needs:
        changes["fifo"] = None
    if spec.lifetime(settings) is None:
        changes["lifetimes"] = []
    return msgspec.structs.replace(scope, **changes)


def described(scope: Scope) -> str:
    """A scope in words, without what is not in it.

    >>> described(Scope(nodes=3, broadcasts=2, crashes=1))
    '3 nodes, 2 broadcasts, 1 crash'
    """
    parts = [
        f"{scope.nodes} hosts, {_counted(scope.stations, 'stations')}"
        if scope.stations
        else f"{scope.nodes} nodes"
    ]
    parts += [_counted(getattr(scope, name), name) for name in BUDGET if getattr(scope, name)]
    if scope.topology != "complete":
        parts.insert(1, scope.topology)
    if scope.at_rest:
        parts.insert(1, "at rest")
    if scope.bound is not None:
        parts.append(f"{scope.bound} altogether")
    return ", ".join(parts)


def _counted(number: int, names: str) -> str:
    one = "crash" if names == "crashes" else "loss" if names == "losses" else names.removesuffix("s")
    return f"{number} {one if number == 1 else names}"


def check_specification(spec: Specification, settings: Any) -> None:
    """Refuse a specification that does not say what it should: it may be anybody's code."""
    asked: dict[str, object] = {"guarantees": spec.guarantees}
    for name in ("needs", "lifetime", "heartbeats"):
        try:
            asked[name] = getattr(spec, name)(settings)
        except FAULTS as error:
            problem = f"{spec.name}: {name} raised {type(error).__name__}: {error}"
            raise ConfigurationError(problem, field=name) from None
    for name, kind in (("guarantees", Guarantee), ("needs", Need)):
        said = asked[name]
        if not isinstance(said, set | frozenset) or not all(isinstance(each, kind) for each in said):
            raise ConfigurationError(f"{spec.name}: expected a set of {kind.__name__}, got {said!r}", field=name)
    if not isinstance(asked["heartbeats"], tuple | list | set | frozenset):
        problem = f"{spec.name}: expected the classes of frames, got {asked['heartbeats']!r}"
        raise ConfigurationError(problem, field="heartbeats")
    if not callable(spec.make):
        raise ConfigurationError(f"{spec.name}: expected what makes a node, got {spec.make!r}", field="make")


def check_scope(spec: Specification, settings: Any, scope: Scope) -> None:
    """Refuse a scope that means nothing, or that asks more of the protocol than it promises to bear."""
    needs = spec.needs(settings)

    def refuse(field: str, problem: str) -> None:
        raise ConfigurationError(problem, field=field)

    if not scope.broadcasts:
        refuse("broadcasts", "nobody would ever say anything; 1 at least")
    if scope.nodes < 2:
        refuse("nodes", "one node alone keeps every order; 2 at least")
    if scope.bound == 0:
        refuse("bound", "nothing would ever happen; 1 at least")
    if scope.leaves and scope.nodes < 3:
        refuse("leaves", "nobody would be left to talk to; 3 nodes at least")
    cells = Need.CELLS in needs
    if cells and not scope.stations:
        refuse("stations", f"{spec.name} runs in cells; 1 at least")
    if scope.stations and not cells:
        refuse("stations", f"{spec.name} does not support cells; leave it out")
    if scope.moves and scope.stations < 2:
        refuse("moves", "a host moves from one cell to another; 2 stations at least")
    if cells and (scope.breaks or scope.appears or scope.partitions):
        refuse("breaks", "wires between stations stay; hosts move, crash, join and leave")
    if Need.STATIC_MEMBERS in needs:
        for name in UNREST:
            if getattr(scope, name):
                refuse(name, f"{spec.name} needs members and links that stay; 0")
    if Need.RELIABLE_LINKS in needs and scope.losses and not cells:
        with_loss = "".join(f"; it bears loss with --set {k}={v}" for k, v in spec.loss_settings.items())
        refuse("losses", f"{spec.name} needs links that lose nothing{with_loss}")
    if Need.FIFO_LINKS in needs and scope.fifo is False:
        refuse("fifo", f"{spec.name} needs links that keep order")
    if Need.COMPLETE_GRAPH in needs and scope.topology != "complete":
        refuse("topology", f'{spec.name} needs a link between every two nodes: "complete"')
    if scope.appears and scope.topology == "complete":
        refuse("appears", 'every two nodes have a link already; choose another topology, such as "line"')
    for pair in scope.unsteady:
        if not 0 <= pair[0] < pair[1] < len(scope.hosts):
            refuse("unsteady", f"expected two nodes, the lower number first, such as [0, 2], got {list(pair)}")
    if scope.lifetimes and spec.lifetime(settings) is None:
        refuse("lifetimes", f"{spec.name} does not support lifetimes")
