"""A campaign: sessions over several protocols, with a summary that grows and can be gone on with."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from antecast.core import ConfigurationError
from antecast.core.guarantees import Need
from antecast.protocols.code import code_identity
from antecast.protocols.registry import specification
from antecast.torture.group import CALM_SECONDS
from antecast.torture.nursery import nursery
from antecast.torture.session import BIRTH_POINTS, ROUNDS, Result, Session, count_points, run_session


class Standing(msgspec.Struct):
    """What has been done to one protocol."""

    code: str
    points: int
    """Fault points of a life, as counted at the start."""
    done: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Sessions that are done, by kind."""
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    kills_at: dict[str, int] = msgspec.field(default_factory=dict)
    """Kills by the name of the fault point."""
    hit_from_calm: list[int] = msgspec.field(default_factory=list)
    hit_from_birth: list[int] = msgspec.field(default_factory=list)
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    messages: int = 0
    deliveries: int = 0
    audits: dict[str, int] = msgspec.field(default_factory=dict)
    wrong: list[str] = msgspec.field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(self.faults.values())

    @property
    def unhit(self) -> list[int]:
        """Numbered points at which no member was killed yet, from a calm moment or from birth."""
        every = set(range(1, self.points + 1))
        return sorted((every - set(self.hit_from_calm)) | (every - set(self.hit_from_birth)))

    def add(self, session: Session, result: Result) -> None:
        tally = result.tally
        self.done.setdefault(session.kind, []).append(session.index)
        self.faults = dict(Counter(self.faults) + tally.faults)
        self.kills_at = dict(sorted((Counter(self.kills_at) + tally.points).items()))
        self.hit_from_calm = sorted(set(self.hit_from_calm) | tally.from_calm)
        self.hit_from_birth = sorted(set(self.hit_from_birth) | tally.from_birth)
        self.refused = dict(Counter(self.refused) + tally.refused)
        self.messages += result.messages
        self.deliveries += result.deliveries
        self.audits[result.audit] = self.audits.get(result.audit, 0) + 1
        where = "" if result.kept is None else f" (kept in {result.kept})"
        self.wrong += [f"{session.name}: {text}{where}" for text in tally.wrong[:10]]


_SAME = ("seed", "nodes", "control", "keys", "settings")
"""What a campaign has to have in common with the summary that it goes on with."""


class Summary(msgspec.Struct):
    seed: int
    nodes: int
    control: str | None
    protocols: dict[str, Standing] = msgspec.field(default_factory=dict)
    seconds: float = 0.0
    keys: bool = False
    settings: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def faults(self) -> int:
        return sum(each.count for each in self.protocols.values())

    @property
    def wrong(self) -> list[str]:
        return [text for each in self.protocols.values() for text in each.wrong]


@dataclass
class Campaign:
    protocols: Sequence[str]
    faults: int
    """How many faults in all, at least; 0 for the numbered points alone."""
    seed: int = 0
    nodes: int = 3
    points: bool = False
    """Whether every numbered point is hit in turn."""
    in_process: bool = False
    """Whether random faults come to nodes in this process, many and cheap, instead of real ones."""
    control: str | None = None
    keys: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    """Of every protocol, as in a scenario."""
    folder: Path | None = None
    """Where the summary and failed sessions are kept."""
    seconds: float | None = None
    """When to stop at the latest."""
    patience: float = CALM_SECONDS
    show: Callable[[Summary, str], None] = lambda summary, state: None
    _begun: float = field(default_factory=time.monotonic)
    interrupted: bool = False
    """Whether somebody wants it to end: the session at hand is finished first."""

    def run(self) -> Summary:
        for name in self.protocols:
            _check(name, self.settings)
        return asyncio.run(self._run())

    async def _run(self) -> Summary:
        context = nursery()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._interrupt)
        summary = self._resumed()
        before = summary.seconds
        for name in self.protocols:
            code = code_identity(specification(name))
            if name not in summary.protocols:
                counted = await count_points(self._session(name, "count", 0, 0), context)
                summary.protocols[name] = Standing(code, counted)
        for session in self._sessions(summary):
            late = self.seconds is not None and time.monotonic() - self._begun > self.seconds
            if late or self.interrupted:
                break
            self.show(summary, session.name)
            result = await run_session(session, context, self.folder)
            summary.protocols[session.protocol].add(session, result)
            summary.seconds = before + time.monotonic() - self._begun
            self._save(summary)
            if summary.wrong and self.control is not None:
                break
        self.show(summary, "done")
        return summary

    def _interrupt(self) -> None:
        self.interrupted = True

    def _sessions(self, summary: Summary) -> Iterator[Session]:
        """First every point in turn, then random faults: as many sessions for one protocol as for any other."""
        if self.points:
            for name in self.protocols:
                yield from self._sweep(name, summary.protocols[name])
        index, kind = 0, "memory" if self.in_process else "faults"
        while summary.faults < self.faults:
            for name in self.protocols:
                if index not in summary.protocols[name].done.get(kind, []):
                    yield self._session(name, kind, index, summary.protocols[name].points)
            index += 1

    def _sweep(self, name: str, standing: Standing) -> Iterator[Session]:
        kinds = {
            "births": -(-BIRTH_POINTS // self.nodes),
            "stops": 1,
            "points": -(-standing.points // (self.nodes * ROUNDS)),
        }
        for kind, count in kinds.items():
            for index in range(count):
                if index not in standing.done.get(kind, []):
                    yield self._session(name, kind, index, standing.points)

    def _session(self, name: str, kind: str, index: int, points: int) -> Session:
        return Session(
            name,
            kind,
            index,
            self.seed,
            self.nodes,
            points,
            self.control,
            self.patience,
            keys=self.keys,
            settings=self.settings,
        )

    # The summary on disk.

    @property
    def _file(self) -> Path | None:
        return None if self.folder is None else self.folder / "torture.json"

    def _resumed(self) -> Summary:
        fresh = Summary(self.seed, self.nodes, self.control, keys=self.keys, settings=dict(self.settings))
        file = self._file
        if file is None or not file.exists():
            return fresh
        try:
            found = msgspec.json.decode(file.read_bytes(), type=Summary)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{file}: not a summary of antecast torture ({error})") from None
        same = all(getattr(found, each) == getattr(fresh, each) for each in _SAME)
        code = {name: code_identity(specification(name)) for name in found.protocols}
        if not same or any(each.code != code[name] for name, each in found.protocols.items()):
            what = "other code" if same else "another seed, number of nodes, control, keys or settings"
            raise ConfigurationError(f"{file}: of a campaign with {what}; give another folder", field="--out")
        return found

    def _save(self, summary: Summary) -> None:
        file = self._file
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_suffix(".new")
            fresh.write_text(json.dumps(plain(summary), indent=1) + "\n", encoding="utf-8")
            fresh.replace(file)


def plain(summary: Summary) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(summary)
    return built


def _check(name: str, settings: Mapping[str, object]) -> None:
    """Torture needs a mesh of links between nodes that crash."""
    spec = specification(name)
    unmet = spec.needs(spec.configure(settings)) & {Need.CELLS, Need.STATIC_MEMBERS}
    if unmet:
        words = ", ".join(sorted(unmet))
        raise ConfigurationError(f"{name} needs {words}; torture has crashes and no cells", field="PROTOCOL")
