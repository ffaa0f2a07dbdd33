"""Which of the PC-broadcast paper's figures and statements hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log
from typing import Any, TypeAlias

from antecast.history.confidence import Estimate
from antecast.papers.findings import Finding, figure
from antecast.papers.paper import load_paper
from antecast.papers.preventive.experiment import STEPS

Rows: TypeAlias = list[dict[str, Any]]

_METRICS = {
    "path": "path length (hops)",
    "unsafe": "unsafe links a process",
    "buffered": "buffered messages a process",
}
_CONSTANT, _LINEAR = (-0.25, 0.25), (0.6, 1.4)
"""Exponents of growth that count as O(1) and as O(N)."""


def growth_of_costs(measured: Rows) -> Iterator[Finding]:
    paper = load_paper("preventive")

    def growth(protocol: str, column: str) -> tuple[float, str]:
        """The exponent with which a cost grows in N, over all sizes, and its values in words."""
        rows = sorted((row for row in measured if row["protocol"] == protocol), key=lambda row: row["sources"])
        first, last = rows[0], rows[-1]
        exponent = log(last[column] / first[column]) / log(last["sources"] / first["sources"])
        form = "{:,.2g} µs" if column == "delivery" else "{:,.0f}"
        scale = 1e6 if column == "delivery" else 1
        values = " → ".join(form.format(scale * row[column]) for row in rows)
        return exponent, f"{protocol} {values}"

    sizes = sorted({row["sources"] for row in measured})
    expected = {
        "control bytes of a message": ("control", (_LINEAR, _CONSTANT, _CONSTANT)),
        "local space": ("state", (_LINEAR, _LINEAR, _LINEAR)),
        "time of a delivery": ("delivery", (_LINEAR, _CONSTANT, _CONSTANT)),
    }
    for quantity, (column, ranges) in expected.items():
        found = [growth(protocol, column) for protocol in ("vector", "fifo", "pc-broadcast")]
        holds = all(low <= exponent <= high for (exponent, _), (low, high) in zip(found, ranges, strict=True))
        observed = f"{'; '.join(text for _, text in found)} (N = {', '.join(f'{size:,}' for size in sizes)})"
        yield paper.statement("Table 1", quantity, "", holds=holds, observed=observed)


def slower_links(runs: Rows, sizes: Iterable[int]) -> Iterator[Finding]:
    paper, item = load_paper("preventive"), "Fig. 7"
    for size in sizes:
        own = [row["steps"] for row in runs if row["processes"] == size]
        setting = f"{size:,}"

        def at(column: str, delay: float, own: list[Rows] = own) -> Estimate:
            return Estimate.of(
                step[column] for steps in own for step in steps if abs(step["delay"] - delay) < 1e-9
            )

        def over(column: str, own: list[Rows] = own) -> list[float]:
            """The mean over runs at each step."""
            return [Estimate.of(steps[step][column] for steps in own).mean for step in range(STEPS)]

        numbers = {
            "links a process at 0.5 s": at("links", 0.5),
            "unsafe links a process at 5 s": at("unsafe", 5.0),
            "path of R-broadcast": Estimate.of(step["path, R, as published"] for steps in own for step in steps),
            "path of PC-broadcast at 1 s": at("path, PC, as published", 1.0),
            "path of PC-broadcast at 5 s": at("path, PC, as published", 5.0),
        }
        for quantity, estimate in numbers.items():
            if setting in paper.items[item].quantities[quantity].values:
                yield paper.figure(item, quantity, setting, estimate)
        plain, pc, buffered = over("path, R, as published"), over("path, PC, as published"), over("buffered")
        spread = (max(plain) - min(plain)) / min(plain)
        said = {"runs": len(own)}
        yield paper.statement(
            item,
            "R-broadcast",
            setting,
            holds=spread < 0.05,
            observed=f"between {min(plain):.2f} and {max(plain):.2f} hops",
            **said,
        )
        yield paper.statement(
            item,
            "PC-broadcast",
            setting,
            holds=pc[0] < pc[-1] < 1.5 * plain[-1],
            observed=f"from {pc[0]:.2f} hops at 0.5 s to {pc[-1]:.2f} at 5 s",
            **said,
        )
        yield paper.statement(
            item,
            "buffered messages",
            setting,
            holds=buffered[0] < buffered[-1] < 100,
            observed=f"from {buffered[0]:.2f} a process at 0.5 s to {buffered[-1]:.2f} at 5 s",
            **said,
        )
        hops = {name: over(f"hops, {name}")[-1] for name in ("R", "PC")}
        near = all(abs(hops[name] / over(f"path, {name}")[-1] - 1) < 0.1 for name in hops)
        text = f"at 5 s messages took {hops['R']:.2f} hops by R-broadcast, {hops['PC']:.2f} by PC-broadcast"
        yield paper.statement(item, "real broadcasts", setting, holds=near, observed=text, **said)


def larger_overlays(floods: Rows, sizes: Iterable[int]) -> Iterator[Finding]:
    paper = load_paper("preventive")
    columns = {
        "links a process": "links",
        "path of R-broadcast": "path",
        "hops of the first copy": "hops",
        "mean latency": "latency",
        "last arrival": "last",
        "processes not reached": "unreached",
    }
    for quantity, column in columns.items():
        for size in sizes:
            ours = Estimate.of(row[column] for row in floods if row["processes"] == size)
            unit = paper.items["Larger"].quantities[quantity].unit
            yield figure(
                "Larger",
                quantity,
                f"{size:,}",
                unit,
                paper=None,
                ours=ours,
                reason="the paper ends at 10,000 processes",
            )


def curves(runs: Rows, sizes: Iterable[int]) -> Iterator[dict[str, Any]]:
    """The points of Figure 7: a row a metric, protocol, size and step."""
    series = {
        "path": {
            "R-broadcast": "path, R, as published",
            "PC-broadcast": "path, PC, as published",
            "PC-broadcast, links lent": "path, PC",
        },
        "unsafe": {"PC-broadcast": "unsafe"},
        "buffered": {"PC-broadcast": "buffered"},
    }
    for metric, names in series.items():
        for name, column in names.items():
            for size in sizes:
                own = [row["steps"] for row in runs if row["processes"] == size]
                for step in range(STEPS):
                    found = Estimate.of(steps[step][column] for steps in own)
                    low, high = found.low, found.high
                    ends = {
                        "low": found.mean if low is None else low,
                        "high": found.mean if high is None else high,
                    }
                    yield {
                        "metric": _METRICS[metric],
                        "series": f"{name}, {size:,}",
                        "delay": own[0][step]["delay"],
                        "value": found.mean,
                        **ends,
                    }
