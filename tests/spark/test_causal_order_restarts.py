"""Random histories of many groups through the streaming engine, which is stopped, restarted, and made to run a
micro-batch again, against the oracle of one group."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from antecast.spark import causal_order
from antecast.spark.causal_order_group import digests

sys.path.insert(0, str(Path(__file__).parent))
from needs_oracle import Oracle

pytestmark = pytest.mark.spark

SCHEMA = "k string, j long, id string, needs array<string>, at long, body map<string, array<string>>"
COLUMNS = ("at", "position", "late", "reason", "missing")


def history(draw: random.Random) -> list[dict[str, Any]]:
    """Rows of a group: needs that never come, circles, null, the same id again."""
    names = [str(each) for each in range(draw.randint(2, 10))]
    return [
        {
            "id": draw.choice([*names, None]) if draw.random() < 0.2 else draw.choice(names),
            "needs": draw.choice([None, [draw.choice(names) for _ in range(draw.choice([0, 0, 1, 2, 4]))]]),
            "body": {"x": ["y", None]},
        }
        for _ in range(draw.randint(1, 12))
    ]


@pytest.mark.parametrize(
    ("seed", "bounds"),
    [
        (1, {"most": 2, "remember": 2, "give_up": "release", "late": "refuse"}),
        (2, {"most": 1000, "remember": 1000, "give_up": "quarantine", "late": "deliver"}),
    ],
)
def test_whatever_is_run_again_each_row_leaves_once_and_as_the_oracle_says(
    spark: Any, tmp_path: Path, seed: int, bounds: dict[str, Any]
) -> None:
    draw = random.Random(seed)
    keys = list(dict.fromkeys((draw.choice([None, "", f"k{n}"]), draw.choice([None, 0, n])) for n in range(30)))
    batches: list[list[dict[str, Any]]] = [[] for _ in range(4)]
    for k, j in keys:
        rows = history(draw)
        for row, batch in zip(rows, sorted(draw.randrange(len(batches)) for _ in rows), strict=True):
            batches[batch].append({"k": k, "j": j, **row})
    for at, row in enumerate(row for batch in batches for row in batch):
        row["at"] = at
    oracles = {key: Oracle(**bounds, rank=lambda name: digests([name])[0]) for key in keys}
    for batch in batches:
        for key, oracle in oracles.items():
            if mine := [row for row in batch if (row["k"], row["j"]) == key]:
                oracle.step(mine)
    for oracle in oracles.values():
        oracle.step([], flush=True)

    source, drains, state = tmp_path / "in", tmp_path / "drains", tmp_path / "state"
    source.mkdir()
    drains.mkdir()

    def run() -> None:
        spark.conf.set("spark.sql.shuffle.partitions", str(draw.choice([1, 2, 3])))  # the first one stays
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
        emptied = spark.readStream.schema("k string, j long").json(str(drains))
        options = {"id": "id", "needs": "needs", "key": ("k", "j"), "arrival": "at", "drains": emptied}
        writer = causal_order(stream, **options, **bounds).writeStream.format("parquet")
        query = writer.option("checkpointLocation", str(state)).trigger(availableNow=True)
        query.start(str(tmp_path / "out")).awaitTermination()

    def write(file: Path, rows: list[dict[str, Any]], number: int) -> None:
        hidden = file.with_name(f".{file.name}")
        hidden.write_text("".join(json.dumps(row) + "\n" for row in draw.sample(rows, len(rows))))
        os.utime(hidden, (1000 + number, 1000 + number))
        hidden.rename(file)

    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for number, batch in enumerate(batches):
            write(source / f"{number}.json", batch, number)
            if number % 2:
                run()
                last = max(int(each.name) for each in (state / "commits").glob("[0-9]*"))
                for name in (f"{last}", f".{last}.crc"):  # as if it had died before it could note the end
                    (state / "commits" / name).unlink(missing_ok=True)
        write(drains / "0.json", [{"k": k, "j": j} for k, j in keys], 0)
        run()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    found = [tuple(row[name] for name in COLUMNS) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    expected = [(row["at"], *rest) for oracle in oracles.values() for row, *rest in oracle.left]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
