"""The marks of the last run at the papers' sizes, kept with the program, and how those of a quick run compare.

`full.csv` of a study holds one row for each finding. A quick run looks at fewer seeds and smaller networks; where
that changes a mark, its notes say so, with the reason from the study's TOML file (`quick`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from io import StringIO
from typing import TypeAlias

from antecast.papers.findings import Finding, Mark, Results
from antecast.papers.paper import load_paper

Key: TypeAlias = tuple[str, str, str]
"""Item, quantity and setting."""

FILE = "full.csv"


def full_marks(study: str) -> dict[Key, Mark]:
    """The marks of the full size, as far as it was run."""
    file = resources.files("antecast.papers") / study / FILE
    if not file.is_file():
        return {}
    rows = csv.DictReader(StringIO(file.read_text(encoding="utf-8")))
    return {(row["item"], row["quantity"], row["setting"]): Mark(row["mark"]) for row in rows}


def as_csv(findings: Iterable[Finding]) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("item", "quantity", "setting", "mark"))
    writer.writerows((each.item, each.quantity, each.setting, each.mark) for each in findings)
    return out.getvalue()


def quick_notes(results: Results) -> list[str]:
    """What a reader of quick results should know about the full ones."""
    marks = full_marks(results.study)
    return _notes(results.findings, marks, load_paper(results.study).quick) if marks else []


def _notes(findings: Sequence[Finding], full: Mapping[Key, Mark], reason: str) -> list[str]:
    made = [each for each in findings if each.unit == "statement" or each.ours is not None]
    both = [(each, full.get((each.item, each.quantity, each.setting))) for each in made]
    shared = [(each, mark) for each, mark in both if mark is not None]
    changed = [(each, mark) for each, mark in shared if mark is not each.mark]
    alone = len(full) - len(shared)
    notes = []
    if changed:
        listed = "; ".join(f"{_named(each)} ({each.mark}, at full size {mark})" for each, mark in changed)
        because = f", since {reason}" if reason else ""
        notes.append(f"{len(changed)} of {len(shared)} marks are not those of the full size{because}: {listed}.")
    else:
        notes.append(f"All {len(shared)} marks are those of the full size.")
    if alone:
        notes.append(f"{alone} figures are made at the full size only.")
    return notes


def _named(finding: Finding) -> str:
    return ", ".join(filter(None, (finding.item, finding.quantity, finding.setting)))
