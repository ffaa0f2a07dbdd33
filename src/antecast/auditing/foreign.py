"""Foreign logs: which importer and which model a log takes, and its verdict.

Tables of broadcasts and deliveries (Parquet, CSV, JSON lines) are read by `antecast.history`; all else comes
through an importer. A log is taken for a table only if nobody recognises it as something else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from antecast.core.errors import ConfigurationError, InputError
from antecast.core.log_files import encoding_of, find_files
from antecast.history.log_formats import FORMATS as TABLES
from antecast.history.log_formats import format_of
from antecast.history.rows import ALL_COLUMNS
from antecast.importers.registry import Importer, importer, importers, recognise
from antecast.importers.source import MAX_LINE, Source
from antecast.importers.source import Options as ReadOptions
from antecast.importers.tables import TableReader

if TYPE_CHECKING:
    from antecast.kv import Options

MODELS = ("broadcast", "clocks", "spans", "kv")

SPAN_COLUMNS = ("trace", "span", "parent", "service", "name", "kind", "start", "end", "duration")
CLOCK_COLUMNS = ("host", "clock", "event")
OPERATION_COLUMNS = ("session", "txn", "kind", "key", "value", "status", "pos")
MAPPED = tuple(dict.fromkeys((*ALL_COLUMNS, *SPAN_COLUMNS, *CLOCK_COLUMNS, *OPERATION_COLUMNS)))
"""Columns of all models, as `--map` names them."""


@dataclass(frozen=True)
class Request:
    """What a person says about a log and its audit. The defaults fit logs that say all by themselves."""

    format: str | None = None
    model: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    regex: str | None = None
    delimiter: str | None = None
    skip_unmatched: bool = False
    max_line: int = MAX_LINE
    complete: Collection[str] | None = None
    """Hosts whose logs run to their last event; None for all."""
    ordered: bool = False
    """The file itself must be in causal order."""
    skew: int = 0
    """How far the clocks of services may differ, in nanoseconds."""
    require: Collection[str] | None = None
    """Levels of consistency that a key-value history must keep; None for all."""
    limit: int = 10_000

    def __post_init__(self) -> None:
        if self.model is not None and self.model not in MODELS:
            raise ConfigurationError(
                f"no such model {self.model!r}; there are {', '.join(MODELS)}", field="--model"
            )
        if self.format is not None and self.format not in (*TABLES, *importers()):
            known = ", ".join((*TABLES, *importers()))
            raise ConfigurationError(f"no such format {self.format!r}; there are {known}", field="--format")
        if self.require is not None:
            from antecast.kv import LEVELS

            known = ", ".join(LEVELS)
            if not self.require:  # such as a variable of the shell that is not set
                raise ConfigurationError(f"names no level; there are {known}", field="--require")
            for level in self.require:
                if level not in LEVELS:
                    raise ConfigurationError(f"no such level {level!r}; there are {known}", field="--require")


@dataclass(frozen=True)
class ForeignLog:
    """A log that an importer reads."""

    source: Source
    importer: Importer
    request: Request

    @property
    def model(self) -> str:
        return self.importer.MODEL

    @property
    def tabular(self) -> bool:
        """Whether its columns have names that can be said."""
        return isinstance(self.importer, TableReader) or self.importer.NAME == "spans-csv"

    def read(self) -> Any:
        return self.importer.read(self.source)


def find_foreign(paths: Sequence[Path | str], request: Request) -> ForeignLog | None:
    """The log at some paths, if it is a foreign one; None if it is a table of broadcasts and deliveries."""
    if means_table(request):
        return None
    if request.format is None and request.model is None and any(_is_table(Path(path)) for path in paths):
        return None
    return foreign_of(Source(tuple(find_files(paths)), read_options(request)), request)


def read_options(request: Request) -> ReadOptions:
    """What a request says about reading files."""
    return ReadOptions(
        max_line=request.max_line,
        regex=request.regex,
        delimiter=request.delimiter,
        skip_unmatched=request.skip_unmatched,
        columns=request.columns,
    )


def foreign_of(source: Source, request: Request) -> ForeignLog | None:
    """The log in some files, by the format that is asked for or recognised."""
    chosen: Importer | None
    if request.format is not None and request.format not in TABLES:
        chosen = importer(request.format)
    else:
        chosen = _recognised(source, request)
    if chosen is None:
        return None
    if request.model not in (None, chosen.MODEL):
        problem = f"{chosen.NAME} is judged by {chosen.MODEL}, not by {request.model}"
        raise ConfigurationError(problem, field="--model")
    return ForeignLog(source, chosen, request)


def means_table(request: Request) -> bool:
    """Whether a table is asked for, or columns are named that only broadcasts and deliveries have."""
    if request.model not in (None, "broadcast"):
        return False
    only = set(ALL_COLUMNS) - set(SPAN_COLUMNS) - set(CLOCK_COLUMNS)
    named = request.format is None and bool(only & request.columns.keys())
    return request.format in TABLES or request.model == "broadcast" or named


def _is_table(path: Path) -> bool:
    """A Parquet file, or a folder that holds some: no importer reads these."""
    if path.is_dir():
        return any(path.rglob("*.parquet"))
    return path.suffix.lower() in TABLES["parquet"].suffixes


def _recognised(source: Source, request: Request) -> Importer | None:
    if request.regex is not None:
        return importer("govector")
    table = request.format or format_of(source.files[0]) if request.model not in (None, "broadcast") else None
    if table is not None and (table == "parquet" or request.format is not None):
        return cast("Importer", TableReader(table, str(request.model)))
    if request.columns.keys() & {"trace", "span", "parent"}:
        return importer("spans-csv")
    found = recognise(source)
    if found is None and table is not None:
        return cast("Importer", TableReader(table, str(request.model)))
    if found is None:
        tables = [file for file in source.files if format_of(file) is not None]
        if not tables or request.model not in (None, "broadcast"):
            strange = source.files[0]
            start = source.head(strange).data
            if not start.strip():
                raise InputError("the file is empty", path=strange)
            if encoding := encoding_of(start):
                raise InputError(f"the file is {encoding}; UTF-8 is expected", path=strange, line=1)
            known = ", ".join((*TABLES, *importers()))
            problem = f"the format is not recognised; say which it is with --format ({known}), or --regex"
            raise InputError(problem, path=strange)
    return found


def check_columns(request: Request) -> None:
    """A table of broadcasts and deliveries has no columns of other models."""
    for name, column in request.columns.items():
        if name not in ALL_COLUMNS:
            known = ", ".join(ALL_COLUMNS)
            problem = f"expected NAME=VALUE with each of {known} at most once, got '{name}={column}'"
            raise ConfigurationError(problem, field="--map")


def judge(log: ForeignLog, data: Any | None = None) -> Any:
    """The verdict of a log's model."""
    return judge_data(log.model, log.read() if data is None else data, log.request)


def judge_data(model: str, data: Any, request: Request) -> Any:
    """The verdict of a model on what an importer has read."""
    if model == "clocks":
        from antecast.models import clocks

        return clocks.judge(data, limit=request.limit, complete=request.complete, ordered=request.ordered)
    if model == "spans":
        from antecast.models import spans

        return spans.judge(data, limit=request.limit, skew=request.skew, ordered=request.ordered)
    from antecast.kv import check

    return check(data, kv_options(request))


def kv_options(request: Request) -> Options:
    """What a request says about a key-value history."""
    from antecast.kv import LEVELS, Options

    levels = tuple(level for level in LEVELS if request.require is None or level in request.require)
    return Options(require=levels, complete=request.complete is None, limit=request.limit)
