"""Names as numbers and back: what a plain dictionary of Python objects would say."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.names import UNKNOWN, Name, Names, Nodes

numbers = st.one_of(st.integers(-4, 4), st.sampled_from([-(2**63), 2**63 - 1, 2**62]))
texts = st.sampled_from(["", "a", "b", "é", "z", "\U0001f600", "￿", "10", "9"])
columns = st.one_of(st.lists(numbers, max_size=8), st.lists(texts, max_size=8))


def as_array(values: list[object], *, encoded: bool) -> pa.Array:
    array = pa.array(values, pa.string() if values and isinstance(values[0], str) else pa.int64())
    return array.dictionary_encode() if encoded else array


@given(st.lists(st.tuples(columns, st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3)), max_size=6))
def test_codes_are_those_of_a_dictionary_whatever_columns_hold(
    batches: list[tuple[list[object], ...]],
) -> None:
    nodes, known = Nodes(), dict[Name, int]()
    for values, encoded, add, with_runs, first in batches:
        runs = [None if not with_runs else f"run {(first + i) % 3}" for i in range(len(values))]
        column = None if not with_runs else as_array(list(runs), encoded=not encoded)
        found = nodes.encode(column, as_array(values, encoded=bool(encoded)), add=bool(add))
        names = [Name(run, value) for run, value in zip(runs, values, strict=True)]
        if add:
            for name in names:
                known.setdefault(name, len(known))
            # Which of the new names of a batch comes first is not said; all of them have numbers.
            assert sorted(set(found.tolist())) == sorted({known[name] for name in names})
            known.update(zip(names, found.tolist(), strict=True))
        assert found.tolist() == [known.get(name, UNKNOWN) for name in names]
    assert len(nodes) == len(known)
    assert [nodes.names[code] for code in range(len(nodes))] == sorted(known, key=lambda name: known[name])
    for name, code in known.items():
        assert nodes.code(name) == code
    assert nodes.code(Name("no", "such")) == UNKNOWN
    again = pickle.loads(pickle.dumps(nodes.copy()))
    assert again.codes(nodes.names).tolist() == list(range(len(nodes)))
    order = nodes.names.order()
    assert [nodes.names[place] for place in order] == sorted(known, key=lambda name: name.rank)
    gathered = Names.gather([nodes.names.take(order), nodes.names[: len(nodes) // 2]])
    assert list(gathered) == [nodes.names[place] for place in [*order, *range(len(nodes) // 2)]]


def test_numbers_beyond_64_bits_are_names_too() -> None:
    nodes = Nodes()
    column = pa.array([2**64 - 1, 5, 2**63], pa.uint64())
    codes = nodes.encode(None, column, add=True)
    assert [nodes.names[code].node for code in codes] == [2**64 - 1, 5, 2**63]
    assert nodes.encode(None, pa.array([5], pa.int32())) == codes[1]


def test_a_million_names_find_their_numbers_again() -> None:
    values = np.random.default_rng(1).permutation(1 << 20) * 7919
    nodes = Nodes()
    codes = nodes.encode(None, pa.array(values), add=True)
    assert np.array_equal(nodes.encode(None, pa.array(values[::-1])), codes[::-1])
    assert np.array_equal(nodes.names.nodes[codes], values)
