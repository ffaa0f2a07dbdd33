"""The search for the radio of each network of the barrier paper: bandwidth and set-up time.

    python -m antecast.papers.barrier.fit [--seed SEED] [buses | pedestrians]

The paper does not describe its radio, and its latencies follow the radio. So two figures of it are fitted to half
of what the paper prints (the settings that `paper.toml` lists as `fitted`), on a network that the study does not
use; the other half judges. The misfit of a radio is the mean of |log(ours / paper)| over the fitted figures: how
many times they are off, whichever way. Ratios near 1 count by their complement.

The search is a pattern search on a lattice. It begins with a radio in its middle, looks four steps up and down in
each direction, goes to the best point it has seen, and halves the steps when none is better. There is no chance in
it: the same seed finds the same radio.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.settings import Duration
from antecast.papers.barrier.experiment import NETWORKS, PEDESTRIANS, Network, Radio, scenario
from antecast.papers.barrier.measured_run import Figures, measured_run, with_radio
from antecast.papers.paper import Paper, load_paper
from antecast.sim.mobility.pedestrians import Pedestrians, pedestrians
from antecast.traces.contact_detection import find_contacts
from antecast.traces.presence import presence

BANDWIDTHS = (10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000)
"""kb/s."""
SETUPS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30)
"""Seconds."""
SEED = 101
"""The study has 1 to 5."""
_WALKED = 3600 * 10**9
"""An hour of pedestrians will do: most of them are there for a few minutes."""
_NOTHING = 1e-6
"""Stands for a share or a time of zero, which has no logarithm."""

Point: TypeAlias = tuple[int, int]
"""Indices of a bandwidth and a set-up time."""


@dataclass(frozen=True)
class Fitted:
    """A figure that the radio is fitted to."""

    quantity: str
    lifetime: str
    paper: float

    def off(self, found: Figures) -> float:
        """|log(ours / paper)|."""
        ours = found[self.quantity] or 0.0
        if self.quantity == "co-delivery ratio":
            return abs(log(max(1 - ours, _NOTHING) / (1 - self.paper)))
        return abs(log(max(ours, _NOTHING) / self.paper))


def fitted(paper: Paper, network: Network) -> list[Fitted]:
    """The figures of a network that `paper.toml` gives to the fit."""
    return [
        Fitted(name, lifetime, value)
        for item in (network.counts, network.delays)
        for name, quantity in paper.items[item].quantities.items()
        for lifetime in quantity.fitted
        if (value := paper.value(item, name, lifetime)) is not None
    ]


def search(misfit: Callable[[Point], float], start: Point, sizes: Point) -> tuple[Point, dict[Point, float]]:
    """The best point of a lattice that a pattern search finds, and all that it has looked at."""
    seen = {start: misfit(start)}
    best, step = start, 4
    while step:
        for near in _around(best, step, sizes):
            if near not in seen:
                seen[near] = misfit(near)
        found = min(seen, key=lambda point: (seen[point], point))
        best, step = (found, step) if found != best else (best, step // 2)
    return best, seen


def _around(point: Point, step: int, sizes: Point) -> Iterator[Point]:
    for axis in (0, 1):
        for sign in (-1, 1):
            moved = list(point)
            moved[axis] = min(max(moved[axis] + sign * step, 0), sizes[axis] - 1)
            if tuple(moved) != point:
                yield moved[0], moved[1]


def radio_at(point: Point) -> Radio:
    return Radio(f"{BANDWIDTHS[point[0]]}kb/s", f"{SETUPS[point[1]]}s")


def movement(network: Network, seed: int) -> pa.Table:
    """Movement to fit on: that of the study with another seed, and pedestrians for an hour only."""
    if network is not PEDESTRIANS:
        return network.generate(seed)
    whole = Pedestrians()
    walkers = whole.walkers * _WALKED / whole.duration
    return pedestrians(seed, Pedestrians(duration=Duration(_WALKED), walkers=walkers))


def fit(
    network: Network, moved: pa.Table, figures: Sequence[Fitted], say: Callable[[str], None]
) -> tuple[Radio, float]:
    """The radio whose runs on this movement come nearest to the figures, and its misfit; says what it looks at."""
    wanted = {each.lifetime for each in figures}
    lifetimes = [lifetime for lifetime in network.lifetimes if lifetime in wanted]
    with TemporaryDirectory() as folder:
        files = Path(folder) / "contacts.parquet", Path(folder) / "presence.parquet"
        pq.write_table(find_contacts(moved, network.reach), files[0])
        pq.write_table(presence(moved), files[1])

        def misfit(point: Point) -> float:
            radio, found = radio_at(point), {}
            for lifetime in lifetimes:
                values = scenario(network, lifetime, str(files[0]), str(files[1]))
                found[lifetime] = measured_run(with_radio(values, radio), lifetime, audited=False)
            off = fmean(each.off(found[each.lifetime]) for each in figures)
            shown = "; ".join(_shown(lifetime, found[lifetime]) for lifetime in lifetimes)
            say(f"{network.name} {radio.bandwidth:>8} {radio.setup:>4}  misfit {off:.3f}  {shown}")
            return off

        start = BANDWIDTHS.index(300), SETUPS.index(2)
        best, seen = search(misfit, start, (len(BANDWIDTHS), len(SETUPS)))
    radio = radio_at(best)
    say(f"{network.name}: {radio.bandwidth}, {radio.setup}; misfit {seen[best]:.3f}, the least of {len(seen)}")
    return radio, seen[best]


def _shown(lifetime: str, found: Figures) -> str:
    names = ("tdelay, avg", "ltcy, avg", "ltcy, stdev", "ltcy, max", "co-delivery ratio")
    return f"{lifetime} " + " ".join(f"{found[name] or 0:.4g}" for name in names)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Fit the radio of the barrier study's networks.")
    names = [each.name for each in NETWORKS]
    parser.add_argument("network", nargs="?", choices=names, help="default: both")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the network to fit on (default: {SEED})")
    options = parser.parse_args(arguments)
    for network in NETWORKS:
        if options.network in (None, network.name):
            figures = fitted(load_paper("barrier"), network)
            fit(network, movement(network, options.seed), figures, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
