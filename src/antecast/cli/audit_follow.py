"""`antecast audit --follow`: what is wrong with a log that still grows, as soon as it is certain."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antecast.cli.console import out
from antecast.core import ConfigurationError, OutputError
from antecast.text.wording import escaped

if TYPE_CHECKING:
    from antecast.auditing.findings import Finding
    from antecast.auditing.foreign import Request

WINDOW = 50_000
"""Lines that are kept by default; `antecast.auditing.follow` has the same number, and is loaded only if needed."""

PAUSE = 0.5
"""Seconds between looks."""


def check_options(*given: Mapping[str, Any]) -> None:
    """Refuse options that mean nothing for a log that has no end."""
    for options in given:
        for name, value in options.items():
            if value:
                raise ConfigurationError("does not work with --follow", field=name)


def check_needed(option: str, others: Mapping[str, Any]) -> None:
    """Refuse options that mean nothing without another one."""
    for name, value in others.items():
        if value not in (None, False):
            raise ConfigurationError(f"only goes with {option}", field=name)


def follow_log(
    paths: Sequence[str],
    request: Request,
    *,
    kinds: dict[str, str],
    dense: Collection[str] | None,
    window: int,
    state: Path | None,
    until_idle: float | None,
    fail_on: Any,
    master: str | None,
    outputs: tuple[Path | None, Path | None],
    github: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Follow until interrupted, or until nothing came for some seconds; the exit code of the verdict."""
    from antecast.auditing import gate
    from antecast.auditing.follow import Follower
    from antecast.core.log_files import spare

    if state is not None and not state.parent.is_dir():
        raise OutputError("no such folder", path=state.parent)
    spare([path for path in paths if Path(path).is_file()], state, *outputs)

    def say(found: Sequence[Finding]) -> None:
        for finding in found if not quiet else ():
            known = finding.file is None or finding.file in finding.words
            where = "" if known else f"{finding.file}:{finding.line}: "
            out.print(escaped(f"{finding.kind}: {where}{finding.words}"), soft_wrap=True)

    follower = Follower(paths, request, window=window, state=state, kinds=kinds, dense=dense, say=say)
    try:
        if master is None:
            _here(follower, until_idle)
        else:
            from antecast.spark.follow import follow_on_spark

            follow_on_spark(follower, master=master, until_idle=until_idle)
    except KeyboardInterrupt:
        pass
    result = follower.result()
    junit, sarif = outputs
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} paths"
    told = (result.outcome, str(result), follower.findings)
    texts = {} if junit is None else {junit: gate.junit(*told, name=name, fail_on=fail_on)}
    write_texts(texts | ({} if sarif is None else {sarif: gate.sarif(follower.findings, file=str(paths[0]))}))
    if as_json:
        violations = [asdict(finding) for finding in follower.findings]
        print(json.dumps({"verdict": result.outcome} | asdict(result) | {"violations": violations}, indent=2))
    elif not quiet:
        out.print(escaped(str(result)), soft_wrap=True)
    if github:
        for line in gate.workflow_commands(str(result), result.outcome, follower.findings):
            print(line)
    return gate.exit_code(result.outcome, fail_on)


def _here(follower: Any, until_idle: float | None) -> None:
    last, seen = time.monotonic(), -1
    while True:
        follower.poll()
        if follower.result().seen != seen:
            last, seen = time.monotonic(), follower.result().seen
        if until_idle is not None and time.monotonic() - last >= until_idle:
            return
        time.sleep(PAUSE if until_idle is None else min(PAUSE, max(0.01, until_idle / 4)))


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write files, with the folders that they need."""
    for file, text in texts.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror or error}", path=file) from error
