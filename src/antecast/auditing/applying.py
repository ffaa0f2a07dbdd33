"""Which options go with which model: one that would change nothing is refused.

Whoever gives an option expects it to count. A `--skew` on a key-value history, or `--require CC` on a trace, is a
misunderstanding, and a verdict that passed over it would answer another question than the one that was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from antecast.core.errors import ConfigurationError
from antecast.importers.source import MAX_LINE

if TYPE_CHECKING:
    from antecast.auditing.foreign import Request

GOES_WITH: Mapping[str, tuple[str, ...]] = {
    "--complete": ("broadcast", "clocks", "kv"),
    "--ordered": ("clocks", "spans"),
    "--skew": ("spans",),
    "--require": ("kv",),
    "--max-line": ("clocks", "spans", "kv"),
    "--kinds": ("broadcast",),
    "--clock": ("broadcast",),
    "--dense": ("broadcast",),
    "--pairs": ("broadcast",),
    "--memory": ("broadcast",),
}
"""Models by option; what is not named goes with all."""

LAYOUT = ("--regex", "--delimiter", "--skip-unmatched")
"""Options of logs with vector clocks as text."""

_JUDGED = {
    "broadcast": "tables of broadcasts",
    "clocks": "logs with vector clocks",
    "spans": "traces",
    "kv": "key-value histories",
}


def check_model_options(model: str, request: Request, **others: Any) -> None:
    """Refuse options that the model of a log has no use for; `others` are those that are not in the request."""
    given: dict[str, Any] = {
        "--complete": request.complete is not None,
        "--ordered": request.ordered,
        "--skew": request.skew,
        "--require": request.require is not None,
        "--max-line": request.max_line != MAX_LINE,
    }
    given |= {f"--{name.replace('_', '-')}": _is_given(value) for name, value in others.items()}
    for option, there in given.items():
        models = GOES_WITH.get(option, ("broadcast",))
        if there and model not in models:
            meant = " and ".join(_JUDGED[each] for each in models)
            raise ConfigurationError(f"is an option for {meant}; this is judged as {model}", field=option)


def check_format_options(format_name: str, request: Request, *, table: bool) -> None:
    """Refuse what says how lines or columns are read where the format of a log says so itself."""
    if format_name != "govector":
        _refuse(_layout(request), f"is an option for vector clocks as text; this log is read as {format_name}")
    if not table:
        _refuse({"--map": bool(request.columns)}, f"names columns of tables; this log is read as {format_name}")


def check_in_memory(held: str, request: Request, **others: Any) -> None:
    """Refuse what says how files are read, or by whom, where there are none."""
    given = {"--format": request.format is not None, "--max-line": request.max_line != MAX_LINE}
    given |= _layout(request) | {f"--{name}": _is_given(value) for name, value in others.items()}
    _refuse(given, f"is an option for files; it does not go with {held}")


def _layout(request: Request) -> dict[str, bool]:
    """Which options about the layout of events are given."""
    values = (request.regex is not None, request.delimiter is not None, request.skip_unmatched)
    return dict(zip(LAYOUT, values, strict=True))


def _refuse(given: Mapping[str, bool], problem: str) -> None:
    for option, there in given.items():
        if there:
            raise ConfigurationError(problem, field=option)


def _is_given(value: Any) -> bool:
    return value is not None and value is not False and value != {}
