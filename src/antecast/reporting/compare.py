"""The page of a comparison: which protocol to take and why, then one table and one plot, then the details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from antecast.comparison.demands import DELIVERY_SLACK
from antecast.comparison.result import Comparison
from antecast.comparison.standings import Order, Standing
from antecast.comparison.words import size, with_interval
from antecast.reporting.compare_charts import choice_chart, latency_chart
from antecast.reporting.page import Block, Chart, Page, Section, TableBlock, Text, Tone
from antecast.text.wording import listed, number, share_text, time_text


def compare_page(result: Comparison, *, network: Mapping[str, str], command: str) -> Page:
    """One page for a person who has to choose; `network` says in words what was compared on."""
    judgement = result.judgement
    ran = sorted(result.standings, key=_place)
    seeds = f"{result.seeds[0]} to {result.seeds[-1]}" if len(result.seeds) > 1 else f"{result.seeds[0]}"
    broken = any(each.order is Order.BROKEN for each in ran)
    tone: Tone = "bad" if judgement.recommended is None or broken else "good"
    return Page(
        title=f"Which protocol for {result.name}?",
        verdict=judgement.headline,
        tone=tone,
        lead=judgement.reasons,
        sections=[
            Section("To choose from", [*_choice(result, ran), _main_table(result, ran)]),
            *_limits(result),
            Section("Latency", [*_latency(result, ran)]),
            Section("Causal order", [_order_table(ran)]),
            Section("What it costs", [_cost_table(ran)]),
            Section("What each promises and assumes", [_assumptions(ran), *_excluded(result)]),
            Section("How they were compared", [Text(text) for text in _method(result)]),
        ],
        facts={"command": command, **network, "seeds": seeds, "runs": "runs.parquet and runs/, beside this page"},
    )


def _place(each: Standing) -> tuple[int, float, str]:
    """By what became of causal order, then by latency."""
    return each.order.rank, each.latency_p99.mean if each.latency_p99 else float("inf"), each.name


def _main_table(result: Comparison, ran: Sequence[Standing]) -> TableBlock:
    judgement = result.judgement
    limited = bool(judgement.demands.stated)
    header = ["protocol", "causal order", "violations", "latency, 99th percentile", "control bytes a delivery"]
    header += ["frames a delivery", "memory, messages", "delivered", "assumes"] + ["limits"] * limited
    rows = []
    for each in ran:
        row = [
            f"→ {each.name}" if each.name == judgement.recommended else each.name,
            str(each.order) if each.runs else "no run",
            with_interval(each.violation_share, share_text),
            with_interval(each.latency_p99, time_text),
            with_interval(each.control_bytes),
            with_interval(each.frames),
            "–" if each.messages_peak is None else number(each.messages_peak.mean),
            "–" if each.delivered is None else share_text(each.delivered.mean),
            ", ".join(each.assumes) or "nothing",
        ]
        if limited:
            missed = [miss.aspect for miss in judgement.misses.get(each.name, ())]
            row.append(", ".join(f"misses {aspect}" for aspect in missed) or "meets all")
        rows.append([row[0], row[1], *(cell.replace(" ", "\u00a0") for cell in row[2:8]), *row[8:]])
    for other in result.excluded:
        lacks = " and ".join(each.partition(":")[0] for each in other.lacks)
        rows.append([other.name, "cannot run here", *["–"] * 6, f"needs {lacks}", *[""] * limited])
    notes = [
        "Violations: the share of deliveries that came before something they depend on. Memory: the most messages"
        " that a node kept at once. ± is half the 95 % interval over the seeds.",
        "Data: compare.parquet, beside this page.",
    ]
    return TableBlock("", header, rows, notes)


def _limits(result: Comparison) -> list[Section]:
    """Why those who do not qualify do not."""
    missed = result.judgement.misses
    if not missed:
        return []
    rows = [[name, "; ".join(miss.text for miss in found)] for name, found in missed.items()]
    return [Section("Who does not qualify", [TableBlock("", ["protocol", "because"], rows)])]


def _choice(result: Comparison, ran: Sequence[Standing]) -> list[Block]:
    shown = [each for each in ran if each.latency_p99 is not None and each.control_bytes is not None]
    if not shown:
        return []
    spec, cut = choice_chart(shown, result.judgement)
    places = [
        f"{each.name} {time_text(each.latency_p99.mean)}, {size(each.control_bytes.mean)}"
        for each in shown
        if each.latency_p99 is not None and each.control_bytes is not None
    ]
    words = (
        "Further left is faster, further down is cheaper; colour and shape say what became of causal order, and a"
        f" larger mark means more messages kept at a node: {'; '.join(places)}."
    )
    return [Chart("Latency against control information, one mark a protocol", spec, words, cut)]


def _latency(result: Comparison, ran: Sequence[Standing]) -> list[Block]:
    rows = [
        [
            each.name,
            with_interval(each.latency_mean, time_text),
            with_interval(each.latency_p50, time_text),
            with_interval(each.latency_p99, time_text),
            with_interval(each.delivered, share_text),
        ]
        for each in ran
    ]
    table = TableBlock("", ["protocol", "mean", "median", "99th percentile", "delivered"], rows)
    if not result.curves.num_rows:
        return [table]
    medians = [f"{each.name} half by {time_text(each.latency_p50.mean)}" for each in ran if each.latency_p50]
    words = (
        "The share of all deliveries that could be made, over the time since the broadcast; a curve that ends"
        f" below 100 % belongs to a protocol that left messages out: {'; '.join(medians)}."
    )
    note = "Means of the seeds. Data: latency.parquet, beside this page."
    order = {each.name: each.order for each in ran}
    chart = Chart("Deliveries over time", latency_chart(result.curves, order), words, note)
    return [table, chart]


def _order_table(ran: Sequence[Standing]) -> TableBlock:
    header = ["protocol", "causal order", "deliveries", "too early", "too late", "pairs out of order", "repeated"]
    rows = []
    for each in ran:
        pairs = "too many to count" if each.pairs is None else f"{each.pairs:,}"
        counts = [f"{each.deliveries:,}", f"{each.early:,}", f"{each.late:,}", pairs, f"{each.duplicates:,}"]
        missing = f"{each.missing:,}"
        rows.append([each.name, str(each.order) if each.runs else "no run", *counts, missing])
    notes = [
        "Counts of all runs, by the auditor. Too early: deliveries before something of their causal past; too"
        " late: after something that depends on them; a pair is two messages that a node delivered in the wrong"
        " order."
        " Missing: deliveries at other nodes that never came; nodes that were away count.",
        "“Guaranteed” is promised and was kept; “kept here” was not promised, and another network may break it.",
    ]
    return TableBlock("", [*header, "missing"], rows, notes)


def _cost_table(ran: Sequence[Standing]) -> TableBlock:
    header = ["protocol", "control bytes a delivery", "control bytes a frame", "frames a delivery"]
    header += ["messages, mean", "messages, most", "entries, mean", "entries, most"]
    rows = [
        [
            each.name,
            with_interval(each.control_bytes),
            with_interval(each.control_bytes_frame),
            with_interval(each.frames),
            with_interval(each.messages_mean),
            with_interval(each.messages_peak),
            with_interval(each.entries_mean),
            with_interval(each.entries_peak),
        ]
        for each in ran
    ]
    notes = [
        "Control bytes are all that was sent but payload, from the real encoding; frames without a message count"
        " whole. A delivery is one at any node, the origin included.",
        "Memory is what the protocols' gauges say of a node: messages waiting for their turn, kept to pass on or"
        " to repair, or buffered (one that waits and is kept counts for both); entries of clocks, barriers and"
        " other tables of numbers. The N counters of what was received in order are not counted. Means are over"
        " nodes and the time in which applications broadcast.",
    ]
    return TableBlock("", header, rows, notes)


def _assumptions(ran: Sequence[Standing]) -> TableBlock:
    rows = [
        [each.name, each.title, ", ".join(each.promises), ", ".join(each.assumes) or "nothing", each.settings]
        for each in ran
    ]
    return TableBlock("", ["protocol", "what it is", "promises", "assumes", "settings beyond its defaults"], rows)


def _excluded(result: Comparison) -> list[Block]:
    if not result.excluded:
        return []
    rows = [
        [
            each.name,
            each.specification.title,
            " and ".join(each.lacks),
            ", ".join(sorted(each.specification.guarantees)),
        ]
        for each in result.excluded
    ]
    header = ["protocol", "what it is", "would need", "would promise"]
    return [TableBlock("Cannot run on this network", header, rows)]


def _method(result: Comparison) -> list[str]:
    counts = {counts for counts in result.offered.values() if counts}
    texts = [
        f"Every protocol ran on the same network, with the same streams of delays and losses, {_seeds(result)}."
    ]
    if result.same_offer:
        each = listed([f"{count:,}" for count in next(iter(counts), ())])
        texts.append(
            f"All were offered the very same broadcasts, at the same nodes and times and of the same sizes: {each}"
            " messages, seed by seed. This was checked in the logs."
        )
    else:
        why = " because the workload answers what is delivered, and they deliver differently" * result.answers
        ranges = [f"{name} {sum(each):,}" for name, each in result.offered.items()]
        texts.append(
            f"They could not be offered the same broadcasts{why}. In all seeds together: {'; '.join(ranges)}."
        )
    demands = result.judgement.demands
    if demands.stated:
        judged = (
            "the bad end of the interval over the seeds" if len(result.seeds) > 1 else "the value of the one run"
        )
        limits = listed([demands.option(aspect) for aspect in demands.stated])
        texts.append(f"Limits: {limits}. They are judged by {judged}; latency by its 99th percentile.")
    if demands.delivery is None:
        texts.append(
            f"A protocol that delivers {100 * DELIVERY_SLACK:g} % fewer messages than the most complete one is no"
            " candidate, since leaving out what is late makes any protocol look fast; --min-delivery sets another"
            " rule."
        )
    texts.append(
        "Unless violations are allowed, a guarantee of causal order comes before order that only happened to be"
        " kept. Then the lowest 99th percentile of latency decides, or the fewest control bytes where only"
        " latency has a limit; differences up to a tenth count as none."
    )
    return texts


def _seeds(result: Comparison) -> str:
    return (
        "with one seed, so there are no intervals" if len(result.seeds) == 1 else f"with {len(result.seeds)} seeds"
    )
