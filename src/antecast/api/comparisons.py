"""Comparisons of protocols on the network of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from antecast.api.given import PathLike, parsed
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
from antecast.core.errors import ConfigurationError, LocalMisuse

if TYPE_CHECKING:
    from antecast.comparison.result import Comparison
    from antecast.sim.scenario import Scenario
    from antecast.spark.sweep import SweepProgress


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
    timeout = parsed("run_timeout", run_timeout, _seconds)
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

    tolerated = parsed("max_violations", violations, parse_violations)
    return Demands(
        violations=None if tolerated is None else tolerated[0],
        violations_relative=True if tolerated is None else tolerated[1],
        latency=parsed("max_latency", latency, parse_latency),
        bytes=size,
        delivery=parsed("min_delivery", delivery, parse_share),
    )


def _seconds(text: str) -> float:
    from antecast.comparison.demands import parse_latency

    return parse_latency(text) / 1e9


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
