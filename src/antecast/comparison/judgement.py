"""Which protocol to take: who meets the demands, one recommended, and why.

Rules:
1. A protocol that meets all demands qualifies (see `demands`); one with a failed run does not.
2. Unless violations are allowed, a protocol that guarantees causal order comes before one that only happened to
   keep it in these runs, and that one before those that did not.
3. Among these the fastest by the 99th percentile of latency is taken. Where latency has a limit and bytes have
   none, all who qualify are fast enough, and the one with the fewest control bytes per delivery is taken.
   Differences up to a tenth count as none and leave the choice to the other of the two, then to memory.
4. The runner-up, and the protocol nearest to limits that none meets, must keep what was asked for too: unless
   violations are allowed, a protocol that delivered out of causal order is neither, however fast it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from antecast.comparison.demands import Aspect, Demands, Miss, misses
from antecast.comparison.standings import Order, Standing
from antecast.comparison.words import size, with_interval
from antecast.history.confidence import Estimate
from antecast.text.wording import listed, number, share_text, time_text

Aim: TypeAlias = Literal["latency", "bytes"]

NEAR = 0.1
"""Differences up to this share count as none."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What became of the demands."""

    demands: Demands
    aim: Aim
    qualified: tuple[str, ...]
    misses: Mapping[str, tuple[Miss, ...]]
    """By name, of those who do not qualify."""
    recommended: str | None
    headline: str
    reasons: tuple[str, ...]
    """Why this one, or why none: a sentence each."""
    runner_up: str | None = None
    nearest: str | None = None
    """Where none qualifies, the one that is nearest."""


def judge(standings: Sequence[Standing], demands: Demands) -> Judgement:
    """Compare protocols with demands and recommend one."""
    aim: Aim = "bytes" if demands.latency is not None and demands.bytes is None else "latency"
    missed = {each.name: tuple(misses(each, demands, standings)) for each in standings}
    qualified = [each for each in standings if not missed[each.name]]
    missed = {name: found for name, found in missed.items() if found}
    names = tuple(each.name for each in qualified)
    if not qualified:
        nearest = _nearest([each for each in standings if _keeps(each, demands)], missed)
        headline, why_none = _none(standings, demands, missed, nearest)
        return Judgement(
            demands=demands,
            aim=aim,
            qualified=(),
            misses=missed,
            recommended=None,
            headline=headline,
            reasons=why_none,
            nearest=nearest,
        )
    best = choose(qualified, aim, strict_order=demands.strict_order)
    rest = [each for each in qualified if each is not best and _keeps(each, demands)]
    second = choose(rest, aim, strict_order=demands.strict_order) if rest else None
    reasons = [_order_reason(best), _aim_reason(best, qualified, aim, demands), _cost(best, aim)]
    if second is not None:
        reasons.append(f"Runner-up: {second.name} ({_order_words(second)}), {_differences(second, best)}.")
    reasons += _relaxations(standings, demands, best, aim)
    reasons += _exclusions(demands, missed)
    return Judgement(
        demands=demands,
        aim=aim,
        qualified=names,
        misses=missed,
        recommended=best.name,
        headline=_headline(best, qualified, standings, demands),
        reasons=tuple(reasons),
        runner_up=None if second is None else second.name,
    )


def choose(qualified: Sequence[Standing], aim: Aim, *, strict_order: bool) -> Standing:
    """The best of those who qualify."""
    near, other = _shortlist(_class_of(qualified, strict_order), aim)
    return min(near, key=lambda each: (_cost_of(each, other), each.order.rank, _memory(each), each.name))


def _class_of(qualified: Sequence[Standing], strict_order: bool) -> list[Standing]:
    if not strict_order:
        return list(qualified)
    best = min(_rank(each) for each in qualified)
    return [each for each in qualified if _rank(each) == best]


def _keeps(each: Standing, demands: Demands) -> bool:
    """Whether a protocol keeps causal order, where that is asked for."""
    return each.keeps_order or not demands.strict_order


def _rank(each: Standing) -> float:
    """Guaranteed, kept, and then by how many deliveries were out of order."""
    return each.order.rank + (each.violation_share.mean if each.violation_share is not None else 0.0)


def _shortlist(some: Sequence[Standing], aim: Aim) -> tuple[list[Standing], Aim]:
    lowest = min(_cost_of(each, aim) for each in some)
    near = [each for each in some if _cost_of(each, aim) <= lowest * (1 + NEAR)]
    return near, "bytes" if aim == "latency" else "latency"


def _cost_of(each: Standing, aim: Aim) -> float:
    return _estimate(each, aim).mean


def _estimate(each: Standing, aim: Aim) -> Estimate:
    estimate = each.latency_p99 if aim == "latency" else each.control_bytes
    assert estimate is not None  # or it would not qualify
    return estimate


def _memory(each: Standing) -> float:
    return float("inf") if each.messages_peak is None else each.messages_peak.mean


# Words.


def _headline(
    best: Standing, qualified: Sequence[Standing], standings: Sequence[Standing], demands: Demands
) -> str:
    numbers = f"99th percentile {time_text(_cost_of(best, 'latency'))}, {size(_cost_of(best, 'bytes'))}"
    text = f"Take {best.name}: {_order_words(best)}, {numbers} of control information per delivery"
    if demands.stated:
        return f"{text}. {len(qualified)} of {len(standings)} protocols meet the limits."
    return f"{text}."


def _order_words(each: Standing) -> str:
    return {
        Order.GUARANTEED: "causal order guaranteed",
        Order.KEPT: "causal order kept in these runs but not promised",
        Order.VIOLATED: f"{_violation_share(each)} of deliveries out of causal order",
        Order.UNTRIED: "nothing delivered, so no order to judge",
        Order.BROKEN: f"a promise broken: {listed(each.broken)}",
    }[each.order]


def _violation_share(each: Standing) -> str:
    return "–" if each.violation_share is None else share_text(each.violation_share.mean)


def _order_reason(best: Standing) -> str:
    runs = {1: "its run", 2: "both runs"}.get(best.runs, f"all {best.runs} runs")
    if best.order is Order.GUARANTEED:
        return f"{best.name} guarantees causal order on this network, and the auditor found it kept in {runs}."
    if best.order is Order.KEPT:
        if best.unmet:
            lacks = f"but needs {listed(best.unmet)}, which this network does not have: it promises nothing here"
            return f"{best.name} kept causal order in {runs}, {lacks}."
        return f"{best.name} kept causal order in {runs}, but does not promise it: another network may break it."
    if best.order is Order.VIOLATED:
        return f"{best.name} does not keep causal order: {_order_words(best)}."
    return f"There is no better one than {best.name}: {_order_words(best)}."


def _aim_reason(best: Standing, qualified: Sequence[Standing], aim: Aim, demands: Demands) -> str:
    group = _class_of(qualified, demands.strict_order)
    who = "those that qualify"
    if demands.strict_order and len(group) < len(qualified):
        who = {
            Order.GUARANTEED: "those that guarantee causal order",
            Order.KEPT: "those that kept causal order",
        }.get(best.order, who)
    if len(group) == 1:
        alone = {Order.GUARANTEED: "guarantees causal order", Order.KEPT: "kept causal order"}
        if who == "those that qualify" or best.order not in alone:
            return "It is the only one that qualifies."
        return f"Of those that qualify it alone {alone[best.order]}."
    near, other = _shortlist(group, aim)
    names = {"latency": "lowest 99th percentile of latency", "bytes": "fewest control bytes per delivery"}
    forms = {"latency": time_text, "bytes": number}

    def value(each: Standing, what: Aim) -> str:
        return with_interval(_estimate(each, what), forms[what])

    lowest = min(group, key=lambda each: _cost_of(each, aim))
    if len(near) == 1:
        return f"Of the {len(group)} {_short(who)} it has the {names[aim]}: {value(best, aim)}."
    return (
        f"Of the {len(group)} {_short(who)}, {'all' if near == group else len(near)} are within a tenth of the"
        f" {names[aim]} ({value(lowest, aim)}), and of these it has the {names[other]}: {value(best, other)}."
    )


def _short(who: str) -> str:
    return who.removeprefix("those ")


def _cost(best: Standing, aim: Aim) -> str:
    parts = []
    if aim == "latency":
        parts.append(f"{with_interval(best.control_bytes)} control bytes per delivery")
    else:
        parts.append(f"a 99th percentile of latency of {with_interval(best.latency_p99, time_text)}")
    if best.frames is not None:
        parts.append(f"{with_interval(best.frames)} frames per delivery")
    if best.messages_peak is not None:
        parts.append(f"up to {number(best.messages_peak.mean)} messages kept at a node")
    needs = f" It assumes {listed(best.assumes)}." if best.assumes else " It assumes nothing of links."
    return f"It costs {listed(parts)}.{needs}"


def _differences(one: Standing, than: Standing) -> str:
    """Latency and bytes of one beside those of another."""
    latency = f"99th percentile {time_text(_cost_of(one, 'latency'))}{_change(one, than, 'latency')}"
    return f"{latency}, {size(_cost_of(one, 'bytes'))} per delivery{_change(one, than, 'bytes')}"


def _change(one: Standing, than: Standing, aim: Aim) -> str:
    before = _cost_of(than, aim)
    change = _cost_of(one, aim) / before - 1 if before else 0.0
    return f" ({100 * change:+.0f} %)" if abs(change) >= 0.005 else " (the same)"


def _relaxations(standings: Sequence[Standing], demands: Demands, best: Standing, aim: Aim) -> list[str]:
    """What giving up one demand would gain, where it changes the choice."""
    found = []
    aspects: list[Aspect] = [aspect for aspect in demands.stated if aspect != "violations"]
    if "delivery" not in aspects:
        aspects.append("delivery")
    for aspect in aspects:
        other = _choice(standings, demands.without(aspect), aim, strict_order=demands.strict_order)
        if other is not None and _gains(other, best):
            gain = f"{other.name} ({_order_words(other)}), {_differences(other, best)}"
            if aspect == "delivery" and other.delivered is not None:
                gain += f", but {share_text(other.delivered.mean)} of all messages delivered"
            found.append(f"Without {demands.option(aspect)} it would be {gain}.")
    other = _choice(standings, demands.without("violations"), aim, strict_order=False)
    if other is not None and other.order.rank > best.order.rank and _gains(other, best):
        what = (
            "Tolerating messages out of order"
            if demands.strict_order
            else f"Without {demands.option('violations')}"
        )
        found.append(f"{what}, it would be {other.name} ({_order_words(other)}), {_differences(other, best)}.")
    return found


def _gains(one: Standing, than: Standing) -> bool:
    """Whether one is better than another by more than a negligible difference."""
    aims: tuple[Aim, ...] = ("latency", "bytes")
    return any(_cost_of(one, aim) < (1 - NEAR) * _cost_of(than, aim) for aim in aims)


def _choice(standings: Sequence[Standing], demands: Demands, aim: Aim, *, strict_order: bool) -> Standing | None:
    qualified = [
        each
        for each in standings
        if not misses(each, demands, standings) and (each.keeps_order or not strict_order)
    ]
    return choose(qualified, aim, strict_order=strict_order) if qualified else None


def _nearest(standings: Sequence[Standing], missed: Mapping[str, tuple[Miss, ...]]) -> str | None:
    """Who misses the fewest demands, and by the least."""
    able = [each for each in standings if all(miss.aspect != "runs" for miss in missed[each.name])]
    if not able:
        return None

    def distance(each: Standing) -> tuple[int, float, str]:
        found = missed[each.name]
        return len(found), max(miss.excess for miss in found), each.name

    return min(able, key=distance).name


def _none(
    standings: Sequence[Standing], demands: Demands, missed: Mapping[str, tuple[Miss, ...]], nearest: str | None
) -> tuple[str, tuple[str, ...]]:
    """The headline and the reasons where none qualifies."""
    reasons = _exclusions(demands, missed)
    if nearest is not None:
        reasons.append(f"Nearest is {nearest}: {'; '.join(miss.text for miss in missed[nearest])}.")
    elif demands.strict_order and any(each.runs for each in standings):
        reasons.append("None of them kept causal order, so none is near.")
    what = "all limits" if demands.stated else "what is asked of it"
    count = "The only protocol that ran does not meet" if len(standings) == 1 else "No protocol meets"
    return f"{count} {what}.", tuple(reasons)


def _exclusions(demands: Demands, missed: Mapping[str, tuple[Miss, ...]]) -> list[str]:
    """Which demand excludes whom, in a sentence, and who could not be judged, in another."""
    excluded, reasons = [], []
    aspects: tuple[Aspect, ...] = ("violations", "latency", "bytes", "delivery")
    for aspect in aspects:
        who = [name for name, found in missed.items() if any(miss.aspect == aspect for miss in found)]
        if who:
            excluded.append(f"{listed(who)} by {demands.option(aspect)}")
    if excluded:
        reasons.append(f"Excluded: {'; '.join(excluded)}.")
    if broken := [name for name, found in missed.items() if any(miss.aspect == "runs" for miss in found)]:
        reasons.append(f"Not judged: {'; '.join(f'{name} ({missed[name][0].text})' for name in broken)}.")
    return reasons
