"""Plans: what may happen to a small network under the contract of `core.protocol`, drawn by Hypothesis.

A plan is a list of moves: broadcasts, links whose ends change independently, links that come up twice, crashes
between two calls and in the middle of one, also of a node that is just recovering, clocks that leap ahead, nodes
that lose their state and come back under a new number. `conformance` plays it. All of it is drawn from few,
ordered choices, so counterexamples shrink to a few moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import strategies as st

from antecast.protocols.registry import Need, Specification
from antecast.testing.settings import drawn_settings

_MOVES = (
    "broadcast", "cut", "link", "crash", "recover", "burst", "doom", "flap", "shock", "broadcast", "flap", "shock",
    "stranger", "rebirth", "join", "leave", "recover", "stumble", "leap",
)  # fmt: skip
_LASTING = "broadcast", "burst", "stranger", "leap"
"""What may happen where members and links stay."""

LEAPS = 3600 * 10**9, 10**9, 10 * 365 * 86_400 * 10**9
"""How far a clock leaps: an hour, a second, ten years."""

_WAITS = (0, 100, 0, 5, 100, 3000, 12_000)


class Move(NamedTuple):
    """Something that happens, and the pause after it."""

    verb: str
    node: int = 0
    """Counted among those that are up."""
    peer: int = 0
    """For a link, how many places further on its other end is; for a node that is doomed or stumbles, how many
    effects it carries out; for a clock that leaps, how far (`LEAPS`)."""
    wait: int = 0
    """In milliseconds."""


@dataclass(frozen=True)
class Plan:
    """A network and what happens in it. Its `repr` is Python that makes it again."""

    protocol: str
    nodes: int
    moves: tuple[Move, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    delay: int = 0
    """The longest a frame takes, in milliseconds."""
    notice: int = 0
    """The longest an end of a link takes to notice that it came up or broke."""
    loss: float = 0.0
    blackout: bool = False
    """Whether, at the end, all nodes crash at once soon after each has broadcast, and nothing happens afterwards
    that could wake them."""
    late: int = 0
    """The longest that a timer fires late, in milliseconds."""
    answers: bool = False
    """Whether nodes answer, from inside the delivery, what the node before them broadcast."""
    seed: int = 0


@st.composite
def plans(draw: st.DrawFn, spec: Specification, *, max_nodes: int = 4, max_moves: int = 20) -> Plan:
    """What a protocol must bear."""
    settings = draw(drawn_settings(spec))
    needs = spec.needs(spec.configure(settings))
    nodes = draw(st.sampled_from([2, 3, *range(1, max_nodes + 1)]))
    verbs = _LASTING if Need.STATIC_MEMBERS in needs else _MOVES
    index = st.integers(0, max_nodes)
    step = st.sampled_from([0, 0, 0, 1, 2])
    move = st.builds(Move, st.sampled_from(verbs), index, step, st.sampled_from(_WAITS))
    least = draw(st.sampled_from([0, max_moves // 2]))  # otherwise most lists would be short
    lossless = Need.RELIABLE_LINKS in needs and Need.CELLS not in needs
    return Plan(
        protocol=spec.name,
        nodes=nodes,
        settings=settings,
        delay=draw(st.sampled_from([0, 10, 500, 2000])),
        notice=draw(st.sampled_from([0, 100, 5000])),
        late=draw(st.sampled_from([0, 0, 20, 3000])),
        loss=0.0 if lossless else draw(st.sampled_from([0.0, 0.2])),
        answers=draw(st.booleans()),
        blackout=Need.STATIC_MEMBERS not in needs and draw(st.booleans()),
        seed=draw(st.integers(0, 3)),
        moves=tuple(draw(st.lists(move, min_size=least, max_size=max_moves))),
    )
