"""`antecast check`: every interleaving of a protocol at small scope, and the shortest counterexample."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecast.cli.check_results import (
    check_files,
    counterexample_file,
    report_counterexample,
    result_json,
    save_counterexample,
    show_results,
    tell,
    tell_replay,
    verdict,
)
from antecast.cli.completion import protocol_names
from antecast.cli.console import Conf, Exit, Json, Quiet, check_name, err, out
from antecast.core import AntecastError, ConfigurationError

if TYPE_CHECKING:
    from antecast.checking.check import Checked
    from antecast.checking.scope import Scope

_LINE_SECONDS = 30.0
_LOOK_SECONDS = 0.2


def _count(text: str) -> Any:
    return typer.Option(help=text, min=0, max=99, rich_help_panel="Scope")


def _found(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Counterexamples", **more)


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|all|MODULE:SPEC]...", help="Which protocols.", autocompletion=protocol_names
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(help="Nodes; hosts, where there are cells.", rich_help_panel="Scope")] = 3,
    stations: Annotated[int, _count("Stations, where there are cells; 0 stands for 2.")] = 0,
    topology: Annotated[
        str, typer.Option(metavar="KIND", help="complete, line, ring or star.", rich_help_panel="Scope")
    ] = "complete",
    broadcasts: Annotated[int, _count("Broadcasts, by any node at any time.")] = 1,
    answers: Annotated[int, _count("Broadcasts from inside a delivery.")] = 1,
    losses: Annotated[int, _count("Frames that are lost.")] = 0,
    breaks: Annotated[int, _count("Links that break, and may come back.")] = 0,
    appears: Annotated[int, _count("Links that appear where none was.")] = 0,
    crashes: Annotated[int, _count("Crashes, with recovery from what was saved.")] = 0,
    joins: Annotated[int, _count("Nodes that join.")] = 0,
    leaves: Annotated[int, _count("Nodes that leave for good.")] = 0,
    partitions: Annotated[int, _count("Cuts of the network in two.")] = 0,
    moves: Annotated[int, _count("Hosts that change their cell.")] = 0,
    timeouts: Annotated[int, _count("Timers that fire before all is calm.")] = 0,
    ticks: Annotated[int, _count("Times that a tick passes.")] = 0,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="FIELD=VALUE",
            help="Any other field of the scope, such as tick=5s or fifo=true. Repeatable.",
            rich_help_panel="Scope",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="A setting of the protocol. Repeatable."),
    ] = None,
    promises: Annotated[
        list[str] | None,
        typer.Option(
            "--promise",
            metavar="NAME",
            help="Check this too, promised or not: causal, fifo, agreement. Repeatable.",
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="MODULE:FUNCTION", help="A property of your own. Repeatable."),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="GAUGE=N", help="No node ever keeps more, such as pending=2. Repeatable."),
    ] = None,
    strategy: Annotated[
        str, typer.Option(metavar="NAME", help="breadth, depth, growing, walk, overtaking or patient.")
    ] = "breadth",
    reduce: Annotated[
        bool, typer.Option("--reduce/--no-reduce", help="Leave out worlds that show nothing new.")
    ] = True,
    exact: Annotated[bool, typer.Option("--exact", help="Remember whole worlds, not fingerprints.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of random walks.")] = 0,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Memory limit, such as 2GB; beyond it the search is a random walk."),
    ] = None,
    limit: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="Stop after this long, such as 60s.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes, which share the search of one protocol. Default: one per core.",
            show_default=False,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="Search on Spark: a master, such as local[*], or an sc:// address.",
            rich_help_panel="Spark",
            callback=check_name,
        ),
    ] = None,
    conf: Conf = None,
    replayed: Annotated[Path | None, _found("Play this one again.", "--replay", metavar="FILE")] = None,
    any_code: Annotated[bool, _found("Replay it even if the protocol's code has changed.", "--any-code")] = False,
    any_version: Annotated[bool, _found("The old name of --any-code.", "--any-version", hidden=True)] = False,
    stop_at: Annotated[
        int | None, _found("Enter the debugger before this step of a replay.", "--break-at", metavar="STEP")
    ] = None,
    save: Annotated[
        Path | None,
        _found("The file to write. Default: PROTOCOL.counterexample.json.", "--out", "-o", metavar="FILE"),
    ] = None,
    save_test: Annotated[
        Path | None, _found("Write it as a pytest case, too.", "--save-test", metavar="FILE")
    ] = None,
    report: Annotated[bool, _found("Write a page with its steps to click through.", "--report")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explore everything that can happen to a protocol within a small scope.

    Exits with 0 if all of it was seen and every promise holds, 1 if one is broken, 3 if not all was seen.
    """
    if replayed is None and (stop_at is not None or any_code or any_version):
        option = "--any-code" if stop_at is None else "--break-at"
        raise ConfigurationError("is about a counterexample; name one with --replay", field=option)
    if replayed is not None:
        if names:
            raise ConfigurationError("the file names its protocol; leave NAME out", field="--replay")
        _replay(
            replayed,
            any_code=any_code or any_version,
            stop_at=stop_at,
            save_test=save_test,
            report=report,
            as_json=as_json,
        )
        return
    if not names:
        raise ConfigurationError("which protocol? a name, all, or package.module:SPEC", field="NAME")
    fields = {
        "nodes": nodes, "stations": stations, "topology": topology, "broadcasts": broadcasts, "answers": answers,
        "losses": losses, "breaks": breaks, "appears": appears, "crashes": crashes, "joins": joins,
        "leaves": leaves, "partitions": partitions, "moves": moves, "timeouts": timeouts, "ticks": ticks,
    } | _values(more or [], "--scope")  # fmt: skip
    orders = _orders(names)
    if master is not None and strategy != "breadth":
        raise ConfigurationError("Spark searches breadth first; leave --strategy out", field="--master")
    if master is not None and exact:
        raise ConfigurationError("Spark remembers fingerprints; leave --exact out", field="--master")
    options: dict[str, Any] = {
        "settings": _values(overrides or [], "--set"),
        "more": _guarantees(promises or []),
        "strategy": strategy,
        "reduce": reduce,
        "exact": exact,
        "seed": seed,
        "memory": _bytes(memory),
        "seconds": _seconds(limit),
        "properties": properties or [],
        "bounds": _bounds(bounds or []),
        "master": master,
    }
    many = len(orders) > 1
    check_files(save, save_test, many=many)
    results = list(_all(orders, fields, options, jobs=jobs, quiet=quiet or as_json, fit=many))
    problem: AntecastError | None = None
    for each in results:
        if each.counterexample is not None:
            try:
                save_counterexample(each.counterexample, save, save_test)
                if report:
                    report_counterexample(counterexample_file(each.counterexample, save), quiet=quiet or as_json)
            except AntecastError as error:
                problem = error  # first what was found: it may have taken hours
    if as_json:
        rows = [result_json(each) for each in results]
        print(json.dumps(rows if many else rows[0], indent=2))
    elif many:
        show_results(results)
    elif not quiet:
        tell(results[0], save, saved=problem is None)
    elif results[0].found.problem is not None:
        out.print(f"{results[0].protocol}: {verdict(results[0])}", style="bold red", soft_wrap=True)
    if problem is not None:
        raise problem
    raise typer.Exit(_exit_code(results))


def _exit_code(results: list[Checked]) -> int:
    verdicts = {each.found.verdict for each in results}
    if "violated" in verdicts:
        return Exit.VIOLATION
    if any(each.found.why.endswith("interrupted") for each in results):
        return Exit.INTERRUPTED
    return Exit.INCONCLUSIVE if "not exhausted" in verdicts else Exit.OK


# What was asked for.


def _orders(names: list[str]) -> list[str]:
    from antecast.protocols import specification, specifications

    chosen = [each.name for each in specifications()] if "all" in names else names
    for name in chosen:
        specification(name, path="NAME")
    return chosen


def _values(assignments: list[str], option: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in assignments:
        name, equals, text = each.partition("=")
        if not equals:
            raise ConfigurationError(f"expected FIELD=VALUE, got {each!r}", field=option)
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = text
    return found


def _guarantees(names: list[str]) -> list[str]:
    from antecast.protocols import Guarantee

    known = [each.value for each in Guarantee]
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"unknown promise {name!r}; choose one of {', '.join(known)}", field="--promise"
            )
    return names


def _bytes(text: str | None) -> int | None:
    from antecast.text.sizes import parse_size

    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise ConfigurationError(str(error), field="--memory") from None


def _seconds(text: str | None) -> float | None:
    from antecast.core.settings import parse_duration

    try:
        seconds = None if text is None else parse_duration(text) / 10**9
    except ValueError as error:
        raise ConfigurationError(str(error), field="--time") from None
    if seconds is not None and seconds < 0:
        raise ConfigurationError(f"expected a duration of zero or more, got {text!r}", field="--time")
    return seconds


def _bounds(assignments: list[str]) -> dict[str, int]:
    found = _values(assignments, "--limit")
    for name, value in found.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigurationError(f"{name}: expected a whole number, got {value!r}", field="--limit")
    return {name: value for name, value in found.items() if isinstance(value, int)}


# The search.


def _all(
    names: list[str], fields: dict[str, Any], options: dict[str, Any], *, jobs: int | None, quiet: bool, fit: bool
) -> Iterator[Checked]:
    from antecast.checking.workers import cores

    if jobs is not None and jobs > 1 and len(names) > 1:
        from concurrent.futures import ProcessPoolExecutor, wait

        # A flag, since Python loses an interrupt that comes while it forks.
        with (
            _interruptible() as interrupted,
            ProcessPoolExecutor(jobs, initializer=_leave_interrupts_to_the_parent) as pool,
        ):
            done = [pool.submit(_one, name, fields, options, fit=fit) for name in names]
            for each in done:
                while not each.done():
                    if interrupted():
                        pool.shutdown(wait=False, cancel_futures=True)
                        for worker in multiprocessing.active_children():
                            worker.terminate()
                        raise KeyboardInterrupt
                    wait([each], _LOOK_SECONDS)
                yield each.result()
        return
    with _interruptible() as interrupted:
        for name in names:
            show = _Shown(name, quiet=quiet)
            yield _one(name, fields, options, fit=fit, jobs=jobs or cores(), show=show, interrupted=interrupted)
            show.done()
            if interrupted():
                return


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _one(
    name: str,
    fields: dict[str, Any],
    options: dict[str, Any],
    *,
    fit: bool,
    jobs: int = 1,
    show: Callable[[int, int, int, int], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Checked:
    import msgspec

    from antecast.checking.check import check
    from antecast.checking.limits import Limits
    from antecast.checking.properties import own_property
    from antecast.checking.scope import Scope, check_specification, fitting
    from antecast.core.settings import read_settings
    from antecast.protocols import Guarantee, Need, specification

    spec = specification(name, path="NAME")
    scope = read_settings(fields, Scope, path="scope")
    configured = spec.configure(options["settings"])
    check_specification(spec, configured)
    if fit:
        scope = fitting(spec, configured, scope)
    elif Need.CELLS in spec.needs(configured) and not scope.stations:
        scope = msgspec.structs.replace(scope, stations=2)
    return check(
        spec,
        scope,
        settings=options["settings"],
        promises=spec.guarantees | {Guarantee(each) for each in options["more"]},
        properties=tuple(map(own_property, options["properties"])),
        bounds=options["bounds"],
        jobs=jobs,
        elsewhere=None if options["master"] is None else _on_spark(options["master"]),
        strategy=options["strategy"],
        reduce=options["reduce"],
        exact=options["exact"],
        seed=options["seed"],
        limits=Limits(memory=options["memory"], seconds=options["seconds"]),
        progress=show,
        interrupted=interrupted,
    )


def _on_spark(master: str) -> Callable[[Any, Any], Any]:
    """A search that is made on a cluster."""

    def search(order: Any, progress: Any) -> Any:
        from antecast.spark.checking import check_on_spark
        from antecast.spark.session import spark_session

        with spark_session("antecast check", master=master) as spark:
            return check_on_spark(spark, order, progress=progress)

    return search


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """While this lasts, Ctrl-C ends the search with what is known so far."""
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


class _Shown:
    """Progress on standard error: states per second, frontier and depth."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        self._name, self._quiet = name, quiet
        self._started = self._last = time.monotonic()
        self._before = 0

    def __call__(self, states: int, transitions: int, frontier: int, depth: int) -> None:
        now = time.monotonic()
        if self._quiet or now - self._last < (0.5 if err.is_terminal else _LINE_SECONDS):
            return
        new = states - self._before if states >= self._before else states  # fewer: a search has begun again
        rate = new / (now - self._last)
        self._last, self._before = now, states
        text = f"{self._name}: {states:,} states, {rate:,.0f} per second, frontier {frontier:,}, depth {depth}"
        err.print(text, end="\r" if err.is_terminal else "\n", soft_wrap=True)

    def done(self) -> None:
        if err.is_terminal and not self._quiet:
            err.print(" " * (err.width - 1), end="\r")


# Counterexamples.


def _replay(
    path: Path,
    *,
    any_code: bool,
    stop_at: int | None,
    save_test: Path | None,
    report: bool,
    as_json: bool,
) -> None:
    from antecast.checking.counterexample import check_version, read_counterexample, replay
    from antecast.checking.scope import Scope, described
    from antecast.core.settings import read_settings

    found = read_counterexample(path)
    if not any_code:
        check_version(found, path)
    if stop_at is not None and not 1 <= stop_at <= len(found.steps):
        raise ConfigurationError(
            f"expected a step from 1 to {len(found.steps)}, got {stop_at}", field="--break-at"
        )

    def before(number: int, words: str) -> None:
        if number == stop_at:
            breakpoint()

    played = replay(found, before=before)
    if save_test is not None:
        save_counterexample(found, path, save_test)
    if report:
        report_counterexample(path, quiet=as_json)
    if as_json:
        problem = played.problem
        words = {"property": problem.property, "words": problem.words} if problem else {}
        print(
            json.dumps({"broken": problem is not None, "stopped": played.stopped, "steps": played.steps} | words)
        )
    else:
        scope: Scope = read_settings(found.scope, Scope, path="scope")
        out.print(f"{found.protocol}: {described(scope)}")
        tell_replay(played)
        if played.stopped is not None:
            out.print(f"Step {played.stopped} is no longer possible: the protocol has changed.", style="yellow")
    raise typer.Exit(Exit.VIOLATION if played.problem is not None else Exit.OK)
