"""Snapshots of overlays: who is linked with whom at an instant, as arrays.

Built from pairs, from a scenario's topology, or, where a process can no longer be an object, by compiled kernels:
`spray_snapshot` makes the very views that `views.first_views` makes, for a million processes in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.sim.compiled.draws import Whole, below, child, mix, uniform
from antecast.sim.streams import stream_key
from antecast.sim.topology import Spray


@dataclass(frozen=True)
class Snapshot:
    """Links out of process p are `targets[offsets[p]:offsets[p + 1]]`, in ascending order."""

    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]
    usable: NDArray[np.bool_] | None = None
    """Which links may be used, such as those that are safe. Default: all."""

    @property
    def nodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def links(self) -> int:
        """Links, each direction counted."""
        return len(self.targets)

    @classmethod
    def of(cls, nodes: int, pairs: Iterable[tuple[int, int]] | NDArray[np.int64]) -> Snapshot:
        """Of connections, given in any order; each counts once, and both ways.

        >>> Snapshot.of(3, [(0, 1), (2, 1), (1, 0)]).targets.tolist()
        [1, 0, 2, 1]
        """
        rows = np.asarray(pairs if isinstance(pairs, np.ndarray) else list(pairs), np.int64).reshape(-1, 2)
        low, high = rows.min(axis=1), rows.max(axis=1)
        return cls._of_keys(nodes, low[low != high], high[low != high])

    @classmethod
    def _of_keys(cls, nodes: int, a: NDArray[np.int64], b: NDArray[np.int64]) -> Snapshot:
        keys = np.concatenate([(a << 32) | b, (b << 32) | a])
        keys.sort()
        if len(keys):
            keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
        offsets = np.zeros(nodes + 1, np.int64)
        np.cumsum(np.bincount(keys >> 32, minlength=nodes), out=offsets[1:])
        return cls(offsets, (keys & 0xFFFFFFFF).astype(np.int32))


def spray_snapshot(topology: Spray, nodes: int, seed: int) -> Snapshot:
    """The connections of an overlay at its start."""
    peers, _, sizes, _ = spray_views(topology, nodes, seed)
    owners = np.repeat(np.arange(nodes, dtype=np.int64), sizes)
    held = np.arange(peers.shape[1])[None, :] < sizes[:, None]
    others = peers[held].astype(np.int64)
    return Snapshot._of_keys(nodes, owners, others)


def spray_views(
    topology: Spray, nodes: int, seed: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Peers and ages of the arcs of each process, how many it has, and how often it has drawn."""
    keys = [np.uint64(stream_key(seed, purpose)) for purpose in ("spray", "spray/join", "spray/start")]
    width = 32
    while True:  # until all views fit
        # Nobody has more arcs than there are others; larger numbers would not fit into the kernel's integers.
        arcs = -1.0 if topology.arcs is None else min(topology.arcs, float(nodes))
        views = _spray_views(nodes, min(topology.core, nodes), arcs, topology.settle, width, *keys)
        if views[2][0] >= 0:
            return views
        width += width // 2


@compiled
def _spray_views(
    n: int,
    core: int,
    arcs: float,
    settle: int,
    width: int,
    exchange_key: np.uint64,
    join_key: np.uint64,
    start_key: np.uint64,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """`first_views` over arrays. The first size is -1 if a view did not fit into `width`."""
    peers = np.zeros((n, width), np.int32)
    ages = np.zeros((n, width), np.int32)
    sizes = np.zeros(n, np.int32)
    drawn = np.zeros(n, np.int64)
    failed = sizes.copy()
    failed[0] = -1
    one = np.uint64(1)
    q: Whole
    p: Whole
    # Of one exchange: the arcs still to choose from, on each side which were chosen, and what becomes of them.
    left = np.empty(width, np.int32)
    taken = np.zeros((2, width), np.bool_)
    moved = np.empty((2, width, 2), np.int32)

    first = n
    if arcs < 0.0:
        first = core
        for p in range(core):
            for q in range(core):
                if q != p:
                    if sizes[p] == width:
                        return peers, ages, failed, drawn
                    peers[p, sizes[p]] = q
                    sizes[p] += 1
    else:
        for p in range(n):
            key = child(start_key, p)
            counter = one
            wanted: Whole = np.int64(arcs)
            if uniform(mix(key, counter)) < arcs - np.float64(wanted):
                wanted += 1
            wanted = min(n - 1, wanted)
            if wanted > width:
                return peers, ages, failed, drawn
            while sizes[p] < wanted:
                counter += one
                q = below(mix(key, counter), n - 1)
                q += q >= p
                known = False
                for at in range(sizes[p]):
                    known = known or peers[p, at] == q
                if not known:
                    peers[p, sizes[p]] = q
                    sizes[p] += 1

    # Joins, each followed by an exchange of the newcomer's and one of a random process; then whole rounds.
    for step in range(2 * first, 2 * n + settle * n):
        newcomer: Whole = step // 2
        p = newcomer if step < 2 * n else (step - 2 * n) % n
        if step < 2 * n and step % 2 == 1:
            p = below(mix(child(join_key, newcomer), np.uint64(2)), newcomer + 1)
        elif step < 2 * n:
            contact = below(mix(child(join_key, p), one), p)
            for at in range(sizes[contact]):
                x = peers[contact, at]
                if sizes[x] == width:
                    return peers, ages, failed, drawn
                peers[x, sizes[x]], ages[x, sizes[x]] = p, 0
                sizes[x] += 1
            if sizes[contact] == 0:
                peers[contact, 0], ages[contact, 0] = p, 0
                sizes[contact] = 1
            peers[p, 0], ages[p, 0], sizes[p] = contact, 0, 1
        if sizes[p] == 0:
            continue
        partner = 0
        for at in range(sizes[p]):
            ages[p, at] += 1
            if ages[p, at] > ages[p, partner]:
                partner = at
        q = np.int64(peers[p, partner])
        for side in range(2):
            who, other = (p, q) if side == 0 else (q, p)
            count = 0
            for at in range(sizes[who]):
                taken[side, at] = False
                if side == 1 or at != partner:
                    left[count] = at
                    count += 1
            half: Whole = (sizes[who] + 1) // 2 - (1 - side)
            key = child(exchange_key, who)
            for k in range(min(half, count)):
                drawn[who] += 1
                pick = below(mix(key, np.uint64(drawn[who])), count)
                at = left[pick]
                taken[side, at] = True
                turned = peers[who, at] == other
                moved[side, k, 0] = who if turned else peers[who, at]
                moved[side, k, 1] = 0 if turned else ages[who, at]
                count -= 1
                left[pick] = left[count]
        given, got = (sizes[p] + 1) // 2 - 1, (sizes[q] + 1) // 2
        given = min(given, sizes[p] - 1)
        got = min(got, sizes[q])
        if sizes[p] - 1 - given + got > width or sizes[q] - got + 1 + given > width:
            return peers, ages, failed, drawn
        for side in range(2):
            who = p if side == 0 else q
            kept = 0
            for at in range(sizes[who]):
                if not taken[side, at] and (side == 1 or at != partner):
                    peers[who, kept], ages[who, kept] = peers[who, at], ages[who, at]
                    kept += 1
            if side == 1:
                peers[who, kept], ages[who, kept] = p, 0
                kept += 1
            for k in range(got if side == 0 else given):
                peers[who, kept], ages[who, kept] = moved[1 - side, k, 0], moved[1 - side, k, 1]
                kept += 1
            sizes[who] = kept
    return peers, ages, sizes, drawn
