"""Audits of what people have: files, runs, and tables of many kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from antecast.api.given import PathLike, parsed
from antecast.core.arguments import check_count, check_path, check_switch, check_text, check_texts, unexpected
from antecast.core.errors import ConfigurationError, InputError, LocalMisuse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from antecast.auditing.foreign import Request
    from antecast.auditing.outcome import Audit
    from antecast.history.histories import Clock
    from antecast.history.verdict import Verdict
    from antecast.kv import KvVerdict
    from antecast.models.judgement import Judgement
    from antecast.sim.run import RunResult


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
    size = parsed("memory", memory, parse_size) if isinstance(memory, str) else memory
    if size is not None and size < 1:
        raise ConfigurationError(f"expected at least one byte, got {size}", field="memory")
    return size


def _nanoseconds(skew: object) -> int:
    from antecast.comparison.demands import parse_latency

    if not isinstance(skew, str | int) or isinstance(skew, bool):
        raise unexpected("skew", skew, 'a number of nanoseconds, or a text such as "5ms"')
    return skew if isinstance(skew, int) else round(parsed("skew", skew, parse_latency))
