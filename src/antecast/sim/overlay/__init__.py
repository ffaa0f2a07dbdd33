"""Overlays: who is linked with whom, decided by the processes themselves while a run goes on.

`overlay` is the seam with the engine, `views` the arcs that processes hold, `spray` the peer-sampling
protocol. The kernels (`flooding`, `snapshots`) are for networks that are too large for one object a process.
"""

from antecast.sim.overlay.make import make_overlay
from antecast.sim.overlay.overlay import Network, Overlay, WatchedHost

__all__ = ["Network", "Overlay", "WatchedHost", "make_overlay"]
