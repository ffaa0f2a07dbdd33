"""Buffers over time on the page of a sweep: each gauge, its mean over nodes and runs, by the values of a field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from antecast.history.measure import STEPS
from antecast.history.parts import Parts
from antecast.history.store import Store
from antecast.reporting import figures
from antecast.reporting.folders import Beside
from antecast.reporting.order import by_size
from antecast.reporting.page import Block, Chart, Section, Text
from antecast.reporting.plot import SMALL, Axis
from antecast.reporting.sweep_charts import SERIES, Row, key_of
from antecast.reporting.units import time_for
from antecast.text.wording import listed, number, plural

MOST_RUNS = 48
"""Runs that are read for the page, spread evenly over the grid: a page should not take as long as a sweep."""

BUFFERS = pa.schema(
    [
        ("parameter", pa.string()),
        ("value", pa.string()),
        ("gauge", pa.string()),
        ("seconds", pa.float64()),
        ("mean", pa.float64()),
        ("runs", pa.int64()),
    ]
)


def buffers_section(
    store: Store, rows: Sequence[Row], column: str, fields: Mapping[str, str], beside: Beside
) -> Section | None:
    """The section; None if the sweep has no samples. `column` is the field whose values make the lines."""
    parts = Parts(store).refresh()
    ended = [row for row in rows if row["run"] in parts.of and row["ended_ns"]]
    if not ended:
        return None
    chosen = [
        ended[at] for at in sorted({*np.linspace(0, len(ended) - 1, MOST_RUNS).round().astype(int).tolist()})
    ]
    values = by_size({key_of(row[column]) if column else "" for row in chosen})[:SERIES]
    width = -(-(max(row["ended_ns"] for row in chosen) + 1) // STEPS)
    sums: dict[tuple[str, str], np.ndarray[Any, Any]] = {}
    for row in chosen:
        value = key_of(row[column]) if column else ""
        if value in values:
            samples = parts.read(row["run"], "samples", ["t", "gauge", "value"])
            for gauge, total in _totals(samples, width).items():
                sums[gauge, value] = sums.get((gauge, value), np.zeros((2, STEPS))) + total
    points = [
        {
            "parameter": fields.get(column, ""),
            "value": value,
            "gauge": gauge,
            "seconds": step * width / 1e9,
            "mean": total / count,
            "runs": sum((key_of(row[column]) if column else "") == value for row in chosen),
        }
        for (gauge, value), (totals, counts) in sorted(sums.items())
        for step, (total, count) in enumerate(zip(totals, counts, strict=True))
        if count
    ]
    where = beside.write("buffers", pa.Table.from_pylist(points, schema=BUFFERS))
    blocks = _charts(points, column, fields, where)
    if not blocks:
        return None
    text = "Entries at a node, the mean over all nodes and runs."
    if len(chosen) < len(ended):
        text += f" Cut: {plural(len(chosen), 'run')} of {len(ended):,}, spread over the grid."
    return Section("Buffers over time", [Text(text), *blocks])


def _totals(samples: pa.Table, width: int) -> dict[str, np.ndarray[Any, Any]]:
    """For each gauge the sum and the number of its values in each step of time."""
    steps = np.minimum(samples["t"].to_numpy() // width, STEPS - 1)
    amounts = samples["value"].to_numpy().astype(float)
    encoded = samples["gauge"].cast(pa.string()).combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    found = {}
    for code, gauge in enumerate(encoded.dictionary.to_pylist()):
        own = codes == code
        sums = np.bincount(steps[own], weights=amounts[own], minlength=STEPS)
        found[gauge] = np.stack([sums, np.bincount(steps[own], minlength=STEPS).astype(float)])
    return found


def _charts(points: Sequence[Row], column: str, fields: Mapping[str, str], where: str) -> list[Block]:
    unit = time_for(1e9 * point["seconds"] for point in points)
    blocks: list[Block] = []
    for gauge in dict.fromkeys(point["gauge"] for point in points):
        own = [
            dict(point) | {"at": unit.of(1e9 * point["seconds"])} for point in points if point["gauge"] == gauge
        ]
        most = max(own, key=lambda point: float(point["mean"]))
        if not most["mean"]:
            continue  # empty all the time
        plot = figures.curves(
            own,
            figures.time_axis(f"simulated time ({unit.sign})", [point["at"] for point in own]),
            Axis(title="entries at a node"),
            ("at", "mean"),
            series="value" if column else "",
            series_title=fields.get(column, ""),
            height=SMALL,
        )
        name = gauge.replace("_", " ")
        with_ = f" with {fields[column]} {most['value']}" if column else ""
        words = f"{name.capitalize()}: at most {number(most['mean'])} at a node on average{with_}.{_alike(own)}"
        blocks.append(Chart(name, [plot], words, f"Data: {where}.", small=True))
    return blocks


def _alike(points: Sequence[Mapping[str, Any]]) -> str:
    """Which values have the same curve: the last one drawn hides the others."""
    curves: dict[Any, list[tuple[float, float]]] = {}
    for point in points:
        curves.setdefault(point["value"], []).append((point["at"], point["mean"]))
    same: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for value, curve in curves.items():
        same.setdefault(tuple(curve), []).append(str(value))
    hidden = [listed(values) for values in same.values() if len(values) > 1]
    return "".join(f" The curves of {each} are the same." for each in hidden)
