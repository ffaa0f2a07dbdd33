"""Reports: one HTML file of whatever a command left behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from antecast.api.given import PathLike
from antecast.core.arguments import check_path, check_text, unexpected
from antecast.core.errors import ConfigurationError, LocalMisuse

if TYPE_CHECKING:
    from antecast.sim.run import RunResult


def report(
    folder: PathLike | RunResult,
    *,
    out: PathLike | None = None,
    message: str | None = None,
    run: str | None = None,
) -> Path | str:
    """Write the report of a run, a sweep, a comparison, an audit or a reproduction: one HTML file. Its path.

    A sweep in an object store, such as `s3://bucket/loss`, gets its report there.

    Given the file of a counterexample of `antecast check`, its steps are shown; the page lies beside it.
    `message` draws another message and its causal past, such as `"49.1"`; `run` names one run of a sweep.
    """
    from antecast.reporting.folders import REPORT, subject_of
    from antecast.reporting.make import make_page, taken_out
    from antecast.reporting.page import write
    from antecast.sim.run import RunResult

    check_path("out", out)
    check_text(message=message, run=run)
    if isinstance(folder, RunResult):
        if folder.folder is None:
            raise LocalMisuse("this run was kept in memory; a report needs its folder: run(scenario, out=FOLDER)")
        folder = folder.folder
    if not isinstance(folder, Path | str):
        raise unexpected("folder", folder, "the path of a folder, or a RunResult that has one")
    check_path("folder", folder)
    from antecast.history.store import Store

    store = Store(folder)
    if store.local is None:
        from antecast.reporting.remote import report_in_store

        if out is not None:
            raise ConfigurationError("the report of a sweep in a store lies beside it", field="--out")
        return report_in_store(store, run=run, message=message)
    place = Path(folder) if isinstance(folder, Path) or "://" not in folder else store.local
    if place.is_file() and place.suffix == ".json":
        from antecast.checking.counterexample import read_counterexample
        from antecast.reporting.counterexample import counterexample_page

        for option, value in (("--message", message), ("--run", run)):
            if value is not None:
                raise ConfigurationError(f"does not apply to a counterexample, which {place} is", field=option)
        path = place.with_suffix(".html") if out is None else Path(out)
        write(counterexample_page(read_counterexample(place), place), path)
        return path
    subject = subject_of(place)
    if run is not None:
        if subject not in ("sweep", "comparison"):
            raise ConfigurationError(f"is an option for sweeps; {place} holds a {subject}", field="--run")
        place, subject = taken_out(place, run), "run"
    if message is not None and subject != "run":
        hint = "; name a run of it with --run" if subject in ("sweep", "comparison") else ""
        held = f"{'an' if subject == 'audit' else 'a'} {subject}{hint}"
        raise ConfigurationError(f"is an option for runs; {place} holds {held}", field="--message")
    path = place / REPORT if out is None else Path(out)
    write(make_page(place, subject, message=message), path)
    return path
