"""A comparison in its folder: the files that others can use, and the way back from them to its page.

compare.parquet            a row for each protocol, those that cannot run with the reason
latency.parquet            the curves of latency, of each run and of all seeds together
compare.json               the judgement, the limits, what was compared on and by which command
candidates/NAME.parquet    one protocol: a row for each of its runs, with every number of it
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.comparison.candidates import Candidate
from antecast.comparison.demands import Demands
from antecast.comparison.judgement import judge
from antecast.comparison.result import Comparison
from antecast.comparison.standings import Standing
from antecast.core.errors import InputError, OutputError
from antecast.history.confidence import Estimate
from antecast.history.manifest import write_json
from antecast.protocols import Need, specification

CANDIDATES = "candidates"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What was compared, for people."""

    network: Mapping[str, str]
    command: str


def store(result: Comparison, origin: Origin) -> None:
    """Write `compare.json`, from which the page can be made again."""
    limits = asdict(result.judgement.demands)
    about = {
        "network": dict(origin.network),
        "command": origin.command,
        "limits": limits,
        "answers": result.answers,
    }
    write_json(result.folder / "compare.json", result.plain() | about)


def write_candidates(folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the runs of each protocol to a file of its own; remove those of protocols that are not compared."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["protocol"], []).append(_flat(row))
    place = folder / CANDIDATES
    try:
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob("*.parquet"):
            old.unlink()
        for name, group in by_name.items():
            columns = list(dict.fromkeys(key for row in group for key in row))
            table = pa.table({key: [row.get(key) for row in group] for key in columns})
            pq.write_table(table, place / f"{file_name(name)}.parquet", compression="zstd")
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=place) from error


def file_name(protocol: str) -> str:
    """A protocol's name as that of a file.

    >>> file_name("vector"), file_name("my_package:ordering")
    ('vector', 'my_package-ordering')
    """
    return re.sub(r"[^\w.-]", "-", protocol)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a run in one row: what it was, how it ended, costs, memory, gauges."""
    nested = ("curve", "worker", "memory", "gauges", "traceback")
    flat = {key: value for key, value in row.items() if key not in nested}
    for what, values in (row.get("memory") or {}).items():
        flat |= {f"{what}_{which}": value for which, value in (values or {}).items()}
    for gauge, (mean, most) in (row.get("gauges") or {}).items():
        flat |= {f"gauge_{gauge}_mean": mean, f"gauge_{gauge}_max": most}
    return {"protocol": flat.pop("protocol"), "seed": flat.pop("seed"), **flat}


def read_comparison(folder: Path) -> tuple[Comparison, Origin]:
    """The comparison that a folder holds, judged again by the limits that it was made with."""
    try:
        about = json.loads((folder / "compare.json").read_text(encoding="utf-8"))
        rows = pq.read_table(folder / "compare.parquet").to_pylist()
        curves = pq.read_table(folder / "latency.parquet")
        demands = Demands(**about["limits"])
        standings = tuple(_standing(row) for row in rows if not row["lacks"])
        comparison = Comparison(
            name=about["scenario"],
            folder=folder,
            seeds=tuple(about["seeds"]),
            standings=standings,
            excluded=tuple(_candidate(row) for row in rows if row["lacks"]),
            judgement=judge(standings, demands),
            curves=curves,
            offered={name: tuple(counts) for name, counts in about["broadcasts"].items()},
            same_offer=about["same_broadcasts"],
            answers=about["answers"],
        )
        return comparison, Origin(network=about["network"], command=about["command"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"not a comparison that can be read ({error}); `antecast compare` makes it again"
        raise InputError(problem, path=folder) from None


def _standing(row: Mapping[str, Any]) -> Standing:
    values: dict[str, Any] = {}
    for field in fields(Standing):
        value = row[field.name]
        if "Estimate" in str(field.type):
            ends = row[f"{field.name}_low"], row[f"{field.name}_high"]
            value = None if value is None else Estimate(value, *ends, runs=row["runs"])
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return Standing(**values)


def _candidate(row: Mapping[str, Any]) -> Candidate:
    needs = tuple(Need(need) for need in row["assumes"])
    spec = specification(row["name"])
    return Candidate(specification=spec, settings={}, needs=needs, lacks=tuple(row["lacks"]))
