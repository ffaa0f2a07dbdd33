"""Which of the VCube paper's figures and statements hold, under each model of its network."""

from __future__ import annotations

from collections.abc import Iterator

from antecast.history.confidence import Estimate
from antecast.papers.findings import Finding, figure
from antecast.papers.paper import load_paper
from antecast.papers.vcube.data import (
    LARGE,
    ONE,
    RATES,
    Data,
    Row,
    Rows,
    Value,
    histogram_mean,
    last,
    mean,
    of,
    ratio,
    within,
)
from antecast.papers.vcube.experiment import MODELS, ON_THE_WAY, SIZES

_NOT_RUN = "not run at the quick size"


def findings(data: Data, loads: Rows, nodes: int) -> Iterator[Finding]:
    """All findings; `loads` are the runs under load, of networks of so many nodes."""
    yield from _under_load(loads, nodes)
    tables = (_table_1, _table_2, _table_3)
    for part in (*tables, _figure_6, _figure_7, _figure_8, _figure_9, _figure_10, _figure_11):
        yield from part(data)


def _beside(
    item: str,
    quantity: str,
    setting: str,
    nodes: int,
    data: Data,
    value: Value,
    *,
    runs: Rows | None = None,
) -> Iterator[Finding]:
    """The paper's figure beside ours, under each model; `runs` are some that were made under one only."""
    paper = load_paper("vcube")
    what = paper.items[item].quantities[quantity]
    theirs = paper.value(item, quantity, setting)
    for model in MODELS if runs is None else ("calibrated",):
        own = data.runs(nodes, model) if runs is None else runs
        values = [found for found in map(value, own) if found is not None]
        explained = what.reasons.get("literal") if model == "literal" else what.reasons.get(setting)
        yield figure(
            item,
            f"{quantity} ({model})",
            setting,
            what.unit,
            paper=theirs,
            ours=Estimate.of(values) if values else None,
            tolerance=paper.tolerance(item, quantity),
            reason=(explained or what.reason) if own else _NOT_RUN,
        )


def _under_load(loads: Rows, nodes: int) -> Iterator[Finding]:
    paper = load_paper("vcube")
    low, high = RATES[0], RATES[-1]
    for quantity, name in (("one tree", "vcube-single"), ("one tree a source", "vcube")):
        own = [row for row in loads if row["name"] == name]
        idle, busy = (Estimate.of(row["latency"] for row in own if row["rate"] == rate) for rate in (low, high))
        growth = busy.mean / idle.mean
        queues = growth > paper.limit("Fig. 1", "one tree", "starts queuing")
        flat = growth < paper.limit("Fig. 1", "one tree a source", "scales well")
        yield paper.statement(
            "Fig. 1",
            quantity,
            f"{nodes} nodes",
            holds=queues if quantity == "one tree" else flat,
            observed=f"{idle.mean:,.0f} u.t. with {low} messages per unit of time, {busy.mean:,.0f} with {high}",
            runs=busy.runs,
        )


def _table_1(data: Data) -> Iterator[Finding]:
    packets, plain = of("with", "packets"), of("without", "packets")
    reduced = ratio(packets, plain)
    values: dict[str, Value] = {
        "packets without aggregation": plain,
        "packets": packets,
        "reduction": lambda row: 1 - (reduced(row) or 0),
        "packets with several messages": ratio(of("with", "several"), packets),
    }
    for quantity, value in values.items():
        for size in SIZES[1:]:
            yield from _beside("Table 1", quantity, str(size), size, data, value)


def _table_2(data: Data) -> Iterator[Finding]:
    name = "messages per packet"
    for quantity, least in (("of all packets", 1), ("of packets with several", 2)):
        everything = within("with", name, least)
        for count in range(least, 6):
            share = ratio(within("with", name, count, count), everything)
            yield from _beside("Table 2", quantity, str(count), ONE, data, share)
        yield from _beside("Table 2", quantity, "more", ONE, data, ratio(within("with", name, 6), everything))
    yield from _beside("Table 2", "most messages in a packet", "", ONE, data, last("with", name))


def _table_3(data: Data) -> Iterator[Finding]:
    bins = ("up to 100", "to 200", "to 300", "to 400", "above 400")
    for part in ("with", "without"):
        for index, setting in enumerate(bins):
            share = ratio(within(part, "sizes", index, index), of(part, "packets"))
            yield from _beside("Table 3", f"{part} aggregation", setting, ONE, data, share)

    def larger(row: Row) -> float:
        return float(sum(row["with"]["size histogram"][len(row["without"]["size histogram"]) :]))

    packets = of("with", "packets")
    yield from _beside("Table 3", "larger than all without", "", ONE, data, ratio(larger, packets))
    yield from _beside("Table 3", "above 1400 bytes", "", ONE, data, ratio(of("with", "above 1400"), packets))
    yield from _beside("Table 3", "closed for lack of room", "", ONE, data, of("with", "splits"))


def _figure_6(data: Data) -> Iterator[Finding]:
    bins = {"0": (0, 0), "1 to 4": (1, 4), "5 to 9": (5, 9), "above 12": (13, None)}
    everything = within("with", "dependencies", 0)
    for setting, (low, high) in bins.items():
        share = ratio(within("with", "dependencies", low, high), everything)
        yield from _beside("Fig. 6", "share of messages", setting, ONE, data, share)
    yield from _beside("Fig. 6", "most dependencies", "", ONE, data, last("with", "dependencies"))


def _figure_7(data: Data) -> Iterator[Finding]:
    item = "Fig. 7"
    first = {(row["model"], row["seed"]): row for model in MODELS for row in data.runs(SIZES[0], model)}

    def growth(value: Value) -> Value:
        """Over the value of the run with 8 nodes."""
        return ratio(value, lambda row: value(first[row["model"], row["seed"]]))

    def waits(part: str) -> Value:
        """A packet's time in the send queue: all its time less what is not spent there."""
        return lambda row: row[part]["transit"] - ON_THE_WAY[row["model"]]

    for part, words in (("with", "with aggregation"), ("without", "without")):
        for name, prefix in (("reception", "reception"), ("reception, longest", "longest reception")):
            quantity = f"{prefix} at 1024 over 8 nodes, {words}"
            yield from _beside(item, quantity, "", LARGE, data, growth(of(part, name)))
    compared: list[tuple[str, Value, tuple[int, ...]]] = [
        ("reception with aggregation over without", _over("with", "without", "reception"), (ONE, LARGE)),
        ("delivery with aggregation over without", _over("with", "without", "delivery"), (LARGE,)),
        ("held time without aggregation over with", _over("without", "with", "held"), (16, LARGE)),
        (
            "time in the send queue without aggregation over with",
            ratio(waits("without"), waits("with")),
            (LARGE,),
        ),
        ("time in the send queue without aggregation", waits("without"), (LARGE,)),
    ]
    for quantity, value, sizes in compared:
        for size in sizes:
            yield from _beside(item, quantity, str(size), size, data, value)
    for model in MODELS:
        yield from _latencies(data, model)


def _over(above: str, below: str, name: str) -> Value:
    return ratio(of(above, name), of(below, name))


def _latencies(data: Data, model: str) -> Iterator[Finding]:
    """What the text says of Figure 7."""
    paper, item = load_paper("vcube"), "Fig. 7"
    off = {
        name: {
            size: mean(data.runs(size, model), "with", name) / mean(data.runs(size, model), "without", name) - 1
            for size in data.sizes
        }
        for name in ("reception", "delivery")
    }
    runs = len(data.runs(data.sizes[0], model))
    upto = [size for size in data.sizes if size < LARGE]
    worst = max(upto, key=lambda size: abs(off["delivery"][size]))
    yield paper.statement(
        item,
        "delivery up to 512 nodes",
        model,
        holds=abs(off["delivery"][worst]) <= paper.limit(item, "delivery up to 512 nodes", "up to 3.2 %"),
        observed=f"at most {off['delivery'][worst]:+.1%} ({worst} nodes)",
        runs=runs,
    )
    longer = [size for size in upto if off["reception"][size] > 0]
    yield paper.statement(
        item,
        "reception up to 512 nodes",
        model,
        holds=set(longer) >= set(upto[1:]),
        observed=f"longer with {', '.join(map(str, longer)) or 'no number of'} nodes",
        runs=runs,
    )
    if LARGE in data.sizes:
        found = off["delivery"][LARGE]
        yield paper.statement(
            item, "delivery at 1024 nodes", model, holds=found < 0, observed=f"{found:+.1%}", runs=runs
        )


def _figure_8(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("vcube"), "Fig. 8"
    yield from _beside(item, "packets of two with 8 nodes", "8", 8, data, of("pairs", "packets"))
    held = ratio(of("pairs", "held"), of("pairs", "held, plain"))
    for size in (64, 512):
        yield from _beside(item, "held time with aggregation over without", str(size), size, data, held)
    for model in MODELS:
        off = {name: _pairs_off(data, model, name) for name in ("delivery", "reception")}
        upto = [size for size in off["delivery"] if size < LARGE]
        runs = len(data.runs(data.sizes[0], model))
        worst = max(upto, key=lambda size: abs(off["delivery"][size]))
        yield paper.statement(
            item,
            "delivery",
            model,
            holds=abs(off["delivery"][worst]) <= paper.limit(item, "delivery", "the same"),
            observed=f"at most {off['delivery'][worst]:+.1%} ({worst} nodes)",
            runs=runs,
        )
        most = max(upto, key=lambda size: off["reception"][size])
        bound = paper.limit(item, "reception", "up to 13.6 %")
        yield paper.statement(
            item,
            "reception",
            model,
            holds=off["reception"][most] <= bound and all(off["reception"][size] > 0 for size in upto),
            observed=f"by up to {off['reception'][most]:.1%} ({most} nodes)",
            runs=runs,
        )


def _pairs_off(data: Data, model: str, name: str) -> dict[int, float]:
    """How much later messages in packets of two are than without aggregation, at each size that has any."""
    off = {}
    for size in data.sizes:
        pairs = [row["pairs"] for row in data.runs(size, model) if row["pairs"]["packets"]]
        if pairs:
            ours, plain = (
                sum(each["packets"] * each[column] for each in pairs) for column in (name, f"{name}, plain")
            )
            off[size] = ours / plain - 1
    return off


def _figure_9(data: Data) -> Iterator[Finding]:
    for quantity, low, high in (("nodes with at most 50", 0, 50), ("nodes with more than 250", 251, None)):
        for part in ("with", "without"):
            yield from _beside("Fig. 9", quantity, part, LARGE, data, within(part, "buffered", low, high))


def _figure_10(data: Data) -> Iterator[Finding]:
    item, name = "Fig. 10", "most aggregated"
    everyone = within("with", name, 0)
    share = ratio(within("with", name, 7, 11), everyone)
    yield from _beside(item, "nodes between 7 and 11", "50 bytes", LARGE, data, share)
    yield from _beside(item, "most in any packet", "50 bytes", LARGE, data, last("with", name))
    large, small = data.runs(LARGE, "calibrated"), data.small()
    share = ratio(within("with", name, 8, 12), everyone)
    yield from _beside(item, "nodes between 8 and 12", "5 bytes", LARGE, data, share, runs=small)
    if small:
        with_50, with_5 = (histogram_mean([row["with"][name] for row in rows]) for rows in (large, small))
        yield load_paper("vcube").statement(
            item,
            "smaller messages",
            "calibrated",
            holds=with_5 > with_50,
            observed=f"{with_50:.2f} with 50 bytes, {with_5:.2f} with 5, on average",
            runs=len(small),
        )


def _figure_11(data: Data) -> Iterator[Finding]:
    paper, item = load_paper("vcube"), "Fig. 11"
    said = {
        "aggregation": ("aggregated messages", "at least 86 %", 32),
        "delay": ("delayed messages", "at least 84 %", 128),
    }
    for quantity, (name, words, at) in said.items():
        fewer = {}
        for size in data.sizes[1:]:
            many = mean(data.runs(size, "calibrated"), "with", name)
            fewer[size] = Estimate.of(1 - row["with"][name] / many for row in data.single(size))
        yield paper.figure(item, f"{name}, fewer with one tree", str(at), fewer.get(at))
        worst = min(fewer, key=lambda size: fewer[size].mean)
        yield paper.statement(
            item,
            quantity,
            "calibrated",
            holds=fewer[worst].mean >= paper.limit(item, quantity, words),
            observed=f"at least {fewer[worst].mean:.1%} ({worst} nodes)",
            runs=fewer[worst].runs,
        )
