"""Which of the PC-broadcast paper's figures and statements hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log
from typing import Any, TypeAlias

from antecast.history.confidence import Estimate
from antecast.papers.findings import Finding, figure
from antecast.papers.paper import load_paper
from antecast.papers.preventive.experiment import SLOWEST, STEPS, seconds_between

Rows: TypeAlias = list[dict[str, Any]]

_METRICS = {
    "path": "path length (hops)",
    "unsafe": "unsafe links a process",
    "buffered": "buffered messages per process",
}


def growth_of_costs(measured: Rows) -> Iterator[Finding]:
    """Whether costs grow as Table 1 has it, by what can be told without constants of our own.

    O(1) grows less than the logarithm of N does. O(N) is told by what a cost grows *beyond* that of the smallest
    N: every delivery has a fixed part, so that the cost itself grows by a smaller power of N, and by a smaller one
    still if the part that grows becomes quicker.
    """
    paper, item = load_paper("preventive"), "Table 1"
    expected = {
        "control bytes of a message": ("control", (_linear, _constant, _constant)),
        "local space": ("state", (_linear, _linear, _linear)),
        "time of a delivery": ("delivery", (_linear, _constant, _constant)),
    }
    sizes = sorted({row["sources"] for row in measured})
    for quantity, (column, classes) in expected.items():
        least, most = (paper.limit(item, quantity, f"linear, {end}") for end in ("least", "most"))
        holds, texts = True, []
        for protocol, grows in zip(("vector", "fifo", "pc-broadcast"), classes, strict=True):
            own = sorted((row["sources"], row[column]) for row in measured if row["protocol"] == protocol)
            holds &= grows([size for size, _ in own], [cost for _, cost in own], least, most)
            form, scale = ("{:,.2g} µs", 1e6) if column == "delivery" else ("{:,.0f}", 1)
            texts.append(f"{protocol} {' → '.join(form.format(scale * cost) for _, cost in own)}")
        observed = f"{'; '.join(texts)} (N = {', '.join(f'{size:,}' for size in sizes)})"
        yield paper.statement(item, quantity, "", holds=holds, observed=observed)


def _constant(sizes: list[int], costs: list[float], least: float, most: float) -> bool:
    """
    >>> _constant([10, 100, 1000], [10, 12, 11], 0.5, 1.5), _constant([10, 100, 1000], [10, 20, 30], 0.5, 1.5)
    (True, False)
    """
    return costs[-1] / costs[0] < log(sizes[-1]) / log(sizes[0])


def _linear(sizes: list[int], costs: list[float], least: float, most: float) -> bool:
    """
    >>> _linear([10, 100, 1000], [2.4, 5, 26], 0.5, 1.5), _linear([10, 100, 1000], [2.4, 2.5, 2.6], 0.5, 1.5)
    (True, False)
    """
    before, after = costs[-2] - costs[0], costs[-1] - costs[0]
    if before <= 0 or after <= 0:
        return False
    return least <= log(after / before) / log(sizes[-1] / sizes[-2]) <= most


def slower_links(runs: Rows, sizes: Iterable[int]) -> Iterator[Finding]:
    paper, item = load_paper("preventive"), "Fig. 7"
    for size in sizes:
        own = [row["steps"] for row in runs if row["processes"] == size]
        seconds = next(row["seconds"] for row in runs if row["processes"] == size)
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
        spread = max(plain) - min(plain)
        said = {"runs": len(own)}

        def limit(quantity: str, name: str) -> float:
            return paper.limit(item, quantity, name)

        yield paper.statement(
            item,
            "R-broadcast",
            setting,
            holds=spread <= limit("R-broadcast", "constant"),
            observed=f"between {min(plain):.2f} and {max(plain):.2f} hops",
            **said,
        )
        yield paper.statement(
            item,
            "PC-broadcast",
            setting,
            holds=pc[0] < pc[-1] <= plain[-1] + limit("PC-broadcast", "small"),
            observed=f"from {pc[0]:.2f} hops at 0.5 s to {pc[-1]:.2f} at 5 s",
            **said,
        )
        phase = (
            limit("buffered messages", "hops") * SLOWEST
        )  # seconds, in which a link keeps all that is broadcast
        kept = limit("buffered messages", "links") * phase / seconds_between(seconds)
        yield paper.statement(
            item,
            "buffered messages",
            setting,
            holds=buffered[0] < buffered[-1] <= kept,
            observed=f"from {buffered[0]:.2f} per process at 0.5 s"
            f" to {buffered[-1]:.2f} at 5 s (small: {kept:.1f})",
            **said,
        )
        hops = {name: over(f"hops, {name}")[-1] for name in ("R", "PC")}
        paths = {name: over(f"path, {name}")[-1] for name in hops}
        near = all(abs(hops[name] - paths[name]) <= limit("real broadcasts", "stand for") for name in hops)
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
    """The points of Figure 7: a row per metric, protocol, size and step."""
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
