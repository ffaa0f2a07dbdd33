"""The files of a study's results.

findings.parquet, findings.csv   one row for each figure or statement of the paper, ours beside it
results.md                       the same as tables, in the paper's layout
figures/NAME.parquet             the points of a figure
manifest.json                    size, seeds, options, versions, and the time that all calls took together
"""

from __future__ import annotations

import json
import shlex
from functools import partial as bound
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq

from antecast.core.errors import OutputError
from antecast.history.manifest import git_revision, write_json, write_whole
from antecast.papers.findings import Results, as_table
from antecast.papers.job import Job
from antecast.papers.layout import markdown
from antecast.papers.paper import load_paper
from antecast.sim.identity import code_version
from antecast.version import __version__


def write_results(results: Results, folder: Path) -> None:
    """Write the results of a study into its folder, each file whole or not at all."""
    table = as_table(results.findings)
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        for name, points in results.figures.items():
            write_whole(folder / "figures" / f"{name}.parquet", bound(pq.write_table, points))
        write_whole(folder / "findings.parquet", lambda file: pq.write_table(table, file))
        write_whole(folder / "findings.csv", lambda file: pc.write_csv(table, file))
        page = markdown(load_paper(results.study), results)
        write_whole(folder / "results.md", lambda file: file.write_text(page, encoding="utf-8"))
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=folder) from error


def write_manifest(job: Job, *, seconds: float) -> None:
    """Say how the results were made. A call that continues another adds its time to the other's."""
    path = job.folder / "manifest.json"
    options = [word for name, value in job.options.items() for word in (f"--{name}", str(value))]
    seeds = [] if job.seeds is None else ["--seeds", str(job.seeds)]
    made = {
        "study": job.study,
        "command": shlex.join(["antecast", "reproduce", job.study, *["--quick"] * job.quick, *seeds, *options]),
        "quick": job.quick,
        "seeds": job.seeds,
        "options": dict(job.options),
        "version": __version__,
        "code": code_version(),
        "revision": git_revision(),
        "cores": job.spark.sparkContext.defaultParallelism if hasattr(job.spark, "sparkContext") else None,
    }
    before = read_manifest(job.folder)
    same = all(before.get(name) == made[name] for name in ("quick", "seeds", "options", "code"))
    write_json(path, made | {"seconds": round(seconds + (before.get("seconds", 0) if same else 0), 1)})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a study's folder; empty if it has none."""
    try:
        found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found
