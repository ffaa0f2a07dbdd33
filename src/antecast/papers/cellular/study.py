"""The cellular paper's experiments: Figures 6 to 8, the heavier load and section V.D.

The runs are maps of the functions in `experiment`, one task per run, the longest first; their logs are measured
where they were made. How measures become findings is in `judgement`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from antecast.papers.cellular.experiment import (
    CALM,
    HEAVY,
    HOSTS,
    OUTSTANDING,
    STATIONS,
    STRUCK,
    WALKING,
    evaluate,
    footprint,
    outstanding,
)
from antecast.papers.cellular.judgement import (
    ACKNOWLEDGEMENTS,
    CELLULAR,
    TCP,
    TCP_HEAVY,
    Data,
    Rows,
    estimate,
    findings,
    settings,
)
from antecast.papers.findings import Results
from antecast.papers.job import Job, Point
from antecast.papers.layout import figure_file

OPTIONS: dict[str, str] = {}

RATES = {TCP: (CALM, TCP_HEAVY, 15.0), CELLULAR: (50.0, HEAVY, WALKING, 15.0, CALM)}
QUICK_RATES = {TCP: (CALM, TCP_HEAVY), CELLULAR: (HEAVY, WALKING, CALM)}
"""Broadcasts per second under which hosts that stand still are looked at."""
SECONDS, QUICK_SECONDS = 300, 75
FAULTS, QUICK_FAULTS = 8, 5
SIZES = (35, 70, 140)


def study(job: Job) -> Results:
    seeds = range(1, job.runs(quick=3, full=6) + 1)
    seconds, struck, rates = (QUICK_SECONDS, QUICK_FAULTS, QUICK_RATES) if job.quick else (SECONDS, FAULTS, RATES)
    still = [
        _point(name, rate, SECONDS if rate == CALM else seconds) for name, every in rates.items() for rate in every
    ]
    timed = (HEAVY,) if job.quick else (HEAVY, CALM)
    data = Data(
        still=_runs(job, "still", still, seeds),
        walking=_runs(job, "walking", [_point(CELLULAR, WALKING, seconds, walks=True)], seeds),
        struck=_runs(job, "faults", [_point(CELLULAR, WALKING, _until(struck), walks=True, struck=struck)], seeds),
        outstanding=_outstanding(job, seeds),
        measured=_runs(job, "measured", [_point(CELLULAR, rate, seconds, measured=True) for rate in timed], seeds),
        footprints=job.map("footprint", footprint, [{"hosts": size, "seed": 1} for size in SIZES]).to_pylist(),
    )
    notes = [
        f"Means over {len(seeds)} runs of each setting, with other places of hosts in each: {STATIONS} stations,"
        f" {HOSTS} hosts, {seconds} s of simulated time, {_until(struck)} s with faults; the paper does not say"
        f" how long its runs were. Those at {CALM:g} broadcasts per second have {SECONDS} s in any size, since the"
        " delays of TCP flooding grow with time.",
        "The radio is IEEE 802.11b at 2 Mb/s: its bit rate, preamble, headers and backoff, capture at 4 dB. The"
        " paper names the range, the wires and the size of a message only. The distance between stations, 150 m,"
        " is a fit to the paper's delays.",
        "Times to a retransmission are the paper's, which fall from 1 s to 200 ms as the window fills. The"
        " protocol's default, times that follow measured round trips, is under Timers, and compared with nothing.",
        "Messages sent are frames on the radio; those on the wires between stations are shown apart.",
        "What TCP flooding has not delivered half a minute after the last broadcast is counted, and in no mean.",
    ]
    if job.quick:
        notes.append(f"The quick size has fewer and shorter runs, {struck} faults, and fewer loads.")
    return Results(
        study="cellular",
        findings=findings(data),
        figures={figure_file(item): pa.Table.from_pylist(list(rows)) for item, rows in _points(data).items()},
        notes=notes,
    )


def _until(count: int) -> int:
    """How long a run with so many faults is: all of them, and half a minute for the last."""
    return 15 + 30 * count


def _point(
    protocol: str, rate: float, seconds: int, *, walks: bool = False, struck: int = 0, measured: bool = False
) -> dict[str, Any]:
    every = {"protocol": protocol, "rate": rate, "seconds": seconds, "walks": walks, "struck": struck}
    return every | ({"measured": True} if measured else {})


def _outstanding(job: Job, seeds: range) -> Rows:
    """Faults that leave as many messages as the paper says a station can send at once, twice and four times as
    many; with fewer seeds, since a cell that has become unstable is slow to run."""
    times = (2, 1) if job.quick else (4, 2, 1)
    points = [
        {"messages": messages, "named": named, "seed": seed}
        for messages in (each * OUTSTANDING for each in times)
        for named in ACKNOWLEDGEMENTS
        for seed in seeds[: 1 if job.quick else 3]
    ]
    rows: Rows = job.map("outstanding", outstanding, points).to_pylist()
    return rows


def _runs(job: Job, name: str, points: list[dict[str, Any]], seeds: range) -> Rows:
    every: list[Point] = [point | {"seed": seed} for point in points for seed in seeds]
    rows: Rows = job.map(name, evaluate, every).to_pylist()
    return rows


# The points of the figures.


def _points(data: Data) -> dict[str, Iterator[dict[str, Any]]]:
    return {
        "Fig. 6": _static(data),
        "Heavy load": _loads(data),
        "Fig. 7": _dynamic(data),
        "Fig. 8": _faults(data),
        "Limit": _aftermaths(data),
        "Memory": _footprints(data),
        "Delays": _distributions(data),
    }


_METRICS = {
    "station": "messages kept by a station",
    "host": "early messages at a host",
    "bytes": "bytes sent per second",
    "ratio": "messages sent per delivery, so far",
}


def _static(data: Data) -> Iterator[dict[str, Any]]:
    """One run of each protocol; the axis is logarithmic, so seconds in which there was nothing are left out."""
    for key, metric in _METRICS.items():
        for name in (CELLULAR, TCP):
            values = data.of(name, CALM)[0]["series"][key]
            for t, value in enumerate(values):
                if value > 0:
                    yield {"metric": metric, "protocol": name, "t": t, "value": float(value)}


def _loads(data: Data) -> Iterator[dict[str, Any]]:
    for name in (CELLULAR, TCP):
        for rate in data.rates(name):
            found = estimate(data.of(name, rate), "delay", "mean")
            low = found.mean if found.low is None else max(found.low, found.mean / 10)  # the axis is logarithmic
            high = found.mean if found.high is None else found.high
            yield {"protocol": name, "rate": rate, "delay": found.mean, "low": low, "high": high}


def _dynamic(data: Data) -> Iterator[dict[str, Any]]:
    for key in ("station", "host"):
        for name, rows in (("walking", data.walking), ("standing", data.of(CELLULAR, WALKING))):
            for t, value in enumerate(rows[0]["series"][key]):
                yield {"metric": _METRICS[key], "hosts": name, "t": t, "value": value}


def _faults(data: Data) -> Iterator[dict[str, Any]]:
    series = data.struck[0]["series"]
    for t, value in enumerate(series["station"]):
        yield {"panel": "(a) mean of all stations", "station": "mean", "t": t, "value": value}
    for index, values in enumerate(series["stations"]):
        name = f"{index}, struck" if index == STRUCK else str(index)
        for t, value in enumerate(values):
            yield {"panel": "(b) each station", "station": name, "t": t, "value": value}


def _aftermaths(data: Data) -> Iterator[dict[str, Any]]:
    """Of the first run of each."""
    seen = set()
    for row in data.outstanding:
        words = ACKNOWLEDGEMENTS[row["named"]]
        if (row["messages"], words) not in seen:
            seen.add((row["messages"], words))
            for second, value in enumerate(row["series"]):
                place = f"{row['messages']} messages"
                yield {"outstanding": place, "acknowledgements": words, "seconds": second, "kept": value}


def _footprints(data: Data) -> Iterator[dict[str, Any]]:
    for size in sorted({row["hosts"] for row in data.footprints}):
        rows = [row for row in data.footprints if row["hosts"] == size]
        records = estimate(rows, "records").mean
        yield {"what": "records", "hosts": size, "value": records}
        yield {"what": "numbers in them", "hosts": size, "value": records * estimate(rows, "numbers").mean}


def _distributions(data: Data) -> Iterator[dict[str, Any]]:
    for name, rows in settings(data).items():
        for seconds, share in rows[0]["delay"]["curve"]:
            if seconds > 0:  # the axis is logarithmic
                yield {"setting": name, "seconds": seconds, "share": share}
