"""What a DataFrame tells about rows that it does not have: `antecast.history.completeness`, counted by Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from antecast.history.completeness import (
    OWNERS,
    Completeness,
    Numbers,
    Who,
    check_dense,
    completeness_of,
    gap_words,
)
from antecast.history.log_kinds import alike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORDS = 10_000
"""Kinds that are looked at."""


def frame_completeness(
    events: DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    dense: Collection[str] | None = None,
    complete: Collection[object] | None = None,
    look: Collection[str] = tuple(OWNERS),
    named: Mapping[str, str] | None = None,
) -> Completeness:
    """One row per node and one per source come to the driver, and the numbers of the few that are told.

    `named` are the kinds that a person has named, where the frame has our words for them already.
    """
    from pyspark.sql import functions as F  # noqa: N812

    check_dense(dense)
    columns, present = columns or {}, set(events.columns)

    def column(name: str) -> str:
        return "`" + columns.get(name, name).replace("`", "``") + "`"

    word = (kinds or {}).get("broadcast", "broadcast")
    broadcasts = events.filter(F.col(column("kind")).cast("string") == word)
    found: dict[str, Numbers] = {}
    nodes: set[object] = set()
    run = [column("run")] if columns.get("run", "run") in present else []
    for what, owner in OWNERS.items():
        wanted = what in (look if dense is None else dense)
        if not wanted or not {columns.get(what, what), columns.get(owner, owner)} <= present:
            continue
        rows = broadcasts if what == "seq" else events
        keys = [
            F.col(each).alias(name)
            for each, name in zip([*run, column(owner)], ["r", "o"][-len(run) - 1 :], strict=True)
        ]
        number = F.col(column(what)).cast("long")
        ranges = rows.groupBy(*keys).agg(
            F.min(number).alias("a"), F.max(number).alias("b"), F.count(number).alias("n")
        )
        numbers = found[what] = Numbers(what, owner)
        for row in ranges.collect():
            if row["n"]:
                numbers.put((row["r"] if run else None, row["o"]), row["a"], row["b"], row["n"])
    if complete is not None:
        nodes = {row[0] for row in events.select(F.col(column("node"))).distinct().collect()}

    def gap(numbers: Numbers, who: Who) -> str:
        mine = F.col(column(numbers.owner)).eqNullSafe(F.lit(who[1]))
        if run:
            mine = mine & F.col(run[0]).eqNullSafe(F.lit(who[0]))
        rows = broadcasts if numbers.what == "seq" else events
        number = F.col(column(numbers.what)).cast("long").alias("number")
        values = rows.filter(mine & number.isNotNull()).select(number).distinct().toArrow().column("number")
        return gap_words(numbers, who, values.to_numpy())

    words = events.select(F.col(column("kind")).cast("string").alias("kind")).distinct().limit(_WORDS).collect()
    odd = alike((row["kind"] for row in words if row["kind"] is not None), named or kinds or {})
    return completeness_of(found, nodes, gap, dense=dense, complete=complete, odd=odd)
