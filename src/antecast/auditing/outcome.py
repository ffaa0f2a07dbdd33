"""An audit as a whole: what was read, the verdict, and everything that can be made of both."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from antecast.auditing import gate
from antecast.auditing.export import SUFFIXES, Form, export
from antecast.auditing.findings import Finding, findings
from antecast.auditing.foreign import ForeignLog
from antecast.auditing.gate import FailOn
from antecast.core.errors import ConfigurationError, OutputError
from antecast.core.log_files import spare
from antecast.history.log_files import Log
from antecast.history.log_places import locate
from antecast.history.verdict import Verdict
from antecast.history.witness import Event, Witness
from antecast.importers.source import Place
from antecast.version import __version__

TABLES = ("gaps", "skew")
"""Further tables that models make."""


@dataclass(frozen=True, eq=False)
class Audit:
    """A log, what was read of it, and its verdict: a `Verdict`, a `Judgement`, or that of key-value histories."""

    log: Log | ForeignLog
    verdict: Any
    data: Any = None
    engine: str = "local"

    @property
    def model(self) -> str:
        return self.log.model if isinstance(self.log, ForeignLog) else "broadcast"

    @property
    def files(self) -> list[str]:
        if isinstance(self.log, ForeignLog):
            return [str(file) for file in self.log.source.files]
        return [str(file.path) for file in self.log.files]

    @property
    def left_out(self) -> list[str]:
        """Files of the folders that are no tables, where tables were judged."""
        return [] if isinstance(self.log, ForeignLog) else [str(file) for file in self.log.left_out]

    @property
    def headline(self) -> str:
        return str(self.verdict).partition("\n")[0]

    @cached_property
    def findings(self) -> list[Finding]:
        return list(findings(self.verdict, self.log if isinstance(self.log, Log) else None))

    @cached_property
    def witness_places(self) -> dict[Event, Place]:
        """Where the events of the witness of a table of broadcasts stand."""
        witness = self.verdict.witness
        if not isinstance(self.log, Log) or not isinstance(witness, Witness):
            return {}
        keys = {event: (witness.run, event.node, event.pos) for event in witness.events}
        found = locate(self.log, list(keys.values()))
        return {event: Place(*found[key]) for event, key in keys.items() if key in found}

    def summary(self) -> dict[str, Any]:
        """The audit as plain values, ready for JSON."""
        common = {"files": self.files, "engine": self.engine, "version": __version__, "command": sys.argv}
        if isinstance(self.log, ForeignLog):
            told_by_model: dict[str, Any] = self.verdict.summary()
            return told_by_model | {"model": self.model, "format": self.log.importer.NAME} | common
        verdict: Verdict = self.verdict
        witness = verdict.witness
        told = None
        if witness is not None:
            events = [
                asdict(event) | ({"file": place.file, "line": place.line} if place else {})
                for event in witness.events
                for place in [self.witness_places.get(event)]
            ]
            told = {
                "run": witness.run,
                "node": witness.node,
                "chain": list(witness.chain),
                "words": witness.words,
                "diagram": witness.diagram,
                "events": events,
            }
        return (
            verdict.summary()
            | {"model": "broadcast", "listed": len(verdict.violations), "witness": told}
            | {"columns": dict(self.log.columns), "kinds": dict(self.log.kinds), "clock": self.log.clock}
            | {"left_out": self.left_out}
            | common
        )

    def export(self, form: Form, file: Path | None = None, *, witness_only: bool = False) -> Path:
        """Write the log in another form, whole or cut to the events of the stories that are told."""
        target = Path(f"audit{SUFFIXES[form]}") if file is None else file
        only = self._told_places() if witness_only else None
        if witness_only and not only:
            raise ConfigurationError("there is no witness to cut the log to", field="--witness-only")
        spare(self.files, target)
        export(self.log if isinstance(self.log, Log) else self.data, form, target, only=only)
        return target

    def junit(self, fail_on: FailOn | None = None) -> str:
        """The verdict as JUnit XML."""
        name = self.files[0] if len(self.files) == 1 else f"{len(self.files)} files"
        return gate.junit(self.verdict.outcome, self.headline, self.findings, name=name, fail_on=fail_on)

    def sarif(self) -> str:
        """The violations as SARIF."""
        return gate.sarif(self.findings, file=self.files[0])

    def annotations(self) -> list[str]:
        """The violations as commands of a GitHub workflow."""
        return gate.workflow_commands(self.headline, self.verdict.outcome, self.findings)

    def write(self, folder: Path | str) -> None:
        """Write the verdict and all tables into a folder, from which `antecast.report` makes a page."""
        place = Path(folder)
        spare(self.files, place / "verdict.json", *(place / f"{name}.parquet" for name in ("violations", *TABLES)))
        try:
            place.mkdir(parents=True, exist_ok=True)
            pq.write_table(self.verdict.violations, place / "violations.parquet", compression="zstd")
            tables = getattr(self.verdict, "tables", {})
            for name in TABLES:  # an audit before this one may have left some
                (place / f"{name}.parquet").unlink(missing_ok=True)
                if name in tables:
                    pq.write_table(tables[name], place / f"{name}.parquet", compression="zstd")
            (place / "verdict.json").write_text(f"{self.json()}\n", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror or error}", path=place) from error

    def json(self) -> str:
        return json.dumps(self.summary(), indent=2, ensure_ascii=False, default=str)

    def _told_places(self) -> Collection[Place]:
        if isinstance(self.log, Log):
            return set(self.witness_places.values())
        stories = getattr(self.verdict, "stories", ())
        return {event.place for story in stories for event in story.events if event.place is not None}
