"""The page of a comparison: which protocol to take and why, then one table and one plot, then the details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from antecast.comparison.demands import DELIVERY_SLACK
from antecast.comparison.result import Comparison
from antecast.comparison.standings import Order, Standing
from antecast.comparison.words import size, with_interval
from antecast.history.confidence import Estimate
from antecast.reporting.compare_charts import choice_chart, latency_chart
from antecast.reporting.page import Block, Chart, Page, Section, TableBlock, Text, Tone
from antecast.reporting.units import PER_CENT, Unit, time_for
from antecast.text.wording import listed, number, share_text


def compare_page(result: Comparison, *, network: Mapping[str, str], command: str) -> Page:
    """One page for a person who has to choose; `network` says in words what was compared on."""
    judgement = result.judgement
    ran = sorted(result.standings, key=_place)
    seeds = f"{result.seeds[0]} to {result.seeds[-1]}" if len(result.seeds) > 1 else f"{result.seeds[0]}"
    unit = time_for(
        each.mean for standing in ran for each in (standing.latency_p50, standing.latency_p99) if each is not None
    )
    return Page(
        title=f"Which protocol for {result.name}?",
        verdict=unit.retell(judgement.headline),
        tone=_tone(result),
        lead=[unit.retell(reason) for reason in judgement.reasons],
        sections=[
            Section("To choose from", [*_choice(result, ran, unit), _main_table(result, ran, unit)]),
            *_limits(result, unit),
            Section("Latency", [*_latency(result, ran, unit)]),
            Section("Causal order", [_order_table(ran)]),
            Section("What it costs", [_cost_table(ran)]),
            Section("What each promises and assumes", [_assumptions(ran), *_excluded(result)]),
            Section("How they were compared", [Text(text) for text in _method(result)]),
        ],
        facts={
            "command": command,
            **network,
            "seeds": seeds,
            "runs": "runs.parquet, events/ and samples/, beside this page",
        },
    )


def _tone(result: Comparison) -> Tone:
    """Green only if what is recommended guarantees causal order, and nobody broke a promise or failed."""
    taken = next((each for each in result.standings if each.name == result.recommended), None)
    if taken is None or any(each.order is Order.BROKEN for each in result.standings):
        return "bad"
    whole = not any(each.failed for each in result.standings)
    return "good" if taken.order is Order.GUARANTEED and whole else "plain"


def _place(each: Standing) -> tuple[int, float, str]:
    """By what became of causal order, then by latency."""
    return each.order.rank, each.latency_p99.mean if each.latency_p99 else float("inf"), each.name


def _main_table(result: Comparison, ran: Sequence[Standing], unit: Unit) -> TableBlock:
    judgement = result.judgement
    limited = bool(judgement.demands.stated)
    header = ["protocol", "causal order", "violations", "latency, 99th percentile", "control bytes per delivery"]
    header += ["frames per delivery", "memory, messages", "delivered", "assumes"] + ["limits"] * limited
    rows = []
    for each in ran:
        row = [
            f"→ {each.name}" if each.name == judgement.recommended else each.name,
            str(each.order) if each.runs else "no run",
            _share(each.violation_share),
            unit.interval(each.latency_p99),
            with_interval(each.control_bytes),
            with_interval(each.frames),
            "–" if each.messages_peak is None else number(each.messages_peak.mean),
            "–" if each.delivered is None else share_text(each.delivered.mean),
            ", ".join(each.assumes) or "nothing",
        ]
        if limited:
            missed = [miss.aspect for miss in judgement.misses.get(each.name, ())]
            row.append(", ".join(f"misses {aspect}" for aspect in missed) or "meets all")
        rows.append(row)
    for other in result.excluded:
        lacks = " and ".join(each.partition(":")[0] for each in other.lacks)
        rows.append([other.name, "cannot run here", *["–"] * 6, f"needs {lacks}", *[""] * limited])
    notes = [
        "Violations: the share of deliveries that came before something they depend on. Memory: the most messages"
        " that a node kept at once. ± is half the 95 % interval over the seeds.",
        "Data: compare.parquet, beside this page.",
    ]
    return TableBlock("", header, rows, notes, cards=True)


def _share(estimate: Estimate | None) -> str:
    """A share with half its interval; what is whole or nothing is called so."""
    exact = estimate is not None and (estimate.high is None or estimate.high == estimate.low)
    return share_text(estimate.mean) if estimate is not None and exact else PER_CENT.interval(estimate)


def _limits(result: Comparison, unit: Unit) -> list[Section]:
    """Why some protocols do not qualify."""
    missed = result.judgement.misses
    if not missed:
        return []
    rows = [[name, unit.retell("; ".join(miss.text for miss in found))] for name, found in missed.items()]
    return [Section("Who does not qualify", [TableBlock("", ["protocol", "because"], rows)])]


def _choice(result: Comparison, ran: Sequence[Standing], unit: Unit) -> list[Block]:
    shown = [
        (each, each.latency_p99, each.control_bytes)
        for each in ran
        if each.latency_p99 is not None and each.control_bytes is not None
    ]
    if not shown:
        return []
    plot, cut = choice_chart(shown, result.judgement, unit)
    places = [f"{each.name} {unit(time.mean)}, {size(bytes_.mean)}" for each, time, bytes_ in shown]
    words = (
        "Further left is faster, further down is cheaper; colour and shape say what became of causal order, and a"
        f" larger mark means more messages kept at a node: {'; '.join(places)}."
    )
    return [Chart("Latency against control information, one mark for each protocol", [plot], words, cut)]


def _latency(result: Comparison, ran: Sequence[Standing], unit: Unit) -> list[Block]:
    rows = [
        [
            each.name,
            unit.interval(each.latency_mean),
            unit.interval(each.latency_p50),
            unit.interval(each.latency_p99),
            _share(each.delivered),
        ]
        for each in ran
    ]
    table = TableBlock("", ["protocol", "mean", "median", "99th percentile", "delivered"], rows)
    if not result.curves.num_rows:
        return [table]
    medians = [f"{each.name} half by {unit(each.latency_p50.mean)}" for each in ran if each.latency_p50]
    words = (
        "The share of all deliveries that could be made, over the time since the broadcast; a curve that ends"
        f" below 100 % belongs to a protocol that left messages out: {'; '.join(medians)}."
    )
    note = "Means of the seeds. Data: latency.parquet, beside this page."
    plot = latency_chart(result.curves, [each.name for each in ran], unit)
    return [table, Chart("Deliveries over time", [plot], words, note)]


def _order_table(ran: Sequence[Standing]) -> TableBlock:
    header = ["protocol", "causal order", "deliveries", "too early", "too late", "pairs out of order", "repeated"]
    rows = []
    for each in ran:
        pairs = "too many to count" if each.pairs is None else f"{each.pairs:,}"
        shares = [_of(count, each.deliveries) for count in (each.early, each.late, each.duplicates)]
        missing = _of(each.missing, each.missing + (each.elsewhere or 0))
        order = str(each.order) if each.runs else "no run"
        rows.append([each.name, order, f"{each.deliveries:,}", *shares[:2], pairs, shares[2], missing])
    notes = [
        "Of all runs, by the auditor; shares are of deliveries, their counts are in compare.parquet. Too early:"
        " before something of their causal past; too late: after something that depends on them; a pair is two"
        " messages that a node delivered in the wrong order. Missing: the share of deliveries at other nodes that"
        " never came; nodes that were away count.",
        "“Guaranteed” is promised and was kept; “kept here” was not promised, and another network may break it.",
    ]
    return TableBlock("", [*header, "missing"], rows, notes, cards=True)


def _of(count: int, whole: int) -> str:
    return share_text(count / whole) if whole else "–"


def _cost_table(ran: Sequence[Standing]) -> TableBlock:
    header = ["protocol", "control bytes per delivery", "control bytes per frame", "frames per delivery"]
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
    return TableBlock("", header, rows, notes, cards=True)


def _assumptions(ran: Sequence[Standing]) -> TableBlock:
    rows = [
        [each.name, each.title, ", ".join(each.promises), ", ".join(each.assumes) or "nothing", each.settings]
        for each in ran
    ]
    return TableBlock(
        "", ["protocol", "what it is", "promises", "assumes", "settings beyond its defaults"], rows, cards=True
    )


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
    return [TableBlock("Cannot run on this network", header, rows, cards=True)]


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
            "the worse end of the interval over the seeds" if len(result.seeds) > 1 else "the value of the one run"
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
