"""The page of an audit by clocks, spans or kv: the verdict, the stories and their drawings, what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from antecast.reporting.folders import Beside, command_line, read_table
from antecast.reporting.page import Block, Chart, Figure, Page, Section, TableBlock, Text, Tone
from antecast.reporting.plot import AnyMark, Axis, Dot, Label, Plot, Segment, Series
from antecast.text.wording import number, plural, time_text

MOST_ROWS = 40
"""Violations, and files, that a page lists."""

MOST_STORIES = 12
"""Stories that a page tells."""

_TONES: dict[str, Tone] = {"sound": "good", "kept": "good", "violated": "bad", "inconclusive": "plain"}
_ROW_HEIGHT = 56
_CAUSE, _TOO_LATE = "cause to effect", "cause after its effect"
_TOLD = pa.schema(
    [
        *(("story", pa.int64()), ("kind", pa.string()), ("node", pa.string()), ("event", pa.string())),
        *(("file", pa.string()), ("line", pa.int64())),
    ]
)


def model_page(result: Mapping[str, Any], folder: Path) -> Page:
    """The page of the verdict in a folder."""
    beside = Beside(folder)
    summary = beside.summary(_counts(result))
    files = [str(each) for each in result.get("files") or ()]
    sections = [
        *_stories(result, beside),
        *_violations(folder),
        *_skew(folder),
        Section("Counts", [_count_table(result, summary)]),
        *_notes(result),
        _read(files),
    ]
    facts = {"command": command_line(result.get("command")) or "from Python"}
    facts |= {name: str(result[name]) for name in ("version", "model", "format") if result.get(name)}
    facts |= {"folder": str(folder), "tables": ", ".join(["violations.parquet", *beside.tidy()])}
    what = files[0] if len(files) == 1 else plural(len(files), "file")
    return Page(
        title=f"Audit of {what}",
        verdict=_verdict(result),
        tone=_TONES.get(str(result["verdict"]), "plain"),
        figures=[Figure(name.replace("_", " "), number(each)) for name, each in list(_counts(result).items())[:5]],
        sections=sections,
        facts=facts,
    )


def _counts(result: Mapping[str, Any]) -> dict[str, int]:
    counts = {name: int(result[name]) for name in ("operations", "transactions", "sessions") if name in result}
    return counts | {name: int(each) for name, each in (result.get("counts") or {}).items()}


def _verdict(result: Mapping[str, Any]) -> str:
    outcome = str(result["verdict"]).capitalize()
    if "levels" in result:
        broken = [level for level, each in result["levels"].items() if each == "violated"]
        words = f"levels violated: {', '.join(broken)}" if broken else "no level is violated"
        return f"{outcome}: {plural(result['operations'], 'operation')}; {words}."
    found = [f"{kind}: {count:,}" for kind, count in (result.get("found") or {}).items() if count]
    found += [f"{count:,} {words}" for words, count in (result.get("unsettled") or {}).items() if count]
    return f"{outcome}: {result.get('scope', '')}{'; ' if found else ''}{', '.join(found)}."


def _stories(result: Mapping[str, Any], beside: Beside) -> list[Section]:
    stories = list(result.get("stories") or ())
    if not stories:
        told = result.get("witness")
        return [Section("Witness", [Text(str(told), pre=True)])] if isinstance(told, str) else []
    rows = [
        {"story": place, "kind": story["kind"], "event": event["label"]}
        | {name: event.get(name) for name in ("node", "file", "line")}
        for place, story in enumerate(stories)
        for event in story["events"]
    ]
    where = beside.write("stories", pa.Table.from_pylist(rows, schema=_TOLD))
    blocks: list[Block] = []
    for story in stories[:MOST_STORIES]:
        blocks += [
            Text(f"{_sentence(story['kind'])}: {story['words']}."),
            *_drawn(story, "session " if result.get("model") == "kv" else "", where),
            Text(str(story["diagram"]), pre=True),
        ]
    if len(stories) > MOST_STORIES:
        blocks.append(Text(f"Cut: {len(stories) - MOST_STORIES:,} more are in {where}."))
    return [Section("Witnesses", blocks)]


def _drawn(story: Mapping[str, Any], noun: str, where: str) -> list[Block]:
    """The drawing of a story in which something leads from one event to another."""
    if not story["arrows"]:
        return []
    plot = story_plot(story, noun)
    words = "Lines lead from a cause to its effect; the events stand in the order of the log."
    return [Chart("What happened", [plot], words, f"Data: {where}.")]


def story_plot(story: Mapping[str, Any], noun: str = "") -> Plot:
    """A line per node, the events of a story in the order told, and lines from causes to effects."""
    events = story["events"]
    nodes = list(dict.fromkeys(f"{noun}{event['node']}" for event in events))
    places = [(float(step + 1), float(nodes.index(f"{noun}{event['node']}"))) for step, event in enumerate(events)]
    marks: list[AnyMark] = [
        Segment(x=x, y=y, x2=x2, y2=y2, width=1.7, series=_CAUSE if x < x2 else _TOO_LATE)
        for (x, y), (x2, y2) in ((places[a], places[b]) for a, b in story["arrows"])
    ]
    ways = {each.series for each in marks}
    for event, (x, y) in zip(events, places, strict=True):
        where = f", {event['file']}:{event['line']}" if event.get("file") else ""
        marks.append(Dot(x=x, y=y, size=5.5, tip=f"{event['node']}: {event['label']}{where}", series="event"))
        marks.append(Label(x=x, y=y, text=str(event["label"]), needed=False, above=True, series="event"))
    return Plot(
        x=Axis(title="order", low=0.5, high=len(events) + 0.5, ticks=()),
        y=Axis(names=nodes),
        marks=marks,
        series=[
            Series("event", "var(--text)", swatch="dot"),
            *(
                each
                for each in (Series(_CAUSE, "var(--c1)"), Series(_TOO_LATE, "var(--bad)"))
                if each.name in ways
            ),
        ],
        pick=False,
        height=_ROW_HEIGHT * max(2, len(nodes)),
    )


def _violations(folder: Path) -> list[Section]:
    file = folder / "violations.parquet"
    rows = read_table(file).to_pylist() if file.is_file() else []
    if not rows:
        return []
    kind = "kind" if "kind" in rows[0] else "anomaly"
    words = "words" if "words" in rows[0] else "operation"
    lines = [(str(row[kind]), str(row[words]), f"{row['file']}:{row['line']}") for row in rows[:MOST_ROWS]]
    notes = [f"Cut: {len(rows) - MOST_ROWS:,} more are in violations.parquet."] if len(rows) > MOST_ROWS else []
    table = TableBlock(
        "", ("kind", "what is wrong", "where"), lines, [*notes, "Data: violations.parquet."], cards=True
    )
    return [Section("Violations", [table])]


def _skew(folder: Path) -> list[Section]:
    file = folder / "skew.parquet"
    rows = read_table(file).to_pylist() if file.is_file() else []
    if not rows:
        return []
    lines = [
        (
            row["service"],
            row["other"],
            f"{row['calls']:,}",
            f"{row['early']:,}",
            time_text(row["behind_at_least"]),
            time_text(row["behind_at_most"]),
        )
        for row in rows[:MOST_ROWS]
    ]
    header = ("service", "other service", "calls", "early", "other is behind by at least", "by at most")
    text = "What calls say of the clocks of each pair of services. Negative numbers mean that the other is ahead."
    return [Section("Clock skew", [Text(text), TableBlock("", header, lines, ["Data: skew.parquet."])])]


def _count_table(result: Mapping[str, Any], summary: str) -> TableBlock:
    counted = {**_counts(result), **(result.get("found") or {}), **(result.get("unsettled") or {})}
    rows = [(name.replace("_", " "), f"{count:,}") for name, count in counted.items()]
    return TableBlock("", ("", "count"), rows, [f"Data: {summary}."])


def _notes(result: Mapping[str, Any]) -> list[Section]:
    notes = [*(result.get("notes") or ()), *(result.get("missing") or ()), *(result.get("assumptions") or ())]
    return [Section("What it rests on", [Text(f"{_sentence(str(note))}.") for note in notes])] if notes else []


def _sentence(text: str) -> str:
    """With a capital letter, unless it begins with the name of a file or of a host."""
    first = text.partition(" ")[0]
    return f"{text[:1].upper()}{text[1:]}" if first.rstrip(":,").replace("-", "").isalpha() else text


def _read(files: list[str]) -> Section:
    more = [f"Cut: {len(files) - MOST_ROWS:,} more are in verdict.json."] if len(files) > MOST_ROWS else []
    return Section("Files read", [TableBlock("", ("file",), [(each,) for each in files[:MOST_ROWS]], more)])
