"""Violations by their cause: one message that came late can make hundreds of others early."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antecast.text.wording import at_position

Row = Mapping[str, Any]


@dataclass(frozen=True)
class CauseGroup:
    """Violations of one kind that have one cause, in the order of the table."""

    cause: str
    """The message that is the cause; empty where there is none."""
    problem: str
    rows: Sequence[Row]

    @property
    def nodes(self) -> int:
        return len({(row.get("run"), row["node"]) for row in self.rows})

    @property
    def words(self) -> str:
        """What happened, in a line."""
        first, nodes = self.rows[0], f"{self.nodes:,} node{'s' * (self.nodes != 1)}"
        run = f"run {first['run']}, " if first.get("run") is not None else ""
        place = f"{run}node {first['node']}, {at_position(first['pos'])}"
        example = f"{message_of(first)} at {place}"
        count = len(self.rows)
        if self.problem == "early":
            others = "1 message that depends" if count == 1 else f"{count:,} messages that depend"
            return f"{self.cause} came after {others} on it, at {nodes}; the first: {example}"
        if self.problem == "duplicate":
            times = f"{count:,} time{'s' * (count != 1)}"
            return f"{self.cause} was delivered again {times}, at {nodes}; first at {place}"
        return f"{count:,} delivered before their broadcast, at {nodes}; the first: {example}"


def by_cause(rows: Iterable[Row]) -> list[CauseGroup]:
    """Groups of violations, the largest first."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((str(row.get("run")), cause_of(row), row["problem"]), []).append(row)
    found = [CauseGroup(cause, problem, group) for (_, cause, problem), group in groups.items()]
    return sorted(found, key=lambda each: -len(each.rows))


def message_of(row: Row) -> str:
    """The message of a violation, as people write it."""
    return str(row["message"]) if row.get("message") is not None else f"{row['origin']}:{row['seq']}"


def cause_of(row: Row) -> str:
    """The message that is the cause of a violation; empty where there is none."""
    if row.get("cause_message") is not None:
        return str(row["cause_message"])
    return "" if row["cause_seq"] is None else f"{row['cause_origin']}:{row['cause_seq']}"
