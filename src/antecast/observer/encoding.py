"""Timestamps in bounded space: fields of just enough bits, r modulo δ + 2ε + 1.

A receiver whose clock is `now` knows that r lies in now − δ − ε … now + ε, and of the values there
exactly one has the remainder that was sent. Fields are packed without gaps, or each in bytes of its own
(`aligned`), as suits a small device: then r, c and two elements take the four bytes of "Approximate causal
observer" (section 6.5).
"""

from __future__ import annotations

from dataclasses import dataclass

from antecast.core.errors import LocalMisuse, MalformedFrame
from antecast.observer.bounds import Bounds
from antecast.observer.timestamps import Timestamp


@dataclass(frozen=True)
class Layout:
    """How a timestamp is laid out in bytes. Make one with `short`, `hybrid` or `whole`.

    >>> bounds = Bounds(epsilon=10, delta=10, nodes=10)
    >>> [Layout.short(bounds).bits, Layout.short(bounds, elements=2).bits, Layout.hybrid(bounds).bits]
    [53, 17, 16]
    >>> layout = Layout.hybrid(bounds)
    >>> wire = layout.encode(Timestamp(r=1_000_003, c=2, kn=(7,)))
    >>> len(wire), layout.decode(wire, now=1_000_012)
    (2, Timestamp(r=1000003, c=2, kn=(7,), before=None))
    """

    bounds: Bounds
    sizes: tuple[int, ...]
    """How many values each field can have: r modulo, c, elements, and last M − before if it is sent."""
    before: bool
    aligned: bool

    @classmethod
    def short(
        cls, bounds: Bounds, elements: int | None = None, *, before: bool = False, aligned: bool = False
    ) -> Layout:
        """The short form: kn[c] and what follows, all ε + 1 elements or some."""
        count = bounds.epsilon + 1 if elements is None else elements
        return cls._of(bounds, (_bound(bounds.most),) * count, before, aligned)

    @classmethod
    def hybrid(cls, bounds: Bounds, *, before: bool = False, aligned: bool = False) -> Layout:
        """A hybrid logical clock: one counter."""
        return cls._of(bounds, (_bound(bounds.most_hybrid),), before, aligned)

    @classmethod
    def whole(cls, bounds: Bounds, *, aligned: bool = False) -> Layout:
        """The long form of `published` by the cured rule: kn[−ε] … kn[ε]."""
        return cls._of(bounds, (_bound(bounds.most),) * (2 * bounds.epsilon + 1), False, aligned)

    @classmethod
    def _of(cls, bounds: Bounds, elements: tuple[int, ...], before: bool, aligned: bool) -> Layout:
        sizes = (bounds.modulus, bounds.epsilon + 1, *elements)
        return cls(bounds, (*sizes, _oldest(bounds) + 1) if before else sizes, before, aligned)

    @property
    def widths(self) -> list[int]:
        """Bits of each field."""
        bits = [(size - 1).bit_length() for size in self.sizes]
        return [(each + 7) // 8 * 8 for each in bits] if self.aligned else bits

    @property
    def bits(self) -> int:
        return sum(self.widths)

    @property
    def size(self) -> int:
        """Bytes of a timestamp."""
        return (self.bits + 7) // 8

    def encode(self, stamp: Timestamp) -> bytes:
        values = [stamp.r % self.bounds.modulus, stamp.c, *stamp.kn]
        if self.before:
            oldest = _oldest(self.bounds)
            values.append(oldest if stamp.before is None else min(stamp.latest - stamp.before, oldest))
        if len(values) != len(self.sizes):
            raise LocalMisuse(
                f"this layout takes {len(self.sizes) - 2 - self.before} elements, got {len(stamp.kn)}"
            )
        packed = 0
        for value, size, width in zip(values, self.sizes, self.widths, strict=True):
            if not 0 <= value < size:
                raise LocalMisuse(f"{stamp} does not fit: a field has {value}, expected 0 to {size - 1}")
            packed = packed << width | value
        return packed.to_bytes(self.size, "big")

    def decode(self, data: bytes, now: int) -> Timestamp:
        """The timestamp, for a receiver whose clock is `now`; refuses what no process can have sent."""
        if len(data) != self.size:
            raise MalformedFrame(f"expected a timestamp of {self.size} bytes, got {len(data)}")
        packed = int.from_bytes(data, "big")
        values = []
        for size, width in zip(reversed(self.sizes), reversed(self.widths), strict=True):
            value = packed & (1 << width) - 1
            if value >= size:
                raise MalformedFrame(f"a field of a timestamp has {value}, expected 0 to {size - 1}")
            values.append(value)
            packed >>= width
        if packed:
            raise MalformedFrame("bits are set that belong to no field of a timestamp")
        remainder, c, *rest = reversed(values)
        earliest = now - self.bounds.delta - self.bounds.epsilon
        r = earliest + (remainder - earliest) % self.bounds.modulus
        before = r + c - rest.pop() if self.before else None
        return Timestamp(r, c, tuple(rest), before)


def published_bits(bounds: Bounds) -> int:
    """Bits of ⟨r, c, kn⟩ by the bounds as printed, all too small: r modulo ε + δ + 1, c < ε, 2ε elements < n."""
    sizes = [bounds.epsilon + bounds.delta + 1, bounds.epsilon]
    sizes += [_bound(bounds.most) - 1] * (2 * bounds.epsilon)
    return sum((size - 1).bit_length() for size in sizes)


def _bound(most: int | None) -> int:
    if most is None:
        raise LocalMisuse("a bounded encoding needs the number of processes: Bounds(nodes=…)")
    return most + 1


def _oldest(bounds: Bounds) -> int:
    """The value of M − before from which it makes no difference: what was sent then has arrived or is lost."""
    return bounds.delta + 2 * bounds.epsilon + 1
