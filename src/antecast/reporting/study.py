"""The page of a study: marks first, then each table and figure of the paper with ours beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from antecast.core.errors import InputError
from antecast.papers import STUDIES
from antecast.papers.findings import Finding, Mark, Results, count_marks, from_table, headline
from antecast.papers.layout import Grid, figure_file, lay_out, summary
from antecast.papers.paper import Paper, load_paper
from antecast.reporting.charts import chart
from antecast.reporting.folders import read_json, read_table
from antecast.reporting.page import Block, Chart, Figure, Page, Section, TableBlock, Text, Tone
from antecast.text.wording import share_text


def study_page(studies: Sequence[tuple[Results, Path]], *, command: str) -> Page:
    """One page for one study or several; the paths are where their files lie."""
    findings = [finding for results, _ in studies for finding in results.findings]
    sections = [_overview(studies)]
    for results, folder in studies:
        sections += _sections(results, folder, prefix=len(studies) > 1)
    title = "The papers' figures, and ours" if len(studies) > 1 else f"{load_paper(studies[0][0].study).title}"
    facts = {"command": command} | {results.study: str(folder) for results, folder in studies}
    return Page(
        title=title,
        verdict=headline(findings).text,
        tone=_tone(findings),
        figures=_figures(findings),
        sections=sections,
        facts=facts,
    )


def rebuild(folder: Path) -> Page:
    """The page of a reproduction from the files in its folder, as `antecast reproduce` left them."""
    page = folder / "results.md"
    try:
        heading, *lines = page.read_text(encoding="utf-8").split("\n## ", 1)[0].splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"not readable ({error})", path=page) from None
    name = heading.removeprefix("# ").partition(":")[0]
    if name not in STUDIES:
        raise InputError(f"{name!r} is no study; there are {', '.join(STUDIES)}", path=page)
    known = load_paper(name).items
    table = folder / "findings.parquet"
    try:
        findings = from_table(read_table(table))
    except ValueError as error:
        raise InputError(str(error), path=table) from None
    for each in findings:
        if each.item not in known:
            raise InputError(f"{each.item!r} is no item of {name}; other code wrote it", path=folder)
    figures = {file.stem: read_table(file) for file in sorted((folder / "figures").glob("*.parquet"))}
    notes = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    results = Results(study=name, findings=findings, figures=figures, notes=notes)
    made = folder / "manifest.json"
    quick = " --quick" if folder.resolve().name.endswith("-quick") else ""
    command = read_json(made).get("command") if made.is_file() else None
    return study_page([(results, folder)], command=str(command or f"antecast reproduce {name}{quick}"))


def _tone(findings: Sequence[Finding]) -> Tone:
    """Green only if all that was judged agrees."""
    tones: dict[Mark, Tone] = {Mark.AGREES: "good", Mark.DIFFERS: "mixed"}
    return tones.get(headline(findings).mark, "plain")


_SEVERAL = {
    Mark.AGREES: "agree",
    Mark.DIFFERS: "differ",
    Mark.OURS_ONLY: "ours only",
    Mark.PAPER_ONLY: "the paper's only",
}


def _counted(mark: Mark, count: int) -> str:
    return f"1 {mark}" if count == 1 else f"{count:,} {_SEVERAL[mark]}"


def _figures(findings: Sequence[Finding]) -> list[Figure]:
    counts = count_marks(findings)
    judged = counts[Mark.AGREES] + counts[Mark.DIFFERS]
    shown = [
        Figure(
            _SEVERAL[mark], share_text(counts[mark] / judged), f"{counts[mark]:,} of {judged:,} that can be judged"
        )
        for mark in (Mark.AGREES, Mark.DIFFERS)
        if judged
    ]
    rest = [mark for mark in Mark if mark not in (Mark.AGREES, Mark.DIFFERS) and counts[mark]]
    return shown + [Figure(_SEVERAL[mark], f"{counts[mark]:,}", "nothing to compare with") for mark in rest]


def _overview(studies: Sequence[tuple[Results, Path]]) -> Section:
    blocks: list[Block] = []
    for results, folder in studies:
        paper = load_paper(results.study)
        blocks.append(
            _table(summary(paper, results.findings), f"{results.study}: “{paper.title}”, {paper.authors}")
        )
        blocks += [Text(note) for note in results.notes]
        blocks.append(Text(f"All figures: {folder / 'findings.parquet'}."))
    return Section("Summary", blocks)


def _sections(results: Results, folder: Path, *, prefix: bool) -> list[Section]:
    paper = load_paper(results.study)
    grids = {grid.item: grid for grid in lay_out(paper, results.findings)}
    sections = []
    for item in paper.items:
        blocks: list[Block] = [_table(grids[item], "")] if item in grids else []
        blocks += _charts(paper, item, results, folder)
        if blocks:
            name = f"{results.study}, {item}" if prefix else item
            counts = count_marks([each for each in results.findings if each.item == item])
            gist = ", ".join(_counted(mark, count) for mark, count in counts.items() if count)
            sections.append(Section(f"{name}: {paper.items[item].title}", blocks, label=name, gist=gist))
    return sections


def _charts(paper: Paper, item: str, results: Results, folder: Path) -> list[Block]:
    settings, name = paper.items[item].chart, figure_file(item)
    points = results.figures.get(name)
    if settings is None or points is None or not len(points):
        return []
    printed = paper.points(item)
    plots, cut = chart(points, settings, printed)
    series = f" for each {settings.series_title or settings.series}" if settings.series else ""
    words = settings.words or f"{settings.y_title} against {settings.x_title}{series}."
    words += " Rings, dotted lines, thick bars and plain bands are what the paper gives." if printed else ""
    note = f"{cut} Data: {folder / 'figures' / f'{name}.parquet'}.".strip()
    return [Chart(f"{item}: {paper.items[item].title}", plots, words, note)]


def _table(grid: Grid, title: str) -> TableBlock:
    return TableBlock(title, grid.header, grid.rows, grid.notes)
