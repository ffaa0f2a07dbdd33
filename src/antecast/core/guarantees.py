"""What a protocol can promise, and what it can need from the network to keep its promises.

`antecast.protocols.registry` says which protocol promises and needs what; `antecast.history.promises` judges what
a run kept.
"""

from enum import StrEnum


class Guarantee(StrEnum):
    """What holds in every run that meets the protocol's needs. All but agreement holds in every run."""

    INTEGRITY = "integrity"
    """A message is delivered at most once per node, and only if it was broadcast."""
    FIFO = "fifo"
    """Messages of one source are delivered in the order of its broadcasts."""
    CAUSAL = "causal"
    """A message is delivered after all messages of its causal past that are delivered there."""
    DEADLINE = "deadline"
    """A message is delivered within its lifetime or not at all, and never where it has expired."""
    AGREEMENT = "agreement"
    """What one node delivers, all nodes deliver that stay connected or come back in time."""


class Need(StrEnum):
    """What a protocol needs from the network to keep its promises."""

    RELIABLE_LINKS = "reliable links"
    """A frame sent over a link that stays up arrives."""
    FIFO_LINKS = "FIFO links"
    """Frames arrive in the order they were sent over the link, and where links are reliable, without a gap: of
    what was on its way when the link broke, a first part arrives."""
    STATIC_MEMBERS = "static membership"
    """Nodes do not crash, join or leave, and links stay."""
    COMPLETE_GRAPH = "complete graph"
    """Any two nodes have a link while both are up and no partition lies between them."""
    CELLS = "cells"
    """Stations joined by wires in a tree, and hosts in their cells; needs about links are about the wires."""
    CLOCKS = "clocks within clock_bound"
    """No two clocks differ by more than the protocol's `clock_bound`."""
