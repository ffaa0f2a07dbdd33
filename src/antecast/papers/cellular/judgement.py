"""From measures to findings: what the runs say about each figure and statement of the paper.

What the paper's words mean in numbers ("a few dozen", "much") stands in `paper.toml`, each with its argument.
Comparisons are between means over runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, correlation, fmean
from typing import Any, Final, TypeAlias

from antecast.history.confidence import Estimate
from antecast.papers.cellular.experiment import CALM, HEAVY, OUTSTANDING, PAYLOAD, START, WALKING
from antecast.papers.findings import Finding, clearly_less
from antecast.papers.paper import load_paper

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Sequence[Row]
Value: TypeAlias = Callable[[Row], float]

CELLULAR, TCP = "cellular", "tcp-flooding"
TCP_HEAVY: Final = 25.0
"""Broadcasts per second at which TCP flooding is looked at under load."""


@dataclass(frozen=True)
class Data:
    """All runs of a study, each with its point."""

    still: Rows
    """By protocol and rate."""
    walking: Rows
    struck: Rows
    footprints: Rows
    outstanding: Rows
    """Faults that leave many messages, by their number and whether acknowledgements name holes."""
    measured: Rows
    """By rate: hosts that stand still, with times that follow round trips."""

    def of(self, protocol: str, rate: float) -> Rows:
        return [row for row in self.still if row["protocol"] == protocol and row["rate"] == rate]

    def rates(self, protocol: str) -> list[float]:
        return sorted({row["rate"] for row in self.still if row["protocol"] == protocol})


def mean(rows: Rows, *keys: str) -> float:
    """Of a measure, named by its path, over runs."""
    return estimate(rows, *keys).mean


def estimate(rows: Rows, *keys: str) -> Estimate:
    return Estimate.of(at(row, *keys) for row in rows)


def at(row: Any, *keys: str) -> float:
    for key in keys:
        row = row[key]
    return float(row)


def kept(rows: Rows, buffer: str, what: str = "mean") -> float:
    return mean(rows, "buffers", buffer, what)


def setting(rate: float) -> str:
    return f"{rate:g}/s"


def findings(data: Data) -> list[Finding]:
    parts = (_static, _heavy, _dynamic, _faults, _limit, _memory, _delays, _timers)
    return [finding for part in parts for finding in part(data)]


def complete(rows: Rows) -> bool:
    """Everything was delivered everywhere, in causal order."""
    return all(row["verdict"] == "causal" and row["traffic"]["delivered"] == 1 for row in rows)


# Fig. 6.


def _static(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("cellular"), "Fig. 6"
    runs = {name: data.of(name, CALM) for name in (CELLULAR, TCP)}
    ours, tcp = runs.values()
    said = {"runs": len(ours)}
    for quantity, path in {
        "messages sent per delivery": ("traffic", "frames per delivery"),
        "messages sent per delivery, with wires": ("traffic", "with wires"),
        "delivery delay": ("delay", "mean"),
        "losses": ("loss",),
    }.items():
        for name, rows in runs.items():
            yield paper.figure(item, quantity, name, estimate(rows, *path))

    def limit(quantity: str, name: str) -> float:
        return paper.limit(item, quantity, name)

    def compared(quantity: str, holds: bool, text: str) -> Finding:
        return paper.statement(item, quantity, "", holds=holds, observed=text, **said)

    slow, fast = mean(tcp, "delay", "mean"), mean(ours, "delay", "mean")
    short = 1 - mean(tcp, "traffic", "delivered")
    text = f"{fast:.2f} s against {slow:.1f} s, {slow / fast:.0f} times"
    if short > 0:
        text += f"; {short:.1%} of TCP's deliveries had not come when the run ended, and are in no mean"
    yield compared("delays compared", slow > limit("delays compared", "much") * fast, text)
    losses = estimate(ours, "loss"), estimate(tcp, "loss")
    text = f"{losses[1].mean:.1%} against {losses[0].mean:.1%}"
    yield compared("losses compared", clearly_less(losses[1], losses[0]), text)

    buffer = "station_sent_buffer"
    few, many = kept(ours, buffer), kept(tcp, buffer)
    magnitude = limit("buffers of stations", "another order of magnitude")
    text = f"{few:.1f} messages against {many:,.0f}"
    yield compared("buffers of stations", many > magnitude * few, text)
    few, many = kept(ours, buffer, "swing"), kept(tcp, buffer, "swing")
    text = f"{few:.0f} messages between 5 % and 95 % of a station's samples against {many:,.0f}, growth included"
    yield compared(
        "variation of stations' buffers", many > limit("variation of stations' buffers", "much") * few, text
    )
    few, many = kept(ours, "host_received_buffer"), kept(tcp, "host_received_buffer")
    text = f"{few:.2f} against {many:.2f}"
    early = few < limit("early messages at hosts", CELLULAR) and many < limit("early messages at hosts", TCP)
    yield compared("early messages at hosts", early, text)
    times = limit("early messages at hosts compared", "much")
    yield compared("early messages at hosts compared", many > times * few, text)
    small = [kept(rows, name) for rows in (ours, tcp) for name in ("host_sent_buffer", "station_received_buffer")]
    text = f"a host {small[0]:.2f}, a station {small[1]:.2f}; with TCP {small[2]:.2f} and {small[3]:.2f}"
    yield compared("other buffers", max(small) <= limit("other buffers", "small"), text)

    sent = [mean(rows, "traffic", "bytes per second") for rows in (ours, tcp)]
    size = [mean(rows, "traffic", "bytes per frame") for rows in (ours, tcp)]
    text = f"{sent[1]:,.0f} bytes per second against {sent[0]:,.0f}, {size[1]:.0f} per frame against {size[0]:.0f}"
    yield compared("data sent", sent[1] > sent[0] and size[1] > size[0], text)
    over_time = "messages sent per delivery over time"
    settled = int(limit(over_time, "quickly"))
    off = {name: max(_unsettled(row, settled) for row in rows) for name, rows in runs.items()}
    text = f"after {settled} s off by {off[CELLULAR]:.1%} at most, TCP by {off[TCP]:.1%}"
    yield compared(over_time, max(off.values()) < limit(over_time, "stabilizes"), text)


def _unsettled(row: Row, settled: int) -> float:
    """How far the ratio of a run is from where it ends, at most, from so many seconds of load on."""
    ratio: list[float] = row["series"]["ratio"]
    return max(abs(value / ratio[-1] - 1) for value in ratio[START + settled :])


# Heavier load.


def _heavy(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("cellular"), "Heavy load"
    heavy = data.of(CELLULAR, HEAVY)
    for rate in data.rates(CELLULAR):
        if rate != CALM:
            found = estimate(data.of(CELLULAR, rate), "delay", "mean")
            yield paper.figure(item, "delivery delay", setting(rate), found)
    for quantity, path in {
        "messages kept by a station": ("buffers", "station_sent_buffer", "mean"),
        "early messages at a host": ("buffers", "host_received_buffer", "mean"),
        "messages sent per second": ("traffic", "frames per second"),
        "bytes sent per second": ("traffic", "bytes per second"),
    }.items():
        yield paper.figure(item, quantity, setting(HEAVY), estimate(heavy, *path))
    growth = kept(heavy, "station_sent_buffer", "growth")
    whole = complete(heavy)
    words = "everything delivered everywhere in causal order" if whole else "not everything delivered in order"
    text = f"{words}; in the last third a station keeps {growth:.2f} times what it kept in the third before"
    holds = whole and growth < paper.limit(item, "sustained", "stable")
    yield paper.statement(item, "sustained", setting(HEAVY), holds=holds, observed=text, runs=len(heavy))
    tcp, same = data.of(TCP, TCP_HEAVY), data.of(CELLULAR, TCP_HEAVY)
    missed = 1 - mean(tcp, "traffic", "delivered")
    slow, fast = mean(tcp, "delay", "mean"), mean(same, "delay", "mean")
    buffers = kept(tcp, "station_sent_buffer")
    text = (
        f"{missed:.1%} not delivered half a minute after the last broadcast, the rest after {slow:.1f} s on"
        f" average (cellular: {fast:.2f} s); a station keeps {buffers:,.0f} messages"
    )
    loaded = "TCP flooding under load"
    slower = paper.limit(item, loaded, "another order of magnitude")
    holds = missed > paper.limit(item, loaded, "some hosts") and slow > slower * fast
    yield paper.statement(item, loaded, setting(TCP_HEAVY), holds=holds, observed=text, runs=len(tcp))


# Fig. 7.


def _dynamic(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("cellular"), "Fig. 7"
    walking, standing = data.walking, data.of(CELLULAR, WALKING)
    delays = estimate(walking, "delay", "mean"), estimate(standing, "delay", "mean")
    yield paper.figure(item, "delivery delay", "walking", delays[0])
    yield paper.figure(item, "delivery delay", "standing", delays[1])
    yield paper.figure(item, "losses", "walking", estimate(walking, "loss"))
    buffer = "station_sent_buffer"
    cost = delays[0].mean - delays[1].mean
    growth = kept(walking, buffer, "growth")
    text = (
        f"{cost:.2f} s more delay; a station keeps {kept(walking, buffer):.0f} messages,"
        f" {kept(standing, buffer):.0f} if nobody walks"
    )

    def judged(quantity: str, holds: bool, text: str) -> Finding:
        return paper.statement(item, quantity, "walking", holds=holds, observed=text, runs=len(walking))

    def limit(quantity: str, name: str) -> float:
        return paper.limit(item, quantity, name)

    slightly = cost <= limit("movement", "slightly") and growth < limit("movement", "stable")
    yield judged("movement", slightly and complete(walking), text)
    usual, most = kept(walking, buffer, "75 %"), kept(walking, buffer, "largest")
    text = f"{kept(walking, buffer):.0f} on average, {usual:.0f} or fewer in 75 % of samples, {most:.0f} at most"
    yield judged("buffers of stations", usual <= limit("buffers of stations", "a few dozen"), text)
    small = kept(walking, "host_sent_buffer"), kept(walking, "station_received_buffer")
    text = f"a host {small[0]:.2f}, a station {small[1]:.2f}"
    yield judged("other buffers", max(small) <= limit("other buffers", "most"), text)
    median = mean(walking, "delay", "median")
    text = f"half of all deliveries within {1000 * median:.0f} ms, while a retransmission takes 200 ms at least"
    yield judged("most messages", median < limit("most messages", "first broadcast"), text)
    count, carried = mean(walking, "handoffs", "count"), mean(walking, "handoffs", "carried")
    text = f"{carried:.1f} messages in each of {count:.0f} handoffs per run, on average"
    discarded = "messages discarded before a handoff"
    yield judged(discarded, count > 0 and carried <= limit(discarded, "a few"), text)
    listed = mean(walking, "handoffs", "listed")
    longest = max(at(row, "handoffs", "longest") for row in walking)
    text = f"{longest:.0f} messages in the longest, {listed:.0f} on average"
    name = "longest list of a handoff"
    yield judged(name, limit(name, "much") * listed < longest <= limit(name, "up to"), text)


# Fig. 8.


def _faults(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("cellular"), "Fig. 8"
    rows = [fault for row in data.struck for fault in row["faults"]]
    lengths = sorted({int(fault["lasts"]) for fault in rows})
    by_length = {lasts: [fault for fault in rows if fault["lasts"] == lasts] for lasts in lengths}
    peaks = {lasts: estimate(own, "peak") for lasts, own in by_length.items()}
    known = [fault for fault in rows if fault["back"] is not None]
    said = {"runs": len(data.struck)}
    for lasts in lengths:
        yield paper.figure(item, "messages kept at most", f"{lasts} s", peaks[lasts])
    for lasts in lengths:
        own = [fault for fault in by_length[lasts] if fault["back"] is not None]
        yield paper.figure(item, "back after the recovery", f"{lasts} s", estimate(own, "back") if own else None)
    slowest = max((at(fault, "back") for fault in known), default=0.0)
    gone, seconds = len(known) == len(rows), paper.limit(item, "backlog", "a few")
    text = f"{slowest:.1f} s after the recovery at most" if gone else "some never fell back"
    yield paper.statement(item, "backlog", "", holds=gone and slowest <= seconds, observed=text, **said)
    ends = [f"{peaks[lasts].mean:.0f} messages at {lasts} s" for lasts in (lengths[0], lengths[-1])]
    rises = _rises([(at(fault, "lasts"), at(fault, "peak")) for fault in rows])
    text = f"from {ends[0]} to {ends[1]}"
    yield paper.statement(item, "longer faults", "", holds=rises, observed=text, **said)
    half = lengths[len(lengths) // 2]
    parts = [
        [at(fault, "back") for fault in known if (fault["lasts"] < half) == shorter] for shorter in (True, False)
    ]
    means = " and ".join(f"{fmean(part):.1f} s" if part else "nothing" for part in parts)
    text = f"{means}, on average, for faults below {half} s and for longer ones"
    rises = _rises([(at(fault, "lasts"), at(fault, "back")) for fault in known])
    yield paper.statement(item, "time to catch up", "", holds=rises, observed=text, **said)
    struck, others = mean(rows, "peak"), mean(rows, "others")
    text = f"its station keeps {struck:.0f} messages at the peak, the fullest of the six others {others:.0f}"
    yield paper.statement(item, "the cell that is struck", "", holds=struck > others, observed=text, **said)
    left = [fault for fault in rows if fault["back"] is None or fault["back"] > 30 - fault["lasts"]]
    text = f"{len(left)} of {len(rows)} backlogs were there when the next fault came"
    yield paper.statement(item, "two faults in a row", "", holds=bool(left), observed=text, **said)
    whole = complete(data.struck)
    text = (
        "every host delivered everything once, in causal order"
        if whole
        else "not everything was delivered in order"
    )
    yield paper.statement(item, "everything is delivered", "", holds=whole, observed=text, **said)


def _rises(pairs: Sequence[tuple[float, float]]) -> bool:
    """Whether the second rises with the first by more than chance: Spearman's rank correlation, at 95 %.

    >>> _rises([(1, 3), (2, 4), (3, 9), (4, 9.5), (5, 80), (6, 81)]), _rises([(1, 2), (2, 2), (3, 2)])
    (True, False)
    """
    ranks = [_ranks(column) for column in zip(*pairs, strict=True)]
    if len(pairs) < 2 or any(len(set(each)) < 2 for each in ranks):
        return False
    return correlation(*ranks) * sqrt(len(pairs) - 1) > NormalDist().inv_cdf(0.95)


def _ranks(values: Sequence[float]) -> list[float]:
    """The same values share the mean of their ranks.

    >>> _ranks([5, 7, 5])
    [0.5, 2.0, 0.5]
    """
    return [sum(other < value for other in values) + (values.count(value) - 1) / 2 for value in values]


# The limit of what can be sent at once.


def _limit(data: Data) -> Iterator[Finding]:
    """Judged by what the paper's acknowledgements do; ours, which name holes, are shown beside them.

    A backlog is gone if the station keeps no more, on average, than it had at most before the fault.
    """
    paper, item = load_paper("cellular"), "Limit"
    counts, twice = sorted({int(row["messages"]) for row in data.outstanding}), 2 * OUTSTANDING
    printed = {count: _outstanding(data, count, named=False) for count in counts}
    for quantity, count in (("up to 400", OUTSTANDING), ("beyond 400", twice)):
        rows = printed[count]
        gone = [at(row, "after") <= at(row, "before") for row in rows]
        text = (
            f"{mean(rows, 'peak'):.0f} messages at the recovery, {mean(rows, 'after'):.0f} 20 to 30 s after it,"
            f" {mean(rows, 'before'):.0f} at most before the fault; worked off in {sum(gone)} of {len(gone)} runs"
        )
        holds = all(gone) if count <= OUTSTANDING else not any(gone)
        yield paper.statement(item, quantity, str(count), holds=holds, observed=text, runs=len(rows))
    unstable = [row for row in printed[twice] if at(row, "after") > at(row, "before")]
    spread = [at(row, "others after") > at(row, "others before") for row in unstable]
    text = f"in {sum(spread)} of {len(spread)} runs in which the cell became unstable"
    if unstable:
        text += (
            f" the fullest of the others keeps more than before: {mean(unstable, 'others after'):.0f} messages,"
            f" {mean(unstable, 'others before'):.0f} at most before the fault"
        )
    holds, runs = bool(spread) and all(spread), len(printed[twice])
    yield paper.statement(item, "other cells", str(twice), holds=holds, observed=text, runs=runs)
    for quantity, key in (("kept before the fault", "before"), ("kept 20 to 30 s after the recovery", "after")):
        for count in counts:
            for named, words in ACKNOWLEDGEMENTS.items():
                found = estimate(_outstanding(data, count, named=named), key)
                yield paper.figure(item, quantity, f"{count}, {words}", found)


ACKNOWLEDGEMENTS = {False: "the paper's acknowledgements", True: "holes named"}


def _outstanding(data: Data, count: int, *, named: bool) -> Rows:
    return [row for row in data.outstanding if row["messages"] == count and row["named"] == named]


# Section V.D.


def _memory(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("cellular"), "Memory"
    walking, said = data.walking, {"runs": len(data.walking)}
    largest = max(at(row, "traffic", "message, largest") for row in walking) - PAYLOAD
    text = f"{largest:.0f} bytes at most"
    most = paper.limit(item, "control bytes in a message", "a few integers")
    yield paper.statement(item, "control bytes in a message", "", holds=0 < largest <= most, observed=text, **said)
    ids = mean(walking, "handoffs", "skipped a message")
    text = f"{ids:.2f} hosts per message of a cell; here the list goes once to the host, and not on each copy"
    one = paper.limit(item, "ids on a message", "one or no id")
    yield paper.statement(item, "ids on a message", "", holds=ids <= one, observed=text, **said)
    listed, longest = mean(walking, "handoffs", "listed"), mean(walking, "handoffs", "longest")
    buffer = kept(walking, "station_sent_buffer", "largest")
    text = f"{listed:.0f} ids on average, {longest:.0f} in the longest; the fullest station kept {buffer:.0f}"
    holds = all(
        at(row, "handoffs", "longest") <= at(row, "buffers", "station_sent_buffer", "largest") for row in walking
    )
    yield paper.statement(item, "lists of a handoff", "", holds=holds, observed=text, **said)
    meanwhile = mean(walking, "handoffs", "meanwhile")
    text = f"{meanwhile:.1f} in a handoff, on average"
    few = meanwhile <= paper.limit(item, "messages received during a handoff", "a few")
    yield paper.statement(item, "messages received during a handoff", "", holds=few, observed=text, **said)
    sizes = sorted({int(row["hosts"]) for row in data.footprints})
    by_size = {size: [row for row in data.footprints if row["hosts"] == size] for size in sizes}
    numbers = {size: mean(rows, "numbers") for size, rows in by_size.items()}
    records = {size: mean(rows, "records") for size, rows in by_size.items()}
    shown = ", ".join(f"{numbers[size]:.1f} with {size}" for size in sizes)
    count, same = (
        paper.limit(item, "numbers kept for a host", name) for name in ("a few integers", "whatever the number")
    )
    few = max(numbers.values()) <= count and max(numbers.values()) <= same * min(numbers.values())
    runs = {"runs": len(by_size[sizes[0]])}
    yield paper.statement(item, "numbers kept for a host", "", holds=few, observed=f"{shown} hosts", **runs)
    shown = ", ".join(f"{records[size]:.0f} with {size}" for size in sizes)
    linear = all(records[size] == size for size in sizes)
    yield paper.statement(
        item, "structures of stations", "", holds=linear, observed=f"{shown} hosts, in all stations", **runs
    )


# Delays.


def settings(data: Data) -> dict[str, Rows]:
    """What distributions of delays are shown of."""
    return {
        f"{CELLULAR}, {setting(CALM)}": data.of(CELLULAR, CALM),
        f"{CELLULAR}, {setting(HEAVY)}": data.of(CELLULAR, HEAVY),
        f"{CELLULAR}, {setting(WALKING)}, walking": data.walking,
        f"{TCP}, {setting(CALM)}": data.of(TCP, CALM),
    }


def _delays(data: Data) -> Iterator[Finding]:
    paper = load_paper("cellular")
    for quantity in ("median", "95 %"):
        for name, rows in settings(data).items():
            yield paper.figure("Delays", quantity, name, estimate(rows, "delay", quantity))


def _timers(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("cellular"), "Timers"
    for quantity, path in {
        "delivery delay": ("delay", "mean"),
        "messages sent per delivery": ("traffic", "frames per delivery"),
        "messages kept by a station": ("buffers", "station_sent_buffer", "mean"),
    }.items():
        for rate in sorted({row["rate"] for row in data.measured}):
            own = [row for row in data.measured if row["rate"] == rate]
            yield paper.figure(item, quantity, setting(rate), estimate(own, *path))
