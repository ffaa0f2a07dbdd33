"""The files of a study's results.

findings.parquet, findings.csv   one row for each figure or statement of the paper, ours beside it
results.md                       the same as tables, in the paper's layout
figures/NAME.parquet             the points of a figure
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as bound
from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq

from antecast.core.errors import OutputError
from antecast.studies.findings import Results, as_table
from antecast.studies.layout import markdown
from antecast.studies.paper import load_paper


def write_results(results: Results, folder: Path) -> None:
    """Write the results of a study into its folder, each file whole or not at all."""
    table = as_table(results.findings)
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        for name, points in results.figures.items():
            _whole(folder / "figures" / f"{name}.parquet", bound(pq.write_table, points))
        _whole(folder / "findings.parquet", lambda file: pq.write_table(table, file))
        _whole(folder / "findings.csv", lambda file: pc.write_csv(table, file))
        page = markdown(load_paper(results.study), results)
        _whole(folder / "results.md", lambda file: file.write_text(page, encoding="utf-8"))
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=folder) from error


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    partial = path.with_name(f".{path.name}.partial")
    write(partial)
    partial.replace(path)
