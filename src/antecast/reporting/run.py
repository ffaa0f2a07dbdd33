"""The page of a run: what became of causal order, what it took, and how to make it again.

Everything comes from the run's folder: the event log, the samples and the manifest. The verdict is the auditor's;
it can be passed in, else a log of up to `JUDGED_ROWS` rows is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.errors import ConfigurationError
from antecast.core.guarantees import Guarantee
from antecast.history.audit import audit
from antecast.history.log import iter_events
from antecast.history.manifest import applications
from antecast.history.measure import SAMPLE_ROWS, Measures, known, measure
from antecast.history.promises import judge_promises, tell
from antecast.history.rows import COLUMNS
from antecast.history.verdict import Verdict
from antecast.history.witness import Witness
from antecast.reporting import run_charts
from antecast.reporting.diagram import Diagram, witness_diagram
from antecast.reporting.folders import Beside, command_line, read_json
from antecast.reporting.page import Block, Chart, Code, Figure, Page, Section, TableBlock, Text, Tone
from antecast.reporting.run_charts import Units
from antecast.reporting.spacetime import Past, parse_message
from antecast.reporting.units import Unit
from antecast.text.toml import format_toml
from antecast.text.wording import number, plural, share_text

JUDGED_ROWS = 10_000_000
"""Rows of a log that a report judges by itself; `antecast audit` takes any number."""


def run_page(
    folder: Path, *, verdict: Verdict | None = None, judge: bool = True, message: str | None = None
) -> Page:
    """The page of the run in a folder; its tables go to `report/` beside it.

    `message` is the one whose causal past is drawn, such as `49.1`. `judge=False` leaves a run without a verdict
    unjudged.
    """
    manifest = read_json(folder / "manifest.json")
    scenario: Mapping[str, Any] = manifest.get("scenario", {})
    name = str(scenario.get("protocol", {}).get("name", "the protocol"))
    chosen = None if message is None else parse_message(message)
    measures = measure(lambda: iter_events(folder), applications=applications(scenario), sample_rows=SAMPLE_ROWS)
    if verdict is None and judge and measures.events <= JUDGED_ROWS:
        verdict = audit(lambda: iter_events(folder, list(COLUMNS)), clock="global")
    beside = Beside(folder)
    units = Units.of(measures, manifest.get("ended_ns"))
    summary = beside.summary(_numbers(measures, verdict))
    text, tone = _verdict(name, verdict, folder, measures, manifest, judge=judge)
    sections: list[Section | None] = []
    if verdict is not None and verdict.witness is not None:
        sections.append(_witness(verdict.witness, folder, beside, units.simulated))
    sections += [
        run_charts.latency(measures, units, beside),
        _past(folder, chosen, verdict, beside, units.simulated),
        run_charts.ratio(measures, units, beside),
        run_charts.overhead(measures, units, beside, summary),
        run_charts.buffers(folder, units, beside),
        _troubles(manifest),
        _counts(measures, verdict, summary),
        _repeat(manifest, scenario),
    ]
    lead = [
        f"{plural(measures.nodes, 'node')}, {measures.counts['broadcast']:,} broadcasts and "
        f"{plural(measures.counts['deliver'], 'delivery', 'deliveries')} in "
        f"{units.simulated(manifest.get('ended_ns'))} of simulated time, seed {manifest.get('seed')}."
    ]
    lead += [f"{note}." for note in manifest.get("notes") or ()]
    if manifest.get("status") == "interrupted":
        lead.append("The run was interrupted: this is what happened until then.")
        tone = "plain" if tone == "good" else tone
    return Page(
        title=f"{scenario.get('name') or 'A run'}: {name}",
        verdict=text,
        tone=tone,
        lead=lead,
        figures=_figures(measures, units),
        sections=[section for section in sections if section is not None],
        facts=_facts(manifest, folder, beside),
    )


def _numbers(measures: Measures, verdict: Verdict | None) -> dict[str, float | int | None]:
    cost, latency = measures.cost, measures.delivery
    wire = {
        "frames": cost.frames,
        "bytes": cost.bytes,
        "payload_bytes": cost.payload_bytes,
        "control_bytes": cost.control_bytes,
        "frames_per_delivery": known(cost.frames_per_delivery),
        "control_bytes_per_broadcast": known(cost.control_bytes_per_broadcast),
    }
    return {
        "nodes": measures.nodes,
        **{f"events_{kind}": count for kind, count in measures.counts.items()},
        "delivery_ratio": known(measures.ratio),
        "latency_min_ns": known(latency.min),
        "latency_mean_ns": known(latency.mean),
        "latency_max_ns": known(latency.max),
        **{f"latency_p{100 * fraction:g}_ns": value for fraction, value in latency.quantiles},
        **(wire if measures.has_frames else {}),
        **({} if verdict is None else {f"audit_{name}": count for name, count in verdict.counts.items()}),
    }


def _verdict(
    name: str,
    verdict: Verdict | None,
    folder: Path,
    measures: Measures,
    manifest: Mapping[str, Any],
    *,
    judge: bool,
) -> tuple[str, Tone]:
    if verdict is None:
        why = f"its log has {measures.events:,} rows" if judge else "judging was turned off"
        return (
            f"Causal order of {name} was not judged here, since {why}; `antecast audit {folder}` does it.",
            "plain",
        )
    promises = judge_promises(
        [Guarantee(each) for each in manifest.get("promised", ())],
        verdict.tally,
        lambda: _events(folder),
        elsewhere=measures.elsewhere,
        latest=manifest.get("latest_delivery_ns"),
    )
    told = tell(name, promises, verdict)
    scope = f" in all {plural(verdict.tally.deliveries, 'delivery', 'deliveries')}" if told.tone == "good" else ""
    return f"{told.headline[0].upper()}{told.headline[1:]}{told.rest}{scope}.", told.tone


def _events(folder: Path) -> pa.Table:
    return pa.Table.from_batches(iter_events(folder, list(COLUMNS)))


def _figures(measures: Measures, units: Units) -> list[Figure]:
    quantiles, time = dict(measures.delivery.quantiles), units.latency
    shown = [
        Figure("delivered", share_text(known(measures.ratio)), "of what other nodes could"),
        Figure("median latency", time(quantiles.get(0.5)), "broadcast to delivery"),
        Figure("95 % within", time(quantiles.get(0.95)), f"slowest {time(measures.delivery.max)}"),
    ]
    if measures.has_frames:
        cost = measures.cost
        shown += [
            Figure(
                "control bytes", units.message(cost.control_bytes_per_broadcast), "per message, all hops together"
            ),
            Figure("frames", number(cost.frames_per_delivery), "per delivery"),
        ]
    return shown


def witness_section(folder: Path, beside: Beside) -> Section | None:
    """The witness against the run in a folder; None if there is none, or the log is too long to judge here."""
    if pq.ParquetFile(folder / "events.parquet").metadata.num_rows > JUDGED_ROWS:
        return None
    verdict = audit(lambda: iter_events(folder, list(COLUMNS)), clock="global")
    return None if verdict.witness is None else _witness(verdict.witness, folder, beside)


def _witness(witness: Witness, folder: Path, beside: Beside, unit: Unit | None = None) -> Section:
    words = witness.words[:1].upper() + witness.words[1:]
    blocks: list[Block] = [Text(words), draw(witness_diagram(witness, folder), beside, "witness", unit=unit)]
    return Section("Witness", [*blocks, Text(witness.diagram, pre=True)])


def draw(diagram: Diagram, beside: Beside, name: str, remark: str = "", *, unit: Unit | None = None) -> Chart:
    """A diagram as a block, its events beside the page."""
    where = beside.write(name, diagram.table)
    hint = "Click a mark, or choose above, to follow one message." if len(diagram.roles) > 1 else ""
    plot, breaks = diagram.plot(unit)
    note = " ".join(part for part in (breaks, hint, diagram.cut, remark, f"Data: {where}.") if part)
    return Chart(diagram.title, [plot], diagram.words, note)


def _past(
    folder: Path, chosen: tuple[int, int] | None, verdict: Verdict | None, beside: Beside, unit: Unit
) -> Section | None:
    witness = None if verdict is None else verdict.witness
    also: list[int] = []
    wanted = chosen
    if wanted is None and witness is not None:
        wanted = parse_message(witness.chain[-1])
        also = [int(str(witness.node)), *(int(str(event.node)) for event in witness.events)]
    past = Past(folder, until=wanted)
    message = past.telling() if wanted is None else past.find(*wanted)
    if message is None:
        if chosen is not None:
            problem = f"the log has no broadcast of {chosen[0]}:{chosen[1]}; nodes have {_range(past)}"
            raise ConfigurationError(problem, field="--message")
        return None
    diagram = past.diagram(message, also=also)
    how = "the one that came too early" if wanted else "the largest past that can be drawn whole"
    another = f"{'' if chosen else f'This is {how}. '}Another one: antecast report {folder} --message NODE.NUMBER."
    return Section("Causal past", [draw(diagram, beside, "space-time", another, unit=unit)])


def _range(past: Past) -> str:
    index = past.index
    if not len(index):
        return "no messages"
    names = [index.name(each) for each in (0, len(index) - 1)]
    return f"{len(index):,} messages, such as {names[0]} and {names[-1]}"


def _troubles(manifest: Mapping[str, Any]) -> Section | None:
    """Refused frames, alerts and stray frames: what went wrong without ending the run."""
    rows = [
        (words, f"{manifest[name]:,}")
        for name, words in (
            ("refused_frames", "frames refused"),
            ("alerts", "alerts"),
            ("astray_frames", "frames sent to a node without a link"),
        )
        if manifest.get(name)
    ]
    if not rows:
        return None
    blocks: list[Block] = [TableBlock("", ("", "count"), rows, ["Data: manifest.json."], small=True)]
    blocks += [Text(text) for text in manifest.get("troubles", ())]
    return Section("Troubles", blocks)


def _counts(measures: Measures, verdict: Verdict | None, summary: str) -> Section:
    rows = [(kind, f"{count:,}") for kind, count in measures.counts.items() if count]
    blocks: list[Block] = [
        TableBlock("Events by kind", ("kind", "events"), rows, [f"Data: {summary}, events.parquet."], small=True)
    ]
    if verdict is not None:
        of = verdict.counts.get("deliveries") or 0
        counts = [
            (name.replace("_", " "), "–" if count is None else f"{count:,}", _share(name, count, of))
            for name, count in verdict.counts.items()
        ]
        header = ("", "count", "of deliveries")
        blocks.append(TableBlock("What the verdict rests on", header, counts, [f"Data: {summary}."], small=True))
    return Section("Counts", blocks)


def _share(name: str, count: int | None, deliveries: int) -> str:
    judged = name in ("early", "late", "duplicates", "before_broadcast", "unknown")
    return share_text(count / deliveries) if judged and deliveries and count is not None else ""


def _repeat(manifest: Mapping[str, Any], scenario: Mapping[str, Any]) -> Section:
    blocks: list[Block] = []
    command = command_line(manifest.get("command"), without_folder=True)
    if command is not None and " run " in f"{command} ":
        blocks += [Text("The same scenario and seed make the same run, event by event:"), Code(command)]
        blocks.append(Text("All parameters, with every default written out:"))
    else:
        blocks.append(
            Text("Save these parameters as scenario.toml; `antecast run scenario.toml` makes the same run:")
        )
    return Section("Parameters", [*blocks, Code(format_toml(scenario))])


def _facts(manifest: Mapping[str, Any], folder: Path, beside: Beside) -> dict[str, str]:
    facts = {"command": command_line(manifest.get("command")) or "from Python"}
    inputs: Mapping[str, str] = manifest.get("inputs") or {}
    names: Sequence[str] = (
        "run",
        "status",
        "seed",
        "engine",
        "version",
        "code",
        "revision",
        "schema",
        "python",
        "started",
    )
    facts |= {name: str(manifest[name]) for name in names if manifest.get(name) is not None}
    if manifest.get("engine_reason"):
        facts["engine"] += f" ({manifest['engine_reason']})"
    facts |= {f"input {path}": digest for path, digest in inputs.items()}
    took = [f"{manifest[name]:.2f} s {word}" for name, word in _TOOK.items() if manifest.get(name) is not None]
    facts |= {"took": ", ".join(took)} if took else {}
    facts |= {"folder": str(folder), "tables": ", ".join(["events.parquet", "samples.parquet", *beside.tidy()])}
    return facts


_TOOK = {"wall_seconds": "wall", "cpu_seconds": "CPU"}
