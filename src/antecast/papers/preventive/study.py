"""The PC-broadcast paper's experiments: Table 1 as measured costs, Figure 7, and floods over a million processes.

The runs are maps of the functions in `experiment`, one task per run; they use compiled engines that a test holds
to the reference event by event. Processes that a message does not reach are counted and never averaged in.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from antecast.papers.findings import Results
from antecast.papers.job import Job
from antecast.papers.layout import figure_file
from antecast.papers.preventive.experiment import costs, large, overlay
from antecast.papers.preventive.judgement import curves, growth_of_costs, larger_overlays, slower_links

OPTIONS: dict[str, str] = {}

_SMALLEST_OVERLAY: dict[str, Any] = {"processes": 20, "seconds": 10, "sources": 1, "seed": 1}
_SMALLEST_FLOOD: dict[str, Any] = {"processes": 100, "arcs": 7.5, "seed": 1}
"""Runs that use all kernels of the others."""


def warm_up() -> None:
    """Compile what the runs use."""
    overlay(**_SMALLEST_OVERLAY)
    large(**_SMALLEST_FLOOD)


def study(job: Job) -> Results:
    quick = job.quick
    seeds = range(1, job.runs(quick=2, full=5) + 1)
    sizes = (1_000,) if quick else (1_000, 10_000)
    seconds, sources = (300, 5) if quick else (600, 20)
    runs = job.map(
        "overlay",
        overlay,
        [
            {"processes": size, "seconds": seconds, "sources": sources, "seed": seed}
            for size in reversed(sizes)
            for seed in seeds
        ],
        smallest=_SMALLEST_OVERLAY,
    ).to_pylist()
    larger = (100_000,) if quick else (100_000, 1_000_000)
    floods = job.map(
        "large",
        large,
        [{"processes": size, "arcs": 7.5, "seed": seed} for size in reversed(larger) for seed in seeds],
        smallest=_SMALLEST_FLOOD,
    ).to_pylist()
    counts = (10, 100, 1_000) if quick else (10, 100, 1_000, 10_000)
    networks = [
        {"protocol": protocol, "sources": count, "waiting": 100}
        for protocol in ("vector", "fifo", "pc-broadcast")
        for count in counts
    ]
    measured = job.map("costs", costs, networks).to_pylist()
    missed = sum(row["missed_pc"] + row["missed_r"] for row in runs)
    notes = [
        f"Means over {len(seeds)} overlays of each size, {seconds} s long; a process exchanges once per minute.",
        f"Messages that did not reach some process: {missed} times; counted, and in no mean.",
        "A process here keeps the links it gives away until their successors are safe: it lends them. Paths are"
        " those of Spray as published, without the links that are only lent; messages used all of them.",
        "Local space counts counters. With FIFO links and forwarding the paper keeps names of delivered messages"
        " until they can be purged; `fifo` keeps one counter per source instead.",
        "The path lengths beside ours are those of the authors' simulator, which had 16.75 links per process.",
    ]
    if quick:
        notes.append("The quick size has 1,000 processes, and 100,000 for a single broadcast.")
    findings = [*growth_of_costs(measured), *slower_links(runs, sizes), *larger_overlays(floods, larger)]
    points = pa.Table.from_pylist(list(curves(runs, sizes)))
    return Results(study="preventive", findings=findings, figures={figure_file("Fig. 7"): points}, notes=notes)
