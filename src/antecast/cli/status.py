"""`antecast status`: look into a running node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from antecast.cli.console import Json, out
from antecast.cli.tables import show_pairs
from antecast.core import ConfigurationError, InputError


def status(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal of a node that runs here.")],
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print counters and gauges as Prometheus text.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a running node's links, buffers and counters."""
    from antecast.live.control import ask_status

    if journal.is_dir():
        name = journal / "journal"
        raise InputError("is a folder; name a journal" + (f", such as {name}" * name.exists()), path=journal)
    found = ask_status(journal)
    if prometheus:
        print(_prometheus(found), end="")
    elif as_json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    group = f" of group {found['group'][:16]}" if found["group"] else ", without keys"
    out.print(f"node {found['node']}{group}: {found['protocol']}, durability {found['durability']}")
    deliveries, buffers = found["deliveries"], found["buffers"]
    rows = [
        ("calls", f"{found['journal']['calls']:,}"),
        ("deliveries", f"{deliveries['last']:,}, {deliveries['acknowledged']:,} acknowledged"),
        ("uncommitted", f"{buffers['uncommitted_bytes']:,} bytes" + (", paused" * buffers["reading_paused"])),
    ]
    for link in found["links"]:
        waiting = f", {link['waiting_bytes']:,} bytes to send" if link["waiting_bytes"] else ""
        rows.append((f"link to {link['peer']}", f"{link.get('address', 'up')}{waiting}"))
    for transport in found["transports"]:
        if "view" in transport:
            rows.append(("view", ", ".join(map(str, transport["view"])) or "nobody yet"))
    rows += [(name.replace("_", " "), f"{value:,}") for name, value in found["gauges"].items() if value]
    rows += [(name.replace("_", " "), f"{value:,}") for name, value in found["counters"].items() if value]
    show_pairs(rows)


def _prometheus(found: dict[str, Any]) -> str:
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError:
        problem = "needs the package prometheus-client: pip install 'antecast[metrics]'"
        raise ConfigurationError(problem, field="--prometheus") from None
    from antecast.live.counters import COUNTERS

    node = [str(found["node"])]

    class Collected:
        def collect(self) -> Any:
            for name, value in found["counters"].items():
                counter = CounterMetricFamily(f"antecast_{name}", COUNTERS.get(name, name), labels=["node"])
                counter.add_metric(node, value)
                yield counter
            gauges = found["gauges"] | {
                "links": len(found["links"]),
                "uncommitted_bytes": found["buffers"]["uncommitted_bytes"],
                "unacknowledged": found["deliveries"]["last"] - found["deliveries"]["acknowledged"],
                "journal_calls": found["journal"]["calls"],
            }
            for name, value in gauges.items():
                gauge = GaugeMetricFamily(f"antecast_{name}", f"{name.replace('_', ' ')} now", labels=["node"])
                gauge.add_metric(node, value)
                yield gauge
            waiting = GaugeMetricFamily(
                "antecast_link_waiting_bytes", "bytes that wait in a link", labels=["node", "peer"]
            )
            for link in found["links"]:
                waiting.add_metric([*node, str(link["peer"])], link["waiting_bytes"])
            yield waiting

    registry = CollectorRegistry()
    registry.register(Collected())
    return str(generate_latest(registry).decode())
