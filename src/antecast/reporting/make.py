"""The page of whatever a folder holds."""

from __future__ import annotations

from pathlib import Path

from antecast.core.errors import ConfigurationError
from antecast.history.verdict import Verdict
from antecast.reporting.page import Page


def make_page(
    folder: Path, subject: str, *, message: str | None = None, verdict: Verdict | None = None, judge: bool = True
) -> Page:
    """The page of a folder's subject. For a run: of which message, with a verdict if there is one already."""
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


def run_of(folder: Path, run: str) -> Path:
    """The folder of a run of a sweep; the beginning of its name will do, if no other begins so."""
    found = sorted(each for each in (folder / "runs").iterdir() if each.name.startswith(run)) if run else []
    if len(found) == 1:
        return found[0]
    if (folder / "failed" / f"{run}.json").is_file():
        raise ConfigurationError(f"run {run} failed; {folder / 'failed' / f'{run}.json'} says why", field="--run")
    problem = f"{len(found)} runs begin with {run!r}" if found else f"no run {run!r} in {folder / 'runs'}"
    raise ConfigurationError(f"{problem}; runs.parquet lists them", field="--run")
