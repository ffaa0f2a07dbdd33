"""The page of an audit: the verdict, what it rests on, the witness, and what could not be judged.

Everything comes from the folder that `antecast audit --out` writes: `verdict.json` and `violations.parquet`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from antecast.core.errors import InputError
from antecast.history.causes import by_cause, message_of
from antecast.history.witness import Event, Witness
from antecast.reporting import figures
from antecast.reporting.diagram import witness_diagram
from antecast.reporting.folders import Beside, command_line, read_json, read_table
from antecast.reporting.page import Block, Chart, Figure, Page, Section, TableBlock, Text, Tone
from antecast.reporting.plot import Axis
from antecast.reporting.run import draw
from antecast.text.wording import at_position, number, plural, share_text

MOST_ROWS = 40
"""Causes of violations, and files, that a page lists."""

MOST_NODES = 24
"""Nodes that the plot of violations shows: those with most."""

_TONES: dict[str, Tone] = {"causal": "good", "violated": "bad", "inconclusive": "plain"}
_MEANING = {
    "nodes": "nodes that broadcast or delivered something",
    "messages": "messages whose broadcast is in the log",
    "deliveries": "deliveries, repeated and unknown ones included",
    "early": "at a node before something of their causal past",
    "early_broadcasts": "those of them that are the node's own broadcasts, and no deliveries",
    "late": "delivered after something that follows them",
    "duplicates": "delivered again",
    "before_broadcast": "delivered before their broadcast, by the clock",
    "unknown": "delivered without a broadcast in the log",
    "pairs": "pairs in the wrong order",
}
_JUDGED = ("early", "late", "duplicates", "before_broadcast", "unknown")
_COLOURS = {"early": "var(--bad)", "late": "var(--c1)", "duplicate": "var(--c3)", "before-broadcast": "var(--c5)"}
"""Problems in their order; the first two have the colours of the witness."""


def audit_page(folder: Path) -> Page:
    """The page of the audit in a folder; its tables go to `report/` beside it."""
    result = read_json(folder / "verdict.json")
    if result.get("model", "broadcast") != "broadcast" and "verdict" in result:
        from antecast.reporting.audit_models import model_page

        return model_page(result, folder)
    try:
        outcome: str = result["verdict"]
        counts: Mapping[str, int | None] = result["counts"]
        tone = _TONES[outcome]
    except (KeyError, TypeError) as error:
        raise InputError(f"not the verdict of an audit (no {error})", path=folder / "verdict.json") from None
    if not counts.get("deliveries"):
        tone = "plain"  # nothing was judged, whatever the word for it
    beside = Beside(folder)
    summary = beside.summary(counts)
    violations = folder / "violations.parquet"
    rows = read_table(violations).to_pylist() if violations.is_file() else []
    emulation = folder / "emulation.json"
    compared = read_json(emulation) if emulation.is_file() else {}
    sections = [
        *_beside_the_simulator(compared),
        *_witness(result.get("witness"), beside),
        *_unknown(counts, result),
        *_violations(rows, counts, beside),
        *_runs(result),
        _counts(counts, summary),
        _read(result),
    ]
    return Page(
        title=f"Emulation of {compared['scenario']}" if compared else f"Audit of {_what(result)}",
        verdict=_verdict(outcome, counts),
        tone=tone,
        figures=[
            Figure("nodes", number(counts.get("nodes"))),
            Figure("messages", number(counts.get("messages"))),
            Figure("deliveries", number(counts.get("deliveries"))),
            Figure("too early", _of(counts, "early"), plural(_early(counts), "delivery", "deliveries")),
            Figure("not in the log", number(counts.get("unknown")), "deliveries without a broadcast"),
        ],
        sections=sections,
        facts=_facts(result, folder, beside),
    )


def _beside_the_simulator(compared: Mapping[str, Any]) -> list[Section]:
    """What an emulation did, and the simulator's run of the same scenario."""
    if not compared:
        return []
    runs = ("simulator", "emulation")
    rows = [(what, *(str(compared[what][run]) for run in runs)) for what in ("verdict", "messages", "deliveries")]
    counts = compared["deliveries"]
    same = "The same messages were delivered at the same nodes."
    differ = (
        f"{counts['both']:,} deliveries are in both runs, {counts['only_simulator']:,} only in the simulator's,"
        f" {counts['only_emulation']:,} only in the emulation."
    )
    made = (
        f"{compared['protocol']} on {plural(compared['nodes'], 'process', 'processes')},"
        f" {compared['speed']:g} times as fast as the scenario's clock;"
        f" the latest step was {compared['lateness']:g} s late."
    )
    table = TableBlock("", ("", *runs), rows, ["Data: emulation.json."])
    return [
        Section("Beside the simulator", [Text(made), table, Text(same if compared["same_deliveries"] else differ)])
    ]


def _of(counts: Mapping[str, int | None], name: str) -> str:
    """A count as a share of all deliveries: logs of different lengths compare."""
    count, whole = counts.get(name), counts.get("deliveries")
    if name == "early" and count is not None:
        count -= counts.get("early_broadcasts") or 0
    return "–" if count is None or not whole else share_text(count / whole)


def _early(counts: Mapping[str, int | None]) -> int:
    """Deliveries that came too early, without a node's own broadcasts."""
    return (counts.get("early") or 0) - (counts.get("early_broadcasts") or 0)


def _what(result: Mapping[str, Any]) -> str:
    files = result.get("files") or ["a log"]
    return str(files[0]) if len(files) == 1 else plural(len(files), "file")


def _verdict(outcome: str, counts: Mapping[str, int | None]) -> str:
    scope = f"{plural(counts.get('deliveries') or 0, 'delivery', 'deliveries')} of "
    scope += f"{plural(counts.get('messages') or 0, 'message')} at {plural(counts.get('nodes') or 0, 'node')}"
    if outcome == "causal" and not counts.get("deliveries"):
        return f"Nothing was delivered, so there is no order to judge: {scope}."
    if outcome == "causal":
        return f"Causal order is kept in {scope}."
    if outcome == "inconclusive" and not counts.get("deliveries"):
        return f"Inconclusive: nothing was delivered ({scope})."
    if outcome == "inconclusive" and not counts.get("unknown"):
        return f"Inconclusive: nothing wrong is found in {scope}, but rows seem to be missing."
    if outcome == "inconclusive":
        lost = plural(counts.get("unknown") or 0, "delivery has", "deliveries have")
        return f"Inconclusive: nothing wrong is found in {scope}, but {lost} no broadcast in the log."
    found = {"too early": _early(counts), "too late": counts.get("late"), "again": counts.get("duplicates")}
    found["before their broadcast"] = counts.get("before_broadcast")
    parts = [f"{count:,} {words}" for words, count in found.items() if count]
    if own := counts.get("early_broadcasts"):
        parts.append(f"and {plural(own, 'broadcast')} before something of their past was delivered")
    return f"Causal order is violated: of {scope}, {', '.join(parts)}."


def _witness(told: Mapping[str, Any] | None, beside: Beside) -> list[Section]:
    if told is None:
        return []
    words = str(told["words"])
    blocks: list[Block] = [Text(words[:1].upper() + words[1:])]
    if told.get("events"):
        events = tuple(Event(each["node"], each["pos"], each["verb"], each["message"]) for each in told["events"])
        witness = Witness(told.get("run"), told["node"], tuple(told["chain"]), words, events)
        blocks.append(draw(witness_diagram(witness, None), beside, "witness"))
    return [Section("Witness", [*blocks, Text(str(told["diagram"]), pre=True)])]


def _unknown(counts: Mapping[str, int | None], result: Mapping[str, Any]) -> list[Section]:
    lost = counts.get("unknown")
    if not lost:
        open_ = [str(each) for each in result.get("unsettled") or ()]
        return [Section("What cannot be judged", [Text(f"{each}.") for each in open_])] if open_ else []
    text = (
        f"{plural(lost, 'delivery is', 'deliveries are')} of messages whose broadcast is not in the log. Such a "
        "message has no known past, so it can hide violations and make none: what is said of the others stands. "
        "Logs of nodes that are missing, or of a time before the log begins, are the usual reason."
    )
    blocks: list[Block] = [Text(text)]
    if examples := result.get("unknown_examples"):
        blocks.append(TableBlock("Examples", ("delivery",), [(str(each),) for each in examples]))
    return [Section("What cannot be judged", blocks)]


def _violations(rows: list[dict[str, Any]], counts: Mapping[str, int | None], beside: Beside) -> list[Section]:
    if not rows:
        return []
    if len({row.get("run") for row in rows}) == 1:
        rows = [row | {"run": None} for row in rows]  # no need to tell runs apart
    nodes = Counter(_node(row) for row in rows)
    shown = [node for node, _ in sorted(nodes.items(), key=lambda each: (-each[1], each[0]))[:MOST_NODES]]
    tally = Counter((_node(row), row["problem"]) for row in rows)
    points = [
        {"node": node, "problem": problem, "violations": tally[node, problem]}
        for node in shown
        for problem in _COLOURS
        if tally[node, problem]
    ]
    where = beside.write("violations-by-node", pa.Table.from_pylist(points))
    found = {point["problem"] for point in points}
    plot = figures.bars(
        points,
        Axis(names=shown),
        Axis(title="violations", whole=True),
        ("node", "violations"),
        series="problem",
        colours={problem: colour for problem, colour in _COLOURS.items() if problem in found},
    )
    total = sum(counts.get(name) or 0 for name in ("early", "late", "duplicates", "before_broadcast"))
    words = f"{plural(len(nodes), 'node has', 'nodes have')} violations, {shown[0]} most: {nodes[shown[0]]:,}."
    cuts = []
    if total > len(rows):
        cuts.append(f"{len(rows):,} violations are listed of {total:,}")
    if len(nodes) > len(shown):
        cuts.append(f"the {len(shown)} nodes with most of them are shown")
    cut = f"Cut: {'; '.join(cuts)}. " if cuts else ""
    table = _by_cause(rows)
    chart = Chart("Where they are", [plot], words, f"{cut}Data: {where}, violations.parquet.")
    return [Section("Violations", [chart, table])]


def _by_cause(rows: list[dict[str, Any]]) -> TableBlock:
    """Violations that have one cause in one row: a message that came late can make hundreds of others early."""
    ordered = by_cause(rows)
    lines = []
    for group in ordered[:MOST_ROWS]:
        first, count = group.rows[0], len(group.rows)
        example = f"{message_of(first)} at node {_node(first)}, {at_position(first['pos'])}"
        example += f"; the cause at {at_position(first['cause_pos'])}" if first["cause_seq"] is not None else ""
        share = share_text(count / len(rows))
        lines.append((group.cause or "–", group.problem, f"{count:,}", share, f"{group.nodes:,}", example))
    more = [f"Cut: {len(ordered) - MOST_ROWS:,} more causes are in violations.parquet."] * (
        len(ordered) > MOST_ROWS
    )
    header = ("because of", "problem", "violations", "of those listed", "nodes", "the first")
    return TableBlock("By cause", header, lines, [*more, "Data: violations.parquet."], cards=True)


def _node(row: Mapping[str, Any]) -> str:
    return f"{row['run']} {row['node']}" if row.get("run") is not None else str(row["node"])


def _runs(result: Mapping[str, Any]) -> list[Section]:
    """The verdict on each run, those that are not causal first."""
    runs: Mapping[str, Mapping[str, Any]] = result.get("runs") or {}
    if len(runs) < 2:
        return []
    ordered = sorted(runs.items(), key=lambda each: (each[1]["verdict"] == "causal", each[0]))
    names = ("deliveries", "early", "late", "duplicates", "unknown")
    rows = [(run, each["verdict"], *(number(each[name]) for name in names)) for run, each in ordered[:MOST_ROWS]]
    more = [f"Cut: {len(runs) - MOST_ROWS:,} more are in verdict.json."] * (len(runs) > MOST_ROWS)
    return [Section("Runs", [TableBlock("", ("run", "verdict", *names), rows, more)])]


def _counts(counts: Mapping[str, int | None], summary: str) -> Section:
    rows = [
        (name.replace("_", " "), number(counts[name]), _of(counts, name) if name in _JUDGED else "", words)
        for name, words in _MEANING.items()
        if name in counts
    ]
    header = ("", "count", "of deliveries", "meaning")
    return Section("Counts", [TableBlock("", header, rows, [f"Data: {summary}."])])


def _read(result: Mapping[str, Any]) -> Section:
    files = [str(each) for each in result.get("files") or ()]
    more = [f"Cut: {len(files) - MOST_ROWS:,} more are in verdict.json."] if len(files) > MOST_ROWS else []
    blocks: list[Block] = [TableBlock("", ("file",), [(each,) for each in files[:MOST_ROWS]], more)]
    names = {
        f"{what} {name}": str(value)
        for what in ("column", "kind")
        for name, value in (result.get(f"{what}s") or {}).items()
        if name != value
    }
    if names:
        blocks.append(TableBlock("What the log calls things", ("", "in the log"), list(names.items())))
    return Section("Files read", blocks)


def _facts(result: Mapping[str, Any], folder: Path, beside: Beside) -> dict[str, str]:
    facts = {"command": command_line(result.get("command")) or "from Python"}
    told = ("version", "engine", "clock", "python", "assumed")
    facts |= {name: str(result[name]) for name in told if result.get(name)}
    return facts | {"folder": str(folder), "tables": ", ".join(["violations.parquet", *beside.tidy()])}
