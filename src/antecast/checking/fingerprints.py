"""Fingerprints: 64 bits for a world, by what is in it and not by the numbers that a process has given to that.

Each entry of a world contributes a number made from its place and its content by a hash; the fingerprint is the
sum of them. What a renaming of the nodes makes of the entry contributes to another sum. All these sums are lanes
of one long integer, so one addition per entry serves every renaming, and no image of a world is ever made. The
smallest lane is the fingerprint: the same for all worlds that differ only in the numbers of nodes, in any
process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from operator import getitem
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecast.checking.symmetry import Renaming
    from antecast.checking.world import World, Worlds

LANE = 128
"""Bits of a lane. The sum of the entries of a world, 64 bits each, stays below that."""

_LOW = (1 << 64) - 1


class Contents:
    """What the numbers in a world stand for, as bytes that are the same in every process."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    def state(self, number: int) -> bytes:
        return self._worlds.machine.digests[number]

    def record(self, number: int) -> bytes:
        delivered, covered, pasts, discarded = self._worlds.records.values[number]
        past = [(self._names(bit), self._names(before)) for bit, before in pasts]
        return repr((self._names(delivered), self._names(covered), past, self._names(discarded))).encode()

    def _names(self, bits: int) -> list[tuple[int, int]]:
        names = self._worlds.machine.messages
        return sorted((n.origin, n.seq) for place, n in enumerate(names) if bits >> place & 1)

    def link(self, number: int) -> bytes:
        link, data = self._worlds.wires.values[number], self._worlds.machine.frame_bytes
        lives = [
            (life[:3], [data[frame] for frame in life.to_low], [data[frame] for frame in life.to_high])
            for life in link.lives
        ]
        return repr((link.belongs, lives)).encode()

    def value(self, number: int) -> bytes:
        return repr(self._worlds.values[number]).encode()

    def air(self, number: int) -> bytes:
        data = self._worlds.machine.frame_bytes
        return repr([(to, by, data[frame]) for to, by, frame in self._worlds.values[number]]).encode()


class _Entry(dict[int, int]):
    """What each number at one place of a world contributes, worked out when it first occurs."""

    def __init__(self, images: Sequence[Callable[[int], tuple[int, bytes]]]) -> None:
        self._images = images

    def __missing__(self, number: int) -> int:
        lanes = 0
        for lane, image in enumerate(self._images):
            place, content = image(number)
            digest = blake2b(content, digest_size=8, salt=place.to_bytes(2, "little")).digest()
            lanes |= int.from_bytes(digest, "little") << (LANE * lane)
        self[number] = lanes
        return lanes


class Fingerprints:
    """The fingerprints of the worlds of a check, under some renamings."""

    def __init__(self, worlds: Worlds, renamings: Sequence[Renaming] = ()) -> None:
        self._lanes = 1 + len(renamings)
        self._bytes = self._lanes * LANE // 8
        contents, n = Contents(worlds), worlds.n
        images: list[list[Callable[[int], tuple[int, bytes]]]] = [[] for _ in range(worlds.NOW + 1)]
        for renaming in (None, *renamings):
            for node in range(n):
                self._of_node(images, contents, n, node, renaming)
            for pair, place in worlds.links.items():
                images[place].append(_link(contents, place, pair, renaming, worlds))
            images[worlds.CELLS].append(_at(worlds.CELLS, contents.value))
            images[worlds.AIR].append(_at(worlds.AIR, contents.air))
            images[worlds.BUDGET].append(_at(worlds.BUDGET, contents.value))
            images[worlds.NOW].append(_at(worlds.NOW, lambda now: repr(now).encode()))
        self._entries = [_Entry(each) for each in images]

    @staticmethod
    def _of_node(
        images: list[list[Callable[[int], tuple[int, bytes]]]],
        contents: Contents,
        n: int,
        node: int,
        renaming: Renaming | None,
    ) -> None:
        if renaming is None:
            images[node].append(_at(node, contents.state))
            images[n + node].append(_at(n + node, contents.record))
            images[2 * n + node].append(_at(2 * n + node, contents.value))
            return
        to, same = renaming.nodes[node], renaming
        images[node].append(_at(to, lambda number: contents.state(same.state(number))))
        images[n + node].append(_at(n + to, lambda number: contents.record(same.record(number))))
        images[2 * n + node].append(_at(2 * n + to, lambda number: contents.value(same.timers(node, number))))

    def of(self, world: World) -> int:
        total = sum(map(getitem, self._entries, world))
        if self._lanes == 1:
            return total & _LOW
        return min(memoryview(total.to_bytes(self._bytes, "little")).cast("Q")[::2].tolist())


def _at(place: int, content: Callable[[int], bytes]) -> Callable[[int], tuple[int, bytes]]:
    return lambda number: (place, content(number))


def _link(
    contents: Contents, place: int, pair: tuple[int, int], renaming: Renaming | None, worlds: Worlds
) -> Callable[[int], tuple[int, bytes]]:
    if renaming is None:
        return _at(place, contents.link)
    low, high = (renaming.nodes[node] for node in pair)
    to = worlds.links[min(low, high), max(low, high)]
    return _at(to, lambda number: contents.link(renaming.link(number, low > high)))
