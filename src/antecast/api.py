"""The calls of the public interface: what the command line does, from Python.

Each takes what people have at hand (a path, plain values, an object made before) and says what it expects when it
gets something else. Nothing heavy is imported before it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from antecast.core.arguments import (
    check_amount,
    check_count,
    check_function,
    check_path,
    check_switch,
    check_text,
    check_texts,
    unexpected,
)
from antecast.core.errors import ConfigurationError, InputError, LocalMisuse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from antecast.auditing.foreign import Request
    from antecast.auditing.outcome import Audit
    from antecast.comparison.result import Comparison
    from antecast.history.histories import Clock
    from antecast.history.verdict import Verdict
    from antecast.kv import KvVerdict
    from antecast.models.judgement import Judgement
    from antecast.papers.findings import Results
    from antecast.papers.job import Stage
    from antecast.sim.run import Progress, RunResult
    from antecast.sim.scenario import Scenario
    from antecast.spark.sweep import SweepProgress

PathLike: TypeAlias = "Path | str"


def as_scenario(
    scenario: Scenario | Mapping[str, Any] | PathLike, *, overrides: Sequence[str] = (), seed: int | None = None
) -> Scenario:
    """A scenario from whatever names one: a TOML file, plain values, or a scenario made before."""
    import msgspec

    from antecast.sim.scenario import Scenario, load_scenario, make_scenario, override

    check_texts("overrides", overrides, "network.loss=0.1")
    check_count("seed", seed, least=0)
    changes = [*overrides, *(() if seed is None else [f"seed={seed}"])]
    if isinstance(scenario, Scenario):
        if overrides:
            raise LocalMisuse("overrides go into a scenario when it is made: make_scenario or load_scenario")
        return scenario if seed is None else msgspec.structs.replace(scenario, seed=seed)
    if isinstance(scenario, Mapping):
        return make_scenario(override(dict(scenario), changes))
    if isinstance(scenario, Path | str):
        check_path("scenario", scenario)
        return load_scenario(scenario, changes)
    raise unexpected("scenario", scenario, "a Scenario, the path of a TOML file, or a mapping of its values")


def run(
    scenario: Scenario | Mapping[str, Any] | PathLike,
    *,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    out: PathLike | None = None,
    replace: bool = False,
    on_progress: Callable[[Progress], bool | None] | None = None,
) -> RunResult:
    """Simulate a scenario: a TOML file, plain values, or a `Scenario`.

    `overrides` are texts such as `"network.loss=0.1"`. Without `out` the logs stay in memory; with it they are
    written to that folder, which must not hold anything yet unless `replace` is set. `on_progress` is called now
    and then; when it returns False the run ends early, with everything so far kept and marked as interrupted.
    """
    from antecast.sim.run import run as simulate

    loaded = as_scenario(scenario, overrides=overrides, seed=seed)
    check_path("out", out)
    check_switch(replace=replace)
    check_function(on_progress=on_progress)
    return simulate(loaded, out=out, replace=replace, on_progress=on_progress)


def audit(
    events: RunResult | pa.Table | DataFrame | PathLike | Sequence[PathLike] | Any,
    *,
    format: str | None = None,  # noqa: A002
    model: str | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    dense: Collection[str] | None = None,
    complete: Collection[str] | None = None,
    regex: str | None = None,
    delimiter: str | None = None,
    skip_unmatched: bool = False,
    ordered: bool = False,
    skew: str | int = 0,
    require: Collection[str] | None = None,
    max_line: int | None = None,
    limit: int = 10_000,
    engine: str = "auto",
    master: str | None = None,
    memory: str | int | None = None,
    **options: Any,
) -> Verdict | Judgement | KvVerdict:
    """Judge the causal order of a log.

    `events` is a path or several (run folders, sweep folders, files, folders of files, patterns, journals of live
    nodes), a run, an Arrow table or what Arrow can read (batches, a Polars DataFrame), a pandas DataFrame, or a
    Spark DataFrame, which is judged on Spark. Paths and batches may come from a generator. The format of files is
    recognised by what they hold, and the model follows from it; `format` and `model` insist on one. Tables are
    judged as broadcasts and deliveries unless `model` says spans, clocks or kv.

    `columns` says what the log calls its columns (`{"node": "host"}`), `kinds` what it calls broadcast and
    deliver. `clock="global"` says that times of different nodes compare, which is the default for logs that
    Antecast wrote. `dense` and `complete` say which rows must be there (docs/auditor.md). `skew` is a number of
    nanoseconds or a text such as `"5ms"`. Files are judged by `engine` ("local", "spark", or "auto", which takes
    Spark with a `master`). `memory`, a number or a text such as `"2GB"`, bounds the bytes that this process
    uses for their events (default: half of what is free); those beyond it wait in temporary files. The others are
    the options of the command. Further options are those of `antecast.history.audit.audit` (such as `pairs=True`)
    and `antecast.spark.audit.audit`.
    """
    import pyarrow as pa

    from antecast.auditing.applying import check_in_memory, check_model_options
    from antecast.auditing.engines import ENGINES
    from antecast.auditing.foreign import Request, judge_data
    from antecast.history import audit as kernel
    from antecast.history.log_audit import audit_table
    from antecast.importers.source import MAX_LINE
    from antecast.sim.run import RunResult

    for name, some, example in (("dense", dense, "pos"), ("require", require, "CC")):
        check_texts(name, some or (), example)
    if complete is not None and (isinstance(complete, str | bytes) or not isinstance(complete, Iterable)):
        raise unexpected("complete", complete, "a list of nodes")
    check_text(format=format, model=model, regex=regex, delimiter=delimiter, engine=engine, master=master)
    check_switch(skip_unmatched=skip_unmatched, ordered=ordered)
    if clock not in (None, "global", "local"):
        raise LocalMisuse(f"clock: expected 'global' or 'local', got {clock!r}")
    for name, words in (("columns", columns), ("kinds", kinds)):
        if not isinstance(words, Mapping | None):
            raise unexpected(name, words, 'a mapping, such as {"node": "host"}')
    check_count("limit", limit, least=0, needed=True)
    check_count("max_line", max_line, least=1)
    columns = {name: str(column) for name, column in columns.items()} if columns else {}
    request = Request(
        format=format,
        model=model,
        columns=columns,
        regex=regex,
        delimiter=delimiter,
        skip_unmatched=skip_unmatched,
        max_line=MAX_LINE if max_line is None else max_line,
        complete=complete,
        ordered=ordered,
        skew=_nanoseconds(skew),
        require=require,
        limit=limit,
    )
    rows: dict[str, Any] = {"dense": dense, "complete": complete}
    events = (
        list(events) if isinstance(events, Iterator) and not isinstance(events, pa.RecordBatchReader) else events
    )
    paths = [events] if isinstance(events, os.PathLike | str) else events
    if isinstance(paths, Sequence) and paths and all(isinstance(path, os.PathLike | str) for path in paths):
        how: dict[str, Any] = {"engine": engine, "master": master, "memory": _bytes(memory)}
        for path in paths:
            check_path("events", path)
        files = [os.fspath(path) for path in paths]
        done = audit_files(files, request, kinds=kinds, clock=clock, **how, **rows, **options)
        return cast("Verdict", done.verdict)
    if engine not in ENGINES:
        raise ConfigurationError(f"no such engine {engine!r}; there are {', '.join(ENGINES)}", field="--engine")
    on_spark = type(events).__module__.startswith("pyspark.") and model in (None, "broadcast", "kv")
    elsewhere = engine == ("local" if on_spark else "spark")
    where = {"engine": engine if elsewhere else None, "master": master}
    said = {"kinds": kinds, "clock": clock, "dense": dense, "memory": memory, **options}
    if isinstance(events, RunResult):
        named = {"map": columns, "kinds": kinds, "dense": dense, "complete": complete, "model": model}
        check_in_memory("a run", request, **where, **named)
    check_in_memory("a table in memory", request, **where)
    check_model_options(model or "broadcast", request, **({} if on_spark and model == "kv" else said))
    if memory is not None:
        options["memory"] = _bytes(memory)
    if isinstance(events, RunResult):
        return kernel.audit(events.events, clock=clock or "global", limit=limit, **options)
    if type(events).__module__.startswith("pyspark."):
        if model in (None, "broadcast"):
            return _audit_frame(events, columns, kinds, clock, rows, limit=limit, **options)
        if model == "kv":
            return _check_frame(events, request, **options)
        events = cast("Any", events).toArrow()
    elif type(events).__module__.startswith("pandas.") and hasattr(events, "columns"):
        events = _arrow(pa.Table.from_pandas, events, preserve_index=False)
    elif isinstance(events, list) and events and all(isinstance(each, pa.RecordBatch) for each in events):
        events = _arrow(pa.Table.from_batches, events)
    elif hasattr(events, "__arrow_c_stream__") or isinstance(events, pa.RecordBatch):
        events = events if isinstance(events, pa.Table) else _arrow(pa.table, events)
    if isinstance(events, pa.Table):
        if model in (None, "broadcast"):
            rows |= {"columns": columns, "kinds": kinds}
            return audit_table(events, clock=clock or "local", limit=limit, **rows, **options)
        from antecast.importers.tables import read_clocks, read_spans
        from antecast.kv.tables import history_of

        readers: dict[str, Callable[..., Any]] = {"spans": read_spans, "clocks": read_clocks, "kv": history_of}
        return cast("Judgement", judge_data(model, readers[model](events, request.columns), request))
    expected = "a RunResult, a table (Arrow, pandas, Spark, Polars), or the path of a log, or several"
    raise unexpected("events", events, expected)


def audit_files(
    paths: Sequence[PathLike],
    request: Request | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    dense: Collection[str] | None = None,
    complete: Collection[str] | None = None,
    engine: str = "auto",
    master: str | None = None,
    memory: int | None = None,
    on_progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Audit:
    """Judge files and keep what was read, for exports, gates and reports.

    >>> audit_files(["service.log"]).export("shiviz", Path("story.log"), witness_only=True)  # doctest: +SKIP
    """
    from antecast.auditing.applying import check_format_options, check_model_options
    from antecast.auditing.engines import engine_for, memory_for
    from antecast.auditing.foreign import Request, check_columns, find_foreign, judge, kv_options
    from antecast.auditing.outcome import Audit
    from antecast.history.at_hand import at_hand
    from antecast.history.log_audit import audit_log
    from antecast.history.log_files import open_log
    from antecast.live.journal_logs import with_journals_as_logs

    request = request or Request()
    if not all(map(str, paths)):  # such as a variable of the shell that is not set
        raise InputError("the name of the log is empty", path="log")
    names = with_journals_as_logs([at_hand(str(path)) for path in paths])
    foreign = None if kinds else find_foreign(names, request)
    model = "broadcast" if foreign is None else foreign.model
    said: dict[str, Any] = {"kinds": kinds, "clock": clock, "dense": dense, "memory": memory}
    check_model_options(model, request, **said, **options)
    if foreign is not None:
        check_format_options(foreign.importer.NAME, request, table=foreign.tabular)
        if engine_for(engine, master, foreign) == "spark":
            from antecast.spark.histories import check_on_spark

            return Audit(
                foreign, check_on_spark(foreign, kv_options(request), master, on_progress), engine="spark"
            )
        data = foreign.read()
        return Audit(foreign, judge(foreign, data), data)
    check_columns(request)
    check_format_options("a table", request, table=True)
    log = open_log(names, file_format=request.format, columns=request.columns, kinds=kinds, clock=clock)
    options |= {"limit": request.limit, "dense": dense, "complete": complete}
    if engine_for(engine, master, log) == "spark":
        if memory is not None:
            problem = "bounds what this process keeps of a log; Spark has settings of its own"
            raise ConfigurationError(problem, field="--memory")
        from antecast.spark.log_audit import audit_log_on_spark

        return Audit(
            log, audit_log_on_spark(log, master=master, on_progress=on_progress, **options), engine="spark"
        )
    return Audit(log, audit_log(log, memory=memory_for(memory), **options))


def _audit_frame(
    frame: Any,
    columns: Mapping[str, str] | None,
    kinds: Mapping[str, str] | None,
    clock: Clock | None,
    rows: Mapping[str, Any],
    **options: Any,
) -> Verdict:
    from antecast.spark.audit import audit as audit_on_spark
    from antecast.spark.audit import check_kinds
    from antecast.spark.completeness import frame_completeness
    from antecast.spark.plain_frames import broken_value, plain_frame

    clock = clock or "local"
    plain, held = plain_frame(frame, columns or {}, clock)
    names: dict[str, Any] = {"columns": held, "kinds": kinds}
    try:
        verdict = audit_on_spark(plain, clock=clock, **names, **options)
        if not (verdict.messages and verdict.tally.deliveries):
            check_kinds(plain, **names)
        found = frame_completeness(plain, **names, **rows)
    except Exception as error:
        broken = broken_value(error)
        if broken is None:
            raise
        raise broken from None
    return replace(verdict, assumed=found.assumed, unsettled=found.unsettled)


def _check_frame(frame: Any, request: Request, **options: Any) -> KvVerdict:
    from antecast.auditing.foreign import kv_options
    from antecast.spark.kv import check

    return check(frame, kv_options(request), columns=request.columns, **options)


def _arrow(convert: Callable[..., Any], data: Any, **options: Any) -> Any:
    """Data as an Arrow table; a column that holds more than one type has none."""
    from antecast.history.rows import BrokenLog

    try:
        return convert(data, **options)
    except (ValueError, TypeError) as error:  # those of Arrow are among them
        raise BrokenLog(": ".join(str(each) for each in reversed(error.args))) from None


def _bytes(memory: object) -> int | None:
    from antecast.text.sizes import parse_size

    if not isinstance(memory, str | int | None) or isinstance(memory, bool):
        raise unexpected("memory", memory, 'a number of bytes, or a text such as "2GB"')
    size = _parsed("memory", memory, parse_size) if isinstance(memory, str) else memory
    if size is not None and size < 1:
        raise ConfigurationError(f"expected at least one byte, got {size}", field="memory")
    return size


def _nanoseconds(skew: object) -> int:
    from antecast.comparison.demands import parse_latency

    if not isinstance(skew, str | int) or isinstance(skew, bool):
        raise unexpected("skew", skew, 'a number of nanoseconds, or a text such as "5ms"')
    return skew if isinstance(skew, int) else round(_parsed("skew", skew, parse_latency))


def compare(
    scenario: Scenario | Mapping[str, Any] | PathLike,
    *,
    protocols: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | Sequence[str] = (),
    overrides: Sequence[str] = (),
    seeds: int = 3,
    max_violations: str | float | None = None,
    max_latency: str | None = None,
    max_bytes: float | None = None,
    min_delivery: str | float | None = None,
    out: PathLike | None = None,
    local: bool = False,
    master: str | None = None,
    run_timeout: str | None = None,
    on_progress: Callable[[SweepProgress], None] | None = None,
    on_note: Callable[[str], None] | None = None,
) -> Comparison:
    """Run every protocol that can run on a scenario's network, compare them, and recommend one.

    `protocols` are the names of those to compare (default: all), `settings` what they are given beyond their
    defaults (`{"delta": {"lifetime": "20min"}}`, or texts such as `"delta.lifetime=20min"`). Limits are written as
    on the command line: `max_violations="0.1%"`, `max_latency="200ms"`. Everything goes to the folder `out`
    (default: `comparisons/NAME`), the report included; the same call goes on where an interrupted one stopped.
    With `local` the runs are made in this process, without Spark. A protocol that is named runs where the network
    does not meet its needs, too; `on_note` is told so before it starts.
    """
    from antecast.comparison import candidates as pool
    from antecast.comparison.stored import Origin, store
    from antecast.reporting.compare import compare_page
    from antecast.reporting.page import write
    from antecast.sim.scenario import Scenario, override, read_toml
    from antecast.spark.compare import compare as run_comparison
    from antecast.spark.task import Limits

    if isinstance(scenario, Scenario):
        scenario = scenario.plain()
    if not isinstance(scenario, Mapping | Path | str):
        raise unexpected("scenario", scenario, "a Scenario, the path of a TOML file, or a mapping of its values")
    if isinstance(scenario, Path | str):
        check_path("scenario", scenario)
    check_texts("protocols", protocols, "vector")
    check_texts("overrides", overrides, "network.loss=0.1")
    check_count("seeds", seeds, least=1, needed=True)
    check_path("out", out)
    _check_settings(settings)
    check_amount(max_bytes=max_bytes)
    check_text(master=master, run_timeout=run_timeout)
    check_switch(local=local)
    check_function(on_progress=on_progress, on_note=on_note)
    if master is not None and local:
        raise ConfigurationError("names where Spark is, which a local comparison leaves out", field="master")
    demands = _demands(max_violations, max_latency, max_bytes, min_delivery)
    timeout = _parsed("run_timeout", run_timeout, _seconds)
    by_path = isinstance(scenario, Path | str)
    folder = Path(cast("str", scenario)).parent if by_path else Path()
    source = str(scenario) if by_path else None
    values = override(read_toml(cast("str", scenario)) if by_path else _said(cast("Any", scenario)), overrides)
    given = settings if isinstance(settings, Mapping) else pool.parse_settings(settings)
    base = pool.base_scenario(values, folder, source=source)
    found = pool.find_candidates(base, own=values.get("protocol"), chosen=protocols, given=given)
    if all(each.lacks for each in found):
        reasons = "; ".join(f"{each.name} needs {' and '.join(each.lacks)}" for each in found)
        raise ConfigurationError(f"no protocol can run on this network: {reasons}", field="protocols")
    if on_note is not None:
        for text in (*base.notes(), *(text for each in found for text in pool.describe_unmet_candidate(each))):
            on_note(text)
    study = pool.comparison_study(values, found, name=base.name, folder=folder, seeds=seeds, source=source)
    result = run_comparison(
        study,
        found,
        demands,
        out=comparison_folder(base.name) if out is None else out,
        local=local,
        master=master,
        limits=Limits(seconds=timeout),
        on_progress=on_progress,
    )
    command = _compare_command(source or "SCENARIO.toml", protocols, given, overrides, seeds, demands)
    origin = Origin(network=pool.describe_network(base), command=command)
    store(result, origin)
    write(compare_page(result, network=origin.network, command=command), result.report)
    return result


def _check_settings(settings: object) -> None:
    if not isinstance(settings, Mapping):
        check_texts("settings", settings, "delta.lifetime=20min")
    elif not all(isinstance(each, Mapping) for each in settings.values()):
        raise LocalMisuse('settings: expected those of each protocol, such as {"delta": {"lifetime": "20min"}}')


def _said(values: Any) -> Any:
    """Plain values without those that are None, which is how defaults of no value are written out."""
    if isinstance(values, Mapping):
        return {key: _said(value) for key, value in values.items() if value is not None}
    return [_said(value) for value in values] if isinstance(values, list) else values


def comparison_folder(name: str) -> Path:
    """Where a comparison goes that is not told where to go."""
    return Path("comparisons") / name.replace(" ", "-")


def _demands(
    violations: str | float | None, latency: str | None, size: float | None, delivery: str | float | None
) -> Any:
    from antecast.comparison.demands import Demands, parse_latency, parse_share, parse_violations

    tolerated = _parsed("max_violations", violations, parse_violations)
    return Demands(
        violations=None if tolerated is None else tolerated[0],
        violations_relative=True if tolerated is None else tolerated[1],
        latency=_parsed("max_latency", latency, parse_latency),
        bytes=size,
        delivery=_parsed("min_delivery", delivery, parse_share),
    )


def _seconds(text: str) -> float:
    from antecast.comparison.demands import parse_latency

    return parse_latency(text) / 1e9


def _parsed(name: str, value: str | float | None, parse: Callable[[str], Any]) -> Any:
    try:
        return None if value is None else parse(str(value))
    except ValueError as error:
        raise ConfigurationError(str(error), field=name) from None


def _compare_command(
    scenario: str,
    protocols: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
    overrides: Sequence[str],
    seeds: int,
    demands: Any,
) -> str:
    """The command that makes the page again."""
    import shlex

    words = ["antecast", "compare", scenario]
    with_ = [f"{name}.{key}={value}" for name, values in settings.items() for key, value in values.items()]
    for option, values in (("--protocol", protocols), ("--with", with_), ("--set", overrides)):
        words += [word for value in values for word in (option, value)]
    words += ["--seeds", str(seeds)]
    words += [word for aspect in demands.stated for word in demands.option(aspect).split(" ")]
    return shlex.join(words)


def reproduce(
    study: str,
    *,
    out: PathLike | None = None,
    quick: bool = False,
    seeds: int | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Stage], None] | None = None,
) -> Results:
    """Make the experiments of a paper on Spark and set our figures beside theirs.

    `study` is barrier, cellular, observer, preventive or vcube. `quick` takes small sizes and few seeds. `options`
    are those of one study, such as `{"trace": "walkers.tr.gz"}` for barrier. The folder is `reproductions/STUDY`
    (`STUDY-quick`) by default; the same call goes on where an interrupted one stopped. `report` makes the page.
    """
    from antecast.papers.reproduce import reproduce as make

    check_text(study=study, master=master)
    check_count("seeds", seeds, least=1)
    check_path("out", out)
    check_switch(quick=quick)
    if not isinstance(options, Mapping | None):
        raise unexpected("options", options, 'a mapping, such as {"trace": "walkers.tr.gz"}')
    check_function(on_progress=on_progress)
    return make(
        study,
        out=out,
        quick=quick,
        seeds=seeds,
        spark=spark,
        master=master,
        options=options,
        on_progress=on_progress,
    )


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
