"""Put the results of the studies at full size into the documentation, and their marks into the package.

    python tools/results.py reproductions

Reads reproductions/STUDY of every study that is there, and leaves the others as they are. Writes
docs/results/STUDY.md, docs/results/README.md and src/antecast/papers/STUDY/full.csv. Nothing in these is typed
by hand.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from antecast.papers import STUDIES
from antecast.papers.findings import Mark, count_marks, from_table
from antecast.papers.full import FILE, as_csv
from antecast.papers.output import read_manifest
from antecast.papers.paper import load_paper

SHOWN = (Mark.AGREES, Mark.DIFFERS, Mark.OURS_ONLY)
"""At full size everything is run, so nothing is the paper's only."""

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "results"

HEAD = """\
# Results

The tables of the last run at the papers' sizes, as `make results` wrote them: every figure of a paper with ours
beside it, a mark, what it was judged by, and the reason where they differ. [Studies](../studies.md) says how they
are made.

| study | paper | figures | agrees | differs | ours only | time | cores |
|---|---|---|---|---|---|---|---|
"""


def main(folder: Path) -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    index = PAGES / "README.md"
    before = index.read_text(encoding="utf-8").splitlines() if index.is_file() else []
    rows = []
    for study in STUDIES:
        own = folder / study
        if not (own / "findings.parquet").is_file():
            print(f"{study}: no results in {own}, left as it is")
            rows += [row for row in before if row.startswith(f"| [{study}](")]
            continue
        findings = from_table(pq.read_table(own / "findings.parquet"))
        (PAGES / f"{study}.md").write_text((own / "results.md").read_text(encoding="utf-8"), encoding="utf-8")
        (ROOT / "src" / "antecast" / "papers" / study / FILE).write_text(as_csv(findings), encoding="utf-8")
        counts, made = count_marks(findings), read_manifest(own)
        marks = " | ".join(str(counts[mark]) for mark in SHOWN)
        time = f"{made['seconds'] / 60:,.0f} min"
        title = load_paper(study).title
        rows.append(f"| [{study}]({study}.md) | {title} | {len(findings)} | {marks} | {time} | {made['cores']} |")
        print(f"{study}: {len(findings)} figures, {time}")
    index.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
