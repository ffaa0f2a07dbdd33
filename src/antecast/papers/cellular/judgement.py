"""From measures to findings: what the runs say about each figure and statement of the paper.

Where the paper's words leave a limit open ("a few dozen", "much", "a few seconds"), it is ours and stands here;
read such a mark together with the figures beside it. Comparisons are between means over runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from antecast.history.confidence import Estimate
from antecast.papers.cellular.experiment import CALM, HEAVY, PAYLOAD, START, WALKING
from antecast.papers.findings import TOLERANCE, Finding
from antecast.papers.paper import load_paper

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Sequence[Row]
Value: TypeAlias = Callable[[Row], float]

CELLULAR, TCP = "cellular", "tcp-flooding"
TCP_HEAVY: Final = 25.0
"""Broadcasts a second at which TCP flooding is looked at under load."""

MUCH: Final = 3.0
"""How many times as large is "much"."""
MAGNITUDE: Final = 10.0
SMALL: Final = 0.5
"""Messages a node that are "small"."""
FEW_DOZEN: Final = 60.0
"""Messages that a station keeps at most in three samples of four."""
SLIGHT: Final = 0.15
"""Seconds of delay that are "slightly" more; the paper has 0.05."""
SECONDS: Final = 5.0
"""What "a few seconds" are at most."""
STEADY: Final = 1.5
"""A buffer that does not grow is at most so much larger in the last third of a run than in the third before."""
SETTLED: Final = 20
"""Seconds after which a ratio that "stabilizes quickly" is near where it ends, within the tolerance of figures."""
LONGER: Final = 1.2
"""How many times as long the longer half of the faults takes to catch up as the shorter half, if it matters."""
LONGEST: Final = 200
"""Messages in the longest list of a handoff, as the paper has it; an extreme may be some more."""
INTEGERS: Final = 24
"""Bytes that "a few integers" take."""


@dataclass(frozen=True)
class Data:
    """All runs of a study, each with its point."""

    still: Rows
    """By protocol and rate."""
    walking: Rows
    struck: Rows
    footprints: Rows

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
    parts = (_static, _heavy, _dynamic, _faults, _memory, _delays)
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
        "messages sent a delivery": ("traffic", "frames a delivery"),
        "messages sent a delivery, with wires": ("traffic", "with wires"),
        "delivery delay": ("delay", "mean"),
        "losses": ("loss",),
    }.items():
        for name, rows in runs.items():
            yield paper.figure(item, quantity, name, estimate(rows, *path))

    def compared(quantity: str, holds: bool, text: str) -> Finding:
        return paper.statement(item, quantity, "", holds=holds, observed=text, **said)

    slow, fast = mean(tcp, "delay", "mean"), mean(ours, "delay", "mean")
    short = 1 - mean(tcp, "traffic", "delivered")
    text = f"{fast:.2f} s against {slow:.1f} s, {slow / fast:.0f} times"
    if short > 0:
        text += f"; {short:.1%} of TCP's deliveries had not come when the run ended, and are in no mean"
    yield compared("delays compared", slow > MUCH * fast, text)
    losses = mean(ours, "loss"), mean(tcp, "loss")
    yield compared("losses compared", losses[1] < losses[0], f"{losses[1]:.1%} against {losses[0]:.1%}")

    buffer = "station_sent_buffer"
    few, many = kept(ours, buffer), kept(tcp, buffer)
    text = f"{few:.1f} messages against {many:,.0f}"
    yield compared("buffers of stations", many > MAGNITUDE * few, text)
    few, many = kept(ours, buffer, "swing"), kept(tcp, buffer, "swing")
    text = f"{few:.0f} messages between 5 % and 95 % of a station's samples against {many:,.0f}, growth included"
    yield compared("variation of stations' buffers", many > MUCH * few, text)
    few, many = kept(ours, "host_received_buffer"), kept(tcp, "host_received_buffer")
    text = f"{few:.2f} against {many:.2f}"
    yield compared("early messages at hosts", few < 0.5 and many < 5, text)
    yield compared("early messages at hosts compared", many > MUCH * few, text)
    small = [kept(rows, name) for rows in (ours, tcp) for name in ("host_sent_buffer", "station_received_buffer")]
    text = f"a host {small[0]:.2f}, a station {small[1]:.2f}; with TCP {small[2]:.2f} and {small[3]:.2f}"
    yield compared("other buffers", max(small) < SMALL, text)

    sent = [mean(rows, "traffic", "bytes a second") for rows in (ours, tcp)]
    size = [mean(rows, "traffic", "bytes a frame") for rows in (ours, tcp)]
    text = f"{sent[1]:,.0f} bytes a second against {sent[0]:,.0f}, {size[1]:.0f} a frame against {size[0]:.0f}"
    yield compared("data sent", sent[1] > sent[0] and size[1] > size[0], text)
    off = {name: max(_unsettled(row) for row in rows) for name, rows in runs.items()}
    text = f"after {SETTLED} s off by {off[CELLULAR]:.1%} at most, TCP by {off[TCP]:.1%}"
    yield compared("messages sent a delivery over time", max(off.values()) < TOLERANCE, text)


def _unsettled(row: Row) -> float:
    """How far the ratio of a run is from where it ends, at most, from `SETTLED` seconds of load on."""
    ratio: list[float] = row["series"]["ratio"]
    return max(abs(value / ratio[-1] - 1) for value in ratio[START + SETTLED :])


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
        "messages sent a second": ("traffic", "frames a second"),
        "bytes sent a second": ("traffic", "bytes a second"),
    }.items():
        yield paper.figure(item, quantity, setting(HEAVY), estimate(heavy, *path))
    growth = kept(heavy, "station_sent_buffer", "growth")
    whole = complete(heavy)
    words = "everything delivered everywhere in causal order" if whole else "not everything delivered in order"
    text = f"{words}; in the last third a station keeps {growth:.2f} times what it kept in the third before"
    yield paper.statement(
        item, "sustained", setting(HEAVY), holds=whole and growth < STEADY, observed=text, runs=len(heavy)
    )
    tcp, same = data.of(TCP, TCP_HEAVY), data.of(CELLULAR, TCP_HEAVY)
    missed = 1 - mean(tcp, "traffic", "delivered")
    slow, fast = mean(tcp, "delay", "mean"), mean(same, "delay", "mean")
    buffers = kept(tcp, "station_sent_buffer")
    text = (
        f"{missed:.1%} not delivered half a minute after the last broadcast, the rest after {slow:.1f} s on"
        f" average (cellular: {fast:.2f} s); a station keeps {buffers:,.0f} messages"
    )
    holds = missed > 0.01 and slow > MAGNITUDE * fast
    yield paper.statement(
        item, "TCP flooding under load", setting(TCP_HEAVY), holds=holds, observed=text, runs=len(tcp)
    )


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
    holds = cost < SLIGHT and growth < STEADY and complete(walking)
    said = {"runs": len(walking)}
    yield paper.statement(item, "movement", "walking", holds=holds, observed=text, **said)
    usual, most = kept(walking, buffer, "75 %"), kept(walking, buffer, "largest")
    text = f"{kept(walking, buffer):.0f} on average, {usual:.0f} or fewer in 75 % of samples, {most:.0f} at most"
    yield paper.statement(item, "buffers of stations", "walking", holds=usual <= FEW_DOZEN, observed=text, **said)
    small = kept(walking, "host_sent_buffer"), kept(walking, "station_received_buffer")
    text = f"a host {small[0]:.2f}, a station {small[1]:.2f}"
    yield paper.statement(item, "other buffers", "walking", holds=max(small) <= 0.3, observed=text, **said)
    median = mean(walking, "delay", "median")
    text = f"half of all deliveries within {1000 * median:.0f} ms, while a retransmission takes 200 ms at least"
    yield paper.statement(item, "most messages", "walking", holds=median < 0.2, observed=text, **said)
    count, carried = mean(walking, "handoffs", "count"), mean(walking, "handoffs", "carried")
    text = f"{carried:.1f} messages in each of {count:.0f} handoffs a run, on average"
    holds = count > 0 and carried < 12
    yield paper.statement(
        item, "messages discarded before a handoff", "walking", holds=holds, observed=text, **said
    )
    listed = mean(walking, "handoffs", "listed")
    longest = max(at(row, "handoffs", "longest") for row in walking)
    text = f"{longest:.0f} messages in the longest, {listed:.0f} on average"
    holds = MUCH * listed < longest <= 1.25 * LONGEST
    yield paper.statement(item, "longest list of a handoff", "walking", holds=holds, observed=text, **said)


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
    gone = len(known) == len(rows)
    text = f"{slowest:.1f} s after the recovery at most" if gone else "some never fell back"
    yield paper.statement(item, "backlog", "", holds=gone and slowest <= SECONDS, observed=text, **said)
    short, long = lengths[: len(lengths) // 2], lengths[(len(lengths) + 1) // 2 :]
    means = [sum(peaks[lasts].mean for lasts in part) / len(part) for part in (short, long)]
    ends = [f"{peaks[lasts].mean:.0f} messages at {lasts} s" for lasts in (lengths[0], lengths[-1])]
    text = f"from {ends[0]} to {ends[1]}"
    rank = _rank_correlation([peaks[lasts].mean for lasts in lengths])
    holds = means[0] < means[1] and rank > 0.8
    yield paper.statement(
        item, "longer faults", "", holds=holds, observed=f"{text} (rank correlation {rank:.2f})", **said
    )
    backs = [
        sum(at(fault, "back") for fault in known if fault["lasts"] in part)
        / max(1, sum(fault["lasts"] in part for fault in known))
        for part in (short, long)
    ]
    text = f"{backs[0]:.1f} s for the shorter half of the faults, {backs[1]:.1f} s for the longer"
    yield paper.statement(item, "time to catch up", "", holds=backs[1] > LONGER * backs[0], observed=text, **said)
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


def _rank_correlation(values: Sequence[float]) -> float:
    """Of values with their positions, by Spearman.

    >>> _rank_correlation([1, 2, 5, 9]), _rank_correlation([3, 2, 1])
    (1.0, -1.0)
    """
    count = len(values)
    if count < 2:
        return 0.0
    ranks = {index: rank for rank, index in enumerate(sorted(range(count), key=lambda index: values[index]))}
    return 1 - 6 * sum((ranks[index] - index) ** 2 for index in range(count)) / (count * (count * count - 1))


# Section V.D.


def _memory(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("cellular"), "Memory"
    walking, said = data.walking, {"runs": len(data.walking)}
    largest = max(at(row, "traffic", "message, largest") for row in walking) - PAYLOAD
    text = f"{largest:.0f} bytes at most"
    yield paper.statement(
        item, "control bytes in a message", "", holds=0 < largest <= INTEGERS, observed=text, **said
    )
    ids = mean(walking, "handoffs", "skipped a message")
    text = f"{ids:.2f} hosts a message of a cell; here the list goes once to the host, and not on each copy"
    yield paper.statement(item, "ids on a message", "", holds=ids <= 1, observed=text, **said)
    listed, longest = mean(walking, "handoffs", "listed"), mean(walking, "handoffs", "longest")
    buffer = kept(walking, "station_sent_buffer", "largest")
    text = f"{listed:.0f} ids on average, {longest:.0f} in the longest; the fullest station kept {buffer:.0f}"
    holds = all(
        at(row, "handoffs", "longest") <= at(row, "buffers", "station_sent_buffer", "largest") for row in walking
    )
    yield paper.statement(item, "lists of a handoff", "", holds=holds, observed=text, **said)
    meanwhile = mean(walking, "handoffs", "meanwhile")
    text = f"{meanwhile:.1f} in a handoff, on average"
    yield paper.statement(
        item, "messages received during a handoff", "", holds=meanwhile < 5, observed=text, **said
    )
    sizes = sorted({int(row["hosts"]) for row in data.footprints})
    by_size = {size: [row for row in data.footprints if row["hosts"] == size] for size in sizes}
    numbers = {size: mean(rows, "numbers") for size, rows in by_size.items()}
    records = {size: mean(rows, "records") for size, rows in by_size.items()}
    shown = ", ".join(f"{numbers[size]:.1f} with {size}" for size in sizes)
    few = max(numbers.values()) < 32 and max(numbers.values()) < 1.25 * min(numbers.values())
    runs = {"runs": len(by_size[sizes[0]])}
    yield paper.statement(item, "numbers kept for a host", "", holds=few, observed=f"{shown} hosts", **runs)
    shown = ", ".join(f"{records[size]:.0f} with {size}" for size in sizes)
    linear = all(abs(records[size] / size - 1) < 0.05 for size in sizes)
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
