"""Which overlay a scenario asks for."""

from __future__ import annotations

from antecast.sim.overlay.overlay import Network, Overlay
from antecast.sim.overlay.spray import SprayOverlay
from antecast.sim.topology import Spray, Topology


def make_overlay(topology: Topology, n: int, seed: int, until: int, network: Network) -> Overlay | None:
    """The overlay of a topology, or None where links only follow the scenario."""
    if isinstance(topology, Spray):
        return SprayOverlay(topology, n, seed, until, network)
    return None
