"""Topologies: who is linked with whom when a run starts, and what changes that while it goes on."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from antecast.core.settings import Duration, FileName, Settings
from antecast.sim.radio.layout import Cells
from antecast.sim.streams import Stream


class Complete(Settings, frozen=True, kw_only=True, tag_field="kind", tag="complete"):
    """Everyone with everyone."""


class Ring(Settings, frozen=True, kw_only=True, tag_field="kind", tag="ring"):
    """Each node with the next `reach` nodes on either side."""

    reach: Annotated[int, msgspec.Meta(ge=1)] = 1


class Star(Settings, frozen=True, kw_only=True, tag_field="kind", tag="star"):
    """Everyone with node 0."""


class Tree(Settings, frozen=True, kw_only=True, tag_field="kind", tag="tree"):
    """A tree in which each node has up to `arity` children."""

    arity: Annotated[int, msgspec.Meta(ge=1)] = 2


class Grid(Settings, frozen=True, kw_only=True, tag_field="kind", tag="grid"):
    """Rows of `width` nodes, each linked with its four neighbours."""

    width: Annotated[int, msgspec.Meta(ge=1)]


class Random(Settings, frozen=True, kw_only=True, tag_field="kind", tag="random"):
    """A ring, so that it is connected, plus random links up to a mean degree."""

    degree: Annotated[int, msgspec.Meta(ge=2)] = 4


class Explicit(Settings, frozen=True, kw_only=True, tag_field="kind", tag="links"):
    """The links listed."""

    links: list[tuple[int, int]]


class Contacts(Settings, frozen=True, kw_only=True, tag_field="kind", tag="contacts"):
    """Nodes meet and part as a trace says. The trace gives their number and, by default, the
    duration."""

    file: FileName
    """A contact trace in any format that `antecast convert` reads."""
    presence: FileName | None = None
    """When nodes are there: a Parquet table of presence, or of trajectories. Default: all the time."""
    setup: Duration = Duration(0)
    """How long it takes until a contact can be used."""
    shift: bool | None = None
    """Whether the start of the trace is time 0 of the run. Default: only if the trace counts from long before
    its start, such as from 1970."""


class Spray(Settings, frozen=True, kw_only=True, tag_field="kind", tag="spray"):
    """Processes choose their neighbours themselves and exchange them now and then (`sim/overlay`)."""

    every: Duration | None = Duration(60 * 10**9)
    """How often a process starts an exchange; it takes part in about as many again. 0 for never: a static
    random graph."""
    patience: Duration = Duration(120 * 10**9)
    """How long a new connection may take to become safe before it is dropped."""
    core: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Processes that know each other at the start; the others join one by one, before the run. Views hold about
    ln n arcs with 2, and ln n + core − 1 − H(core) with more."""
    arcs: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Instead of joins: each process starts with this many arcs, on average, to random others."""
    settle: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 10
    """Rounds of exchanges before the run starts."""


Topology: TypeAlias = Complete | Ring | Star | Tree | Grid | Random | Explicit | Contacts | Spray | Cells


def edges(topology: Topology, n: int, seed: int) -> list[tuple[int, int]]:
    """The links as pairs with the smaller node first, sorted, each once."""
    match topology:
        case Complete():
            pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
        case Ring(reach=reach):
            pairs = [(a, (a + step) % n) for a in range(n) for step in range(1, reach + 1)]
        case Star():
            pairs = [(0, b) for b in range(1, n)]
        case Tree(arity=arity):
            pairs = [((b - 1) // arity, b) for b in range(1, n)]
        case Grid(width=width):
            pairs = [(a, a + 1) for a in range(n - 1) if (a + 1) % width] + [
                (a, a + width) for a in range(n - width)
            ]
        case Random(degree=degree):
            pairs = _random(n, degree, Stream(seed, "topology"))
        case Explicit(links=links):
            pairs = links
        case Contacts() | Spray() | Cells():  # links come as nodes meet; overlays and stations have their own
            pairs = []
    return sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})


def _random(n: int, degree: int, stream: Stream) -> list[tuple[int, int]]:
    chosen = {(min(a, b), max(a, b)) for a in range(n) if (b := (a + 1) % n) != a}
    wanted = min(n * degree // 2, n * (n - 1) // 2)
    while len(chosen) < wanted:
        a, b = stream.below(n), stream.below(n)
        if a != b:
            chosen.add((min(a, b), max(a, b)))
    return list(chosen)
