"""Reports of sweeps in object stores: made beside a copy of what they read, and then put where the sweep lies."""

from __future__ import annotations

import tempfile
from pathlib import Path

from antecast.core.errors import InputError
from antecast.history.parts import Parts
from antecast.history.store import Store
from antecast.reporting.folders import REPORT
from antecast.reporting.make import run_of
from antecast.reporting.page import write
from antecast.reporting.run import run_page
from antecast.reporting.sweep import sweep_page


def report_in_store(store: Store, *, run: str | None = None, message: str | None = None) -> str:
    """Write the page of a sweep, or of one of its runs, into its store; where it is."""
    with tempfile.TemporaryDirectory(prefix="antecast-") as scratch:
        folder = Path(scratch)
        if run is not None:
            name = run_of(store, run)
            page = run_page(Parts(store).refresh().extract(name, folder), message=message)
            store = store / f"runs/{name}"
        else:
            for file in ("study.json", "runs.parquet"):
                try:
                    store.download(file, folder / file)
                except FileNotFoundError:
                    problem = "no such file; a sweep that has ended has one"
                    raise InputError(problem, path=store.where(file)) from None
            page = sweep_page(folder, store)
        write(page, folder / REPORT)
        for path in (*folder.glob("report/*.parquet"), folder / REPORT):
            store.upload(path.relative_to(folder).as_posix(), path)
    return store.where(REPORT)
