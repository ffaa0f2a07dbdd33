"""A comparison as a whole: who ran, who could not, the judgement, and the tables that hold every number of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

from antecast.comparison.candidates import Candidate
from antecast.comparison.demands import Demands
from antecast.comparison.judgement import Judgement, judge
from antecast.comparison.standings import Standing, curves, plain, standing
from antecast.sim.study import Study
from antecast.version import __version__


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """Everything that a comparison found."""

    name: str
    folder: Path
    seeds: tuple[int, ...]
    standings: tuple[Standing, ...]
    """Of those who ran."""
    excluded: tuple[Candidate, ...]
    """Those who cannot run here."""
    judgement: Judgement
    curves: pa.Table
    offered: Mapping[str, tuple[int, ...]]
    """Broadcasts by protocol, seed by seed."""
    same_offer: bool
    """Whether all protocols were offered the very same broadcasts in every seed."""
    answers: bool
    """Whether the workload answers what is delivered, so that no two protocols can be offered the same."""

    @property
    def report(self) -> Path:
        """Its page."""
        return self.folder / "report.html"

    @property
    def recommended(self) -> str | None:
        """The protocol to take, if any qualifies."""
        return self.judgement.recommended

    def __repr__(self) -> str:
        ran = f"{len(self.standings)} protocols, {len(self.seeds)} seeds"
        return f"Comparison({self.name!r}, {ran}, recommended={self.recommended!r})"

    def summary(self) -> dict[str, Any]:
        """The judgement and a row for each protocol, as plain values."""
        return self.plain()

    def to_pandas(self) -> Any:
        """A row for each protocol, as a pandas DataFrame."""
        return self.table.to_pandas()

    def _repr_html_(self) -> str:
        shown = ["name", "order", "qualifies", "recommended"]
        table = self.table.select([name for name in shown if name in self.table.column_names]).to_pandas()
        return f"<p>{escape(self.judgement.headline)}</p>{table.to_html(index=False)}"

    @property
    def table(self) -> pa.Table:
        """A row per protocol, those that cannot run at the end: the contents of `compare.parquet`."""
        rows = [plain(each) | self._verdict(each.name) | {"lacks": []} for each in self.standings]
        for other in self.excluded:
            row = dict.fromkeys(TABLE.names) | {"name": other.name, "title": other.specification.title}
            row |= {"promises": sorted(other.specification.guarantees), "assumes": [str(n) for n in other.needs]}
            rows.append(row | {"qualifies": False, "recommended": False, "misses": [], "lacks": list(other.lacks)})
        return pa.Table.from_pylist(rows, TABLE)

    def _verdict(self, name: str) -> dict[str, Any]:
        judgement = self.judgement
        return {
            "qualifies": name in judgement.qualified,
            "recommended": name == judgement.recommended,
            "misses": [miss.text for miss in judgement.misses.get(name, ())],
        }

    def plain(self) -> dict[str, Any]:
        """The whole as plain values, ready for JSON."""
        judgement, demands = self.judgement, self.judgement.demands
        return {
            "scenario": self.name,
            "folder": str(self.folder),
            "seeds": list(self.seeds),
            "demands": {aspect: demands.option(aspect) for aspect in demands.stated},
            "recommended": judgement.recommended,
            "runner_up": judgement.runner_up,
            "nearest": judgement.nearest,
            "qualified": list(judgement.qualified),
            "headline": judgement.headline,
            "reasons": list(judgement.reasons),
            "same_broadcasts": self.same_offer,
            "broadcasts": {name: list(counts) for name, counts in self.offered.items()},
            "protocols": self.table.to_pylist(),
            "version": __version__,
        }


def _fields() -> list[pa.Field]:
    known = {"str": pa.string(), "int": pa.int64(), "int | None": pa.int64()}
    found = []
    for field in fields(Standing):
        kind = str(field.type)
        if "Estimate" in kind:
            found += [pa.field(f"{field.name}{end}", pa.float64()) for end in ("", "_low", "_high")]
        else:
            found.append(pa.field(field.name, known.get(kind, pa.list_(pa.string()))))
    return found


TABLE = pa.schema(
    [
        *_fields(),
        pa.field("violations", pa.int64()),
        pa.field("order", pa.string()),
        pa.field("qualifies", pa.bool_()),
        pa.field("recommended", pa.bool_()),
        pa.field("misses", pa.list_(pa.string())),
        pa.field("lacks", pa.list_(pa.string())),
    ]
)
"""The columns of `compare.parquet`; `docs/compare.md` explains them. Times are nanoseconds."""


def assemble(
    study: Study,
    candidates: Sequence[Candidate],
    demands: Demands,
    rows: Sequence[Mapping[str, Any]],
    *,
    folder: Path,
) -> Comparison:
    """A comparison from the rows of its runs, each with its protocol, its seed and its measures."""
    able = [each for each in candidates if not each.lacks]
    runs = {each.name: [row for row in rows if row["protocol"] == each.name] for each in able}
    standings = tuple(standing(each, runs[each.name]) for each in able)
    seeds = tuple(study.values("seed"))
    good = {name: [row for row in group if row["error"] is None] for name, group in runs.items()}
    digests = {(row["seed"], row["offered_digest"]) for group in good.values() for row in group}
    return Comparison(
        name=study.name,
        folder=folder,
        seeds=seeds,
        standings=standings,
        excluded=tuple(each for each in candidates if each.lacks),
        judgement=judge(standings, demands),
        curves=curves(runs),
        offered={name: tuple(row["offered"] for row in group) for name, group in good.items()},
        same_offer=len(digests) == len({seed for seed, _ in digests}),
        answers=any(each.get("kind") == "chatter" for each in study.scenario.get("workload", ())),
    )
