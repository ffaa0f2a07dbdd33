"""Overlays too large for one object per process: the same runs, over arrays, in compiled loops.

Two functions, both with the random streams of the reference, so that runs agree to the nanosecond:

- `simulate` runs a scenario of `pc-broadcast` over `spray`, for up to a million processes while their overlay
  changes (`simulation`; what it returns is in `results`, what it refuses in `checks`);
- `flood` follows one broadcast over an overlay that stands still, a `Snapshot` of millions of processes
  (`flooding`, `snapshots`).

To read the engine, begin with `arrays`: it names every array, what its rows are and how numbers are packed.
`kernel` is the loop over events; `connecting` has frames, connections and ping phases, `exchanging` views and
exchanges, `broadcasts` the workload. Where processes come and go, `syncing` has syncs and newcomers, `churning`
what happens to the overlay, `remembering` whom a process has lost. The queue, random numbers and delays are those
of all compiled engines (`sim.compiled`).
"""

from antecast.sim.overlay.compiled.flooding import NEVER, Flood, flood
from antecast.sim.overlay.compiled.results import OverlayRun, Paths, Sample
from antecast.sim.overlay.compiled.simulation import simulate
from antecast.sim.overlay.compiled.snapshots import Snapshot, spray_snapshot

__all__ = ["NEVER", "Flood", "OverlayRun", "Paths", "Sample", "Snapshot", "flood", "simulate", "spray_snapshot"]
