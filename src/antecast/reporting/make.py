"""The page of whatever a folder holds."""

from __future__ import annotations

from pathlib import Path

from antecast.core.errors import ConfigurationError
from antecast.history.parts import Parts
from antecast.history.store import Store
from antecast.history.verdict import Verdict
from antecast.reporting.page import Page


def make_page(
    folder: Path, subject: str, *, message: str | None = None, verdict: Verdict | None = None, judge: bool = True
) -> Page:
    """The page of what a folder holds. For a run: the message to draw, and its verdict if there is one already."""
    if subject == "comparison":
        from antecast.comparison.stored import read_comparison
        from antecast.reporting.compare import compare_page

        comparison, origin = read_comparison(folder)
        return compare_page(comparison, network=origin.network, command=origin.command)
    if subject == "sweep":
        from antecast.reporting.sweep import sweep_page

        return sweep_page(folder)
    if subject == "audit":
        from antecast.reporting.audit import audit_page

        return audit_page(folder)
    if subject == "reproduction":
        from antecast.reporting.study import rebuild

        return rebuild(folder)
    from antecast.reporting.run import run_page

    return run_page(folder, message=message, verdict=verdict, judge=judge)


def run_of(store: Store, run: str) -> str:
    """The name of a run of a sweep; the beginning is enough if it is unique."""
    found = sorted(each for each in Parts(store).refresh().of if each.startswith(run)) if run else []
    if len(found) == 1:
        return found[0]
    if store.exists(f"failed/{run}.json"):
        raise ConfigurationError(f"run {run} failed; {store.where(f'failed/{run}.json')} says why", field="--run")
    problem = f"{len(found)} runs begin with {run!r}" if found else f"no run {run!r} in {store.where()}"
    raise ConfigurationError(f"{problem}; runs.parquet lists them", field="--run")


def taken_out(folder: Path, run: str) -> Path:
    """The folder of a run of a sweep, taken out of its part."""
    name = run_of(Store(folder), run)
    return Parts(Store(folder)).refresh().extract(name, folder / "runs" / name)
