"""Overlays: who is linked with whom, decided by the processes themselves while a run goes on.

- `overlay` is the seam with the engine: an `Overlay` decides, a `Network` is what it may ask of its run.
- `views` are the arcs that processes hold, and the connections that arcs need.
- `spray` is the peer-sampling protocol: joins, exchanges, loans. `memory` is how it finds again whom it has lost.
- `make` says which overlay a scenario asks for.
- `compiled` makes the same runs over arrays, for networks that are too large for one object per process.
"""

from antecast.sim.overlay.make import make_overlay
from antecast.sim.overlay.overlay import Network, Overlay, WatchedHost

__all__ = ["Network", "Overlay", "WatchedHost", "make_overlay"]
