"""What `antecast check` shows of a search, and what it writes of a counterexample."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from antecast.cli.console import out
from antecast.cli.tables import show
from antecast.cli.texts import say
from antecast.core import ConfigurationError, OutputError

if TYPE_CHECKING:
    from antecast.checking.check import Checked
    from antecast.checking.counterexample import Counterexample, Replay

_SHOWN_STEPS = 60


def tell(done: Checked, save: Path | None, *, saved: bool) -> None:
    from antecast.checking.scope import described

    found = done.found
    out.print(f"{done.protocol}: {described(done.scope)}")
    style = {"exhausted": "green", "violated": "red"}.get(found.verdict, "yellow")
    out.print(verdict(done), style=style)
    reduced = f"; {'; '.join(found.reduction)}" if found.reduction else ""
    out.print(f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth}{reduced}")
    if found.verdict == "exhausted" and not found.exact:
        out.print(f"probability that a state was missed (two with one fingerprint): {found.collision:.0e}")
    if found.verdict == "exhausted" and done.calm_timers:
        out.print("timers fired only once all was calm; --timeouts 1 lets one fire before the last fault")
    if done.counterexample is not None:
        from antecast.checking.counterexample import replay
        from antecast.protocols import specification

        tell_replay(replay(done.counterexample, specification(done.counterexample.protocol)))
        if not saved:
            return
        file = shlex.quote(str(counterexample_file(done.counterexample, save)))
        out.print(f"\nPlay it again: antecast check --replay {file}", style="dim", soft_wrap=True)


def verdict(done: Checked) -> str:
    found = done.found
    if found.problem is not None:
        return f"violated: {found.problem.property}: {found.problem.words}"
    if found.verdict == "exhausted":
        return "exhausted: every promise holds"
    return f"not exhausted: depth {found.depth}, frontier {found.frontier:,}: {found.why}"


def tell_replay(played: Replay) -> None:
    out.print()
    shown = played.steps if len(played.steps) <= _SHOWN_STEPS else played.steps[:_SHOWN_STEPS]
    for number, step in enumerate(shown, 1):
        say(f"{number:3}. {step}", hanging=3)
    if len(played.steps) > len(shown):
        out.print(f"     … {len(played.steps) - len(shown)} further steps")
    out.print()
    say(str(played.witness))


def show_results(results: list[Checked]) -> None:
    from antecast.checking.scope import described

    table = Table(box=None, pad_edge=False)
    table.add_column("protocol", no_wrap=True)
    table.add_column("scope")
    for column in ("states", "transitions", "CPU s"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict")
    for each in results:
        found = each.found
        style = {"exhausted": "green", "violated": "red"}.get(found.verdict, "yellow")
        numbers = f"{found.states:,}", f"{found.transitions:,}", f"{found.seconds:.1f}"
        words = "exhausted" if found.verdict == "exhausted" else verdict(each)
        table.add_row(each.protocol, described(each.scope), *numbers, Text(words, style=style))
    show(table)


def result_json(done: Checked) -> dict[str, object]:
    from antecast.core.settings import plain_settings

    found = done.found
    return {
        "protocol": done.protocol,
        "scope": plain_settings(done.scope),
        "verdict": found.verdict,
        "states": found.states,
        "transitions": found.transitions,
        "depth": found.depth,
        "frontier": found.frontier,
        "cpu_seconds": round(found.seconds, 3),
        "wall_seconds": round(done.wall, 3),
        "property": None if found.problem is None else found.problem.property,
        "words": None if found.problem is None else found.problem.words,
        "steps": None if done.counterexample is None else done.counterexample.steps,
        "reduction": list(found.reduction),
        "collision_probability": found.collision,
        "why": found.why or None,
    }


# Counterexamples.


def check_files(save: Path | None, save_test: Path | None, *, many: bool) -> None:
    """Refuse files that cannot be written before a long search, not after it."""
    for option, path in (("--out", save), ("--save-test", save_test)):
        if path is None:
            continue
        if many:
            raise ConfigurationError("is one file, and there are several protocols; leave it out", field=option)
        if path.is_dir() or not path.parent.is_dir():
            problem = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise ConfigurationError(f"{path}: {problem}; name a file", field=option)
    if save is not None and save_test is not None and save.absolute() == save_test.absolute():
        raise ConfigurationError(f"{save} is the file of the counterexample; name another", field="--save-test")


def counterexample_file(found: Counterexample, save: Path | None) -> Path:
    return save or Path(f"{found.protocol.replace(':', '.')}.counterexample.json")


def save_counterexample(found: Counterexample, save: Path | None, save_test: Path | None) -> None:
    from antecast.checking.counterexample import as_json
    from antecast.checking.saved_test import as_test

    texts = {counterexample_file(found, save): as_json(found)}
    if save_test is not None:
        texts[save_test] = as_test(found)
    for path, text in texts.items():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror}", path=path) from None


def report_counterexample(path: Path, *, quiet: bool) -> None:
    from antecast.api import report

    page = report(path)
    if not quiet:
        out.print(f"report: {page}", soft_wrap=True)
