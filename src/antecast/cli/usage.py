"""The help of commands, and the message when one is called the wrong way.

Help is plain text that is wrapped to the window: the options of a command stand under the headings of their
panels, those without one first. A mistake is one line, with the value that was given.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

COMMON = "Output"
"""The panel of the options that most commands have."""

_TYPES = {
    r"<(?:int|float)(?: range)?>": "NUMBER",
    r"<str>|<list\[str\]>": "TEXT",
    r"<path>": "FILE",
    r"<([a-z|-]+)>": r"\1",
}
"""What the parser calls values that an option gives no name, and what they are called here."""
_RANGES = {
    r"default: \((.+?)\)": r"default: \1",
    r"(-?[\d.]+)<=x<=(-?[\d.]+)": r"\1 to \2",
    r"x>=(-?[\d.]+)": r"at least \1",
    r"x<=(-?[\d.]+)": r"at most \1",
}
_VALUE_ERRORS = {
    "Input should be a valid integer.*": "expected a whole number",
    "Input should be a valid number.*": "expected a number",
    "Input should be greater than or equal to (.+)": r"expected at least \1",
    "Input should be less than or equal to (.+)": r"expected at most \1",
    "Value error, (.+)": r"\1",
}
"""What the parser says of a value, and how it is said here."""


class Command(TyperCommand):
    """A command whose help shows its options by panel."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        words = [_bracketed(param) for param in self.get_params(ctx) if param.param_type_name == "argument"]
        formatter.write_usage(ctx.command_path, " ".join(["[OPTIONS]", *words]))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        param: Any
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                names, heading = str(param.metavar or param.name.upper()), "Arguments"
            else:
                names, heading = _reworded(record[0], _TYPES), param.rich_help_panel or "Options"
            text = _reworded(record[1], _RANGES)
            if heading == "Arguments":
                text = re.sub(r"\s*\[required\]$", "", text)
            panels.setdefault(heading, []).append((names, text))
        for heading in sorted(panels, key=lambda name: name == COMMON):
            with formatter.section(heading):
                formatter.write_dl(panels[heading])


class Group(TyperGroup):
    """Several commands under one name, each with the whole sentence that says what it does."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(heading, []).append((name, command.get_short_help_str(limit=1000)))
        for heading, rows in panels.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


def _bracketed(param: Any) -> str:
    name = str(param.metavar or param.name.upper())
    return name if param.required or name.startswith("[") else f"[{name}]"


def _reworded(text: str, words: dict[str, str]) -> str:
    for theirs, ours in words.items():
        text = re.sub(theirs, ours, text)
    return text


def explain_usage(error: Any) -> str:
    """A mistake in how a command was called, in one line."""
    text = " ".join(error.format_message().split()).rstrip(".")
    text = re.sub(r"\. Did you mean (.+\?)$", r" (did you mean \1)", text)
    text = re.sub(r"\(Possible options?: (.+)\)$", r"(did you mean \1?)", text)
    text = re.sub(r"^(Missing option '--[a-z-]+') / '-\w'", r"\1", text)
    text = text.replace("Invalid value for ", "").replace("Invalid value: ", "").replace("'", "", 2)
    given = _given(error)
    if given is not None:
        where, _, problem = text.partition(": ")
        problem = _reworded(problem, {f"^{theirs}$": ours for theirs, ours in _VALUE_ERRORS.items()})
        text = f"{where}: {problem}" + ("" if repr(given) in problem else f", got {given!r}")
    context = getattr(error, "ctx", None)
    hint = "" if context is None else f"; see {context.command_path} --help"
    return f"{text if text[:2].isupper() else text[:1].lower() + text[1:]}{hint}"


def _given(error: Any) -> Any:
    """The value that was refused, where the parser says it."""
    errors = getattr(error.__cause__, "errors", None)
    return errors()[0].get("input") if callable(errors) else None
