"""The VCube paper's experiments: Tables 1 to 3 and Figures 1 and 6 to 11, under two models of its network.

The runs are maps of the functions in `experiment`, one task per network. Each figure has our value under the
`calibrated` model, which is a fit, and under the `literal` one; what the paper shows for one size is compared at
that size.
"""

from __future__ import annotations

from antecast.papers.findings import Results
from antecast.papers.job import Job
from antecast.papers.layout import figure_file
from antecast.papers.vcube.data import LARGE, RATES, Data, Rows, curves, load_curves
from antecast.papers.vcube.experiment import MODELS, PAYLOAD, SIZES, compare, load, variant
from antecast.papers.vcube.judgement import findings
from antecast.sim.compiled.choice import prepare

OPTIONS: dict[str, str] = {}

_QUICK = (8, 16, 32, 64, 128, 256)


def study(job: Job) -> Results:
    sizes = _QUICK if job.quick else SIZES
    seeds = range(1, job.runs(quick=3, full=30) + 1)
    data = Data(tuple(sizes), _compared(job, sizes, seeds), _variants(job, sizes, seeds))
    nodes = 32 if job.quick else 128
    loads = _loads(job, nodes, range(1, min(len(seeds), 5) + 1))
    notes = [
        f"Means over {len(seeds)} runs of each size and model; a unit of time is a millisecond.",
        "calibrated: a node broadcasts at U(0, 300) + U(0, 300), propagation is normal with mean 100 and standard"
        " deviation 35.4, a packet takes 1 unit to send. It is a fit to Tables 1 and 2 and Figure 6.",
        "literal: a node broadcasts after an exponential time of mean 1000, propagation is normal with mean 100"
        " and standard deviation 25, processing and sending take 1 unit each.",
        "Packet sizes are the paper's count: 20 bytes, and for each message its data and 4 for each entry of its"
        " clock. Packets are split by their real encoding, which is some 5 bytes per message larger.",
        "Messages in Fig. 1 are not aggregated; those in the single tree of Fig. 11 are, as in the paper.",
    ]
    if job.quick:
        notes.append(f"The quick size ends at {sizes[-1]} nodes; Fig. 1 has {nodes}.")
    figures = {"Fig. 1": load_curves(loads)} | curves(data)
    return Results(
        study="vcube",
        findings=list(findings(data, loads, nodes)),
        figures={figure_file(item): table for item, table in figures.items()},
        notes=notes,
    )


def warm_up() -> None:
    """Compile what the runs use."""
    prepare("vcube")


# Runs, the longest first.


def _compared(job: Job, sizes: tuple[int, ...], seeds: range) -> Rows:
    points = [
        {"nodes": size, "model": model, "seed": seed}
        for size in reversed(sizes)
        for model in MODELS
        for seed in seeds
    ]
    rows: Rows = job.map("compare", compare, points, engines=["vcube"]).to_pylist()
    return rows


def _variants(job: Job, sizes: tuple[int, ...], seeds: range) -> Rows:
    """The single tree at all sizes, and small messages at the largest."""
    chosen = [(size, "vcube-single", PAYLOAD) for size in reversed(sizes)]
    chosen += [(LARGE, "vcube", 5)] * (LARGE in sizes)
    points = [
        {"nodes": size, "model": "calibrated", "seed": seed, "name": name, "payload": payload}
        for size, name, payload in chosen
        for seed in seeds
    ]
    rows: Rows = job.map("variants", variant, points, engines=["vcube"]).to_pylist()
    return rows


def _loads(job: Job, nodes: int, seeds: range) -> Rows:
    points = [
        {"nodes": nodes, "rate": rate, "name": name, "seed": seed}
        for rate in reversed(RATES)
        for name in ("vcube", "vcube-single")
        for seed in seeds
    ]
    rows: Rows = job.map("load", load, points, engines=["vcube"]).to_pylist()
    return rows
