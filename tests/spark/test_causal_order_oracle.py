"""Order by explicit dependencies against another implementation of it, on histories without any manners.

Rows may need rows that come later, never, or themselves, and the same twice; circles; ids and needs that are null;
one id many times, with other needs each time, before and after it was given up or forgotten; bounds of one row.
"""

import random
import sys
from pathlib import Path

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from antecast.spark.causal_order_group import NeedsGroup, State, digests

sys.path.insert(0, str(Path(__file__).parent))
from needs_oracle import Oracle

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("needs", pa.list_(pa.int64())),
        ("at", pa.int64()),
        ("body", pa.string()),
        ("when", pa.timestamp("ms", "UTC")),
    ]
)


@st.composite
def histories(draw):
    """Micro-batches: how much time has passed, and rows."""
    names = st.integers(0, draw(st.integers(1, 12)))
    needs = st.none() | st.lists(names, max_size=5) | st.lists(st.none() | names, max_size=3)
    times = st.none() | st.integers(1, 99)
    rows = draw(st.lists(st.tuples(st.none() | names, needs, times), max_size=20))
    whole = [
        {"id": own, "needs": each, "at": at, "body": f"{at}", "when": when}
        for at, (own, each, when) in enumerate(rows)
    ]
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    batches = [whole[low:high] for low, high in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    return [(draw(st.sampled_from([0, 1, 2, 5, 50])), batch) for batch in batches]


settings = st.fixed_dictionaries(
    {
        "most": st.sampled_from([1, 2, 3, 1000]),
        "remember": st.sampled_from([1, 2, 5, 1000]),
        "give_up": st.sampled_from(["release", "quarantine"]),
        "late": st.sampled_from(["deliver", "refuse"]),
        "wait": st.sampled_from([None, 8, 40]),
    }
)


@given(histories(), settings, st.booleans(), st.integers(0, 99))
@example([(0, [{"id": n, "needs": [1 - n, 7], "at": n, "body": f"{n}"} for n in (0, 1)])], {"most": 1}, False, 0)
def test_each_step_gives_what_it_gives_row_by_row(batches, settings, event, seed):
    """With `event` the time that passes is that of a watermark."""
    how = NeedsGroup(
        **{"key": ("k",), "id": "id", "needs": "needs", "arrival": "at", "wait": None, "remember": 1000}
        | {"give_up": "release", "late": "deliver", "event": "when" if event else None}
        | settings
    )
    oracle = Oracle(**settings, rank=lambda name: digests([name])[0])
    state, real = State.load(None), 0
    for turn, (passed, rows) in enumerate([*batches, (0, [])]):
        flush = turn == len(batches)
        real += passed
        if event:
            oracle.now(real)
        elif turn:
            oracle.clock += passed if how.wait is None else min(passed, max(1, how.wait // 4))
        mixed = random.Random(seed).sample(rows, len(rows))  # as a shuffle may bring them, in two pieces
        pieces = [mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]]
        tables = [pa.Table.from_pylist(piece, SCHEMA) for piece in pieces if piece]
        done = how.step(State.load(state.dump()), tables, real=real, flush=flush)
        state = done.state
        before = len(oracle.left)
        oracle.step(rows if event else [{**row, "when": None} for row in rows], flush=flush)
        found = [] if done.out is None else done.out.to_pylist()
        expected = [(row["body"], *rest) for row, *rest in oracle.left[before:]]
        left = [tuple(row[name] for name in ("body", "position", "late", "reason", "missing")) for row in found]
        assert [each for each in left if each[1] is not None] == [each for each in expected if each[1] is not None]
        assert sorted(map(str, left)) == sorted(map(str, expected))
        assert state.waiting == len(oracle.waiting)
    assert state.waiting == 0
