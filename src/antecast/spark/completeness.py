"""What a DataFrame tells about rows that it does not have: `antecast.history.completeness`, counted by Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from antecast.history.completeness import OWNERS, Completeness, Numbers, Who, check_dense, completeness_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def frame_completeness(
    events: DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    dense: Collection[str] | None = None,
    complete: Collection[object] | None = None,
) -> Completeness:
    """One row per node, and one per source, comes to the driver."""
    from pyspark.sql import functions as F  # noqa: N812

    check_dense(dense)
    columns, present = columns or {}, set(events.columns)

    def column(name: str) -> str:
        return "`" + columns.get(name, name).replace("`", "``") + "`"

    found: dict[str, Numbers] = {}
    nodes: set[object] = set()
    run = [column("run")] if columns.get("run", "run") in present else []
    for what, owner in OWNERS.items():
        if not {columns.get(what, what), columns.get(owner, owner)} <= present or not (
            dense is None or what in dense
        ):
            continue
        rows = events
        if what == "seq":
            rows = events.filter(
                F.col(column("kind")).cast("string") == (kinds or {}).get("broadcast", "broadcast")
            )
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
        span = numbers.spans[who]
        where = f"run {who[0]}, " if who[0] is not None else ""
        noun = "node" if numbers.what == "pos" else "source"
        return f"{where}{noun} {who[1]} has {span.count:,} of the numbers up to {span.high:,}"

    return completeness_of(found, nodes, gap, dense=dense, complete=complete)
