"""Names of nodes as numbers, and back: columns for a million of them, an object only where somebody asks for one.

A node is named by (run, node); logs without a `run` column have run None. Python takes a microsecond to look at a
name, which is more than all the rest of an audit takes for an event. So names stay in arrays: whole numbers as
they are, runs and texts as numbers of the distinct ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.history.rows import IntArray, LongArray

UNKNOWN = -1
"""The number of a message whose broadcast is not in the log, and the code of a node never heard of."""

_RUN_BITS = 33
"""A key has the number of the run above so many bits, and below them that of the value and what kind it is of."""


class Name(NamedTuple):
    """A node as the user knows it."""

    run: object
    node: object

    @property
    def rank(self) -> tuple[object, ...]:
        """A key to sort names by: run by run, and as Arrow sorts where names are of one type."""
        return type(self.run).__name__, self.run, type(self.node).__name__, self.node


class Names(Sequence[Name]):
    """Names in columns: the runs that occur, the number of each name's run, and the nodes (numbers or objects)."""

    def __init__(self, runs: Sequence[object], run: IntArray, nodes: NDArray[Any]) -> None:
        self.runs = runs
        self.run = run
        self.nodes = nodes

    @classmethod
    def of(cls, names: Iterable[Name]) -> Names:
        return names if isinstance(names, Names) else Nodes(names).names

    def __len__(self) -> int:
        return len(self.run)

    @overload
    def __getitem__(self, place: int) -> Name: ...
    @overload
    def __getitem__(self, place: slice) -> Names: ...
    def __getitem__(self, place: int | slice) -> Name | Names:
        if isinstance(place, slice):
            return Names(self.runs, self.run[place], self.nodes[place])
        node = self.nodes[place]
        return Name(self.runs[self.run[place]], node.item() if isinstance(node, np.integer) else node)

    def __iter__(self) -> Iterator[Name]:
        for run, node in zip(self.run.tolist(), self.nodes.tolist(), strict=True):
            yield Name(self.runs[run], node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def take(self, rows: Sequence[int] | NDArray[np.integer]) -> Names:
        """The names in some places."""
        places = np.asarray(rows, np.int64)
        return Names(self.runs, self.run[places], self.nodes[places])

    @classmethod
    def gather(cls, parts: Sequence[Names]) -> Names:
        """The names of all parts."""
        if len(parts) == 1:
            return parts[0]
        runs: dict[object, int] = {}
        run, nodes = [np.empty(0, np.int32)], []
        for part in parts:
            number = np.array([runs.setdefault(each, len(runs)) for each in part.runs], np.int32)
            run.append(number[part.run] if len(number) else part.run)
            nodes.append(part.nodes)
        return cls(list(runs), np.concatenate(run), np.concatenate(nodes) if nodes else np.empty(0, np.int64))

    def order(self) -> LongArray:
        """Where the names stand when they are sorted by rank."""
        by_rank = sorted(range(len(self.runs)), key=lambda each: Name(None, self.runs[each]).rank)
        run = np.empty(len(by_rank), np.int32)
        run[by_rank] = np.arange(len(by_rank))
        if self.nodes.dtype == np.int64:
            return np.lexsort((self.nodes, run[self.run]))
        if len(self) and all(isinstance(each, str) for each in self.nodes):
            rank = pc.rank(pa.array(self.nodes.tolist()), tiebreaker="dense")  # UTF-8 sorts as texts do
            return np.lexsort((rank.to_numpy(), run[self.run]))
        return np.array(sorted(range(len(self)), key=lambda place: self[place].rank), np.int64)


class Nodes:
    """Dense codes for nodes, in the order in which they were met."""

    def __init__(self, names: Iterable[Name] = ()) -> None:
        self._runs: dict[object, int] = {}
        self._texts: dict[object, int] = {}
        """What is no number of 64 bits: texts, hardly anything else."""
        self._numbers = _Table()
        self._keys = _Table()
        """Of the run and the node together; a key's place is the code."""
        self._named: Names | None = None
        if isinstance(names, Names):
            self.codes(names, add=True)
        else:
            for name in names:
                self.code(name, add=True)

    def __len__(self) -> int:
        return len(self._keys)

    def copy(self) -> Nodes:
        other = Nodes()
        other._runs, other._texts = dict(self._runs), dict(self._texts)
        other._numbers, other._keys = self._numbers.copy(), self._keys.copy()
        return other

    @property
    def names(self) -> Names:
        """All names by code."""
        if self._named is None or len(self._named) != len(self):
            self._named = self._in_columns()
        return self._named

    def _in_columns(self) -> Names:
        keys = self._keys.values
        value = keys & ((1 << _RUN_BITS) - 1)
        is_text, value = (value & 1).astype(np.bool_), value >> 1
        if not is_text.any():
            nodes: NDArray[Any] = self._numbers.values[value]
        else:
            nodes = np.empty(len(keys), object)
            nodes[is_text] = np.array([*self._texts, None], object)[value[is_text]]
            nodes[~is_text] = self._numbers.values[value[~is_text]].tolist()
        return Names(list(self._runs), (keys >> _RUN_BITS).astype(np.int32), nodes)

    def code(self, name: Name, *, add: bool = False) -> int:
        value = name.node
        whole = isinstance(value, int | np.integer) and -(2**63) <= value < 2**63
        nodes = np.empty(1, np.int64 if whole else object)
        nodes[0] = value
        return int(self._encode([name.run], np.zeros(1, np.int32), nodes, add=add)[0])

    def codes(self, names: Names, *, add: bool = False) -> IntArray:
        """Codes of many names."""
        return self._encode(names.runs, names.run, names.nodes, add=add)

    def encode(self, runs: pa.Array | None, values: pa.Array, *, add: bool = False) -> IntArray:
        """Codes of a whole column; each distinct name of the batch is looked up once."""
        codes, words = _factorised(values)
        run_words: list[object] = [None]
        keys: IntArray | LongArray = codes
        if runs is not None:
            run_codes, run_column = _factorised(runs)
            run_words = run_column.to_pylist()
            if len(run_words) > 1:
                keys = run_codes.astype(np.int64) * len(words) + codes
        slots = len(words) * len(run_words)
        if slots <= len(keys):
            used = places = np.flatnonzero(np.bincount(keys))
        else:  # too many to count: a hash table in C++, several times faster than a sort
            encoded = pa.array(keys).dictionary_encode()
            keys, used = encoded.indices.to_numpy(), encoded.dictionary.to_numpy()
            slots, places = len(used), np.arange(len(used))
        lookup = np.zeros(slots, np.int32)
        word, run = used % max(1, len(words)), (used // max(1, len(words))).astype(np.int32)
        lookup[places] = self._encode(run_words, run, _as_numpy(words, word), add=add)
        return lookup[keys]

    def _encode(self, runs: Sequence[object], run: IntArray, nodes: NDArray[Any], *, add: bool) -> IntArray:
        """Codes of names in columns; those of no run that is used are not added either."""
        numbers = np.full(len(runs), UNKNOWN, np.int64)
        for each in np.flatnonzero(np.bincount(run, minlength=len(runs))).tolist():
            known = len(self._runs) if add else UNKNOWN
            numbers[each] = self._runs.setdefault(runs[each], known) if add else self._runs.get(runs[each], known)
        if nodes.dtype == np.int64:
            value = self._numbers.encode(nodes, add=add).astype(np.int64) << 1
        else:
            value = np.array([self._value(each, add=add) for each in nodes.tolist()], np.int64)
        number = numbers[run]
        missing = (number < 0) | (value < 0)
        return self._keys.encode(np.where(missing, UNKNOWN, number << _RUN_BITS | value), add=add)

    def _value(self, value: object, *, add: bool) -> int:
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return int(self._numbers.encode(np.array([value], np.int64), add=add)[0]) << 1
        known = self._texts.setdefault(value, len(self._texts)) if add else self._texts.get(value, UNKNOWN)
        return known << 1 | 1 if known >= 0 else UNKNOWN


def _factorised(column: pa.Array) -> tuple[IntArray, pa.Array]:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes: IntArray = column.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return codes, column.dictionary


def _as_numpy(words: pa.Array, chosen: NDArray[np.integer]) -> NDArray[Any]:
    """Some of the words: as numbers of 64 bits if they are, else as objects."""
    if pa.types.is_integer(words.type):
        try:
            numbers: LongArray = words.cast(pa.int64()).to_numpy(zero_copy_only=False)[chosen]
            return numbers
        except pa.ArrowInvalid:
            pass  # beyond 2^63
    found = np.empty(len(chosen), object)
    found[:] = words.take(pa.array(chosen)).to_pylist()
    return found


class _Table:
    """Whole numbers, each with its place in the order in which they came: a hash table in arrays."""

    def __init__(self) -> None:
        self._held = np.empty(16, np.int64)
        self._slots = np.full(64, -1, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> LongArray:
        return self._held[: self._count]

    def copy(self) -> _Table:
        other = _Table()
        other._held, other._slots, other._count = self._held.copy(), self._slots.copy(), self._count
        return other

    def encode(self, values: LongArray, *, add: bool) -> IntArray:
        """The places of numbers, UNKNOWN for those that are not there."""
        places = np.empty(len(values), np.int32)
        most = self._count + len(values) if add else 0
        if most > len(self._held):
            self._held = np.concatenate((self.values, np.empty(2 * most - self._count, np.int64)))
        if 2 * most > len(self._slots):
            self._slots = np.full(1 << (2 * most).bit_length(), UNKNOWN, np.int32)
            _intern(self.values.copy(), self._slots, self._held, 0, True, places[:0])
        self._count = _intern(values, self._slots, self._held, self._count, add, places)
        return places


@compiled
def _intern(values: LongArray, slots: IntArray, held: LongArray, count: int, add: bool, places: IntArray) -> int:
    """Look numbers up, and add those that are new; how many there are then. `places` may be too short for all."""
    mask = len(slots) - 1
    for i in range(len(values)):
        hashed = np.uint64(values[i]) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64(hashed >> np.uint64(32)) & mask
        while slots[slot] >= 0 and held[slots[slot]] != values[i]:
            slot = (slot + 1) & mask
        if slots[slot] < 0 and add:
            slots[slot] = count
            held[count] = values[i]
            count += 1
        if i < len(places):
            places[i] = slots[slot]
    return count
