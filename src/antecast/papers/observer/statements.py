"""What the paper says in section 6, each statement with the rule by which it holds or does not (`judgement`).

The paper's explanations of what it saw are not among them, only what it says that it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from antecast.papers.observer.experiment import BOTH, DELAYS, MANY, SWEPT, USUAL, Seen, System
from antecast.papers.observer.judgement import (
    PARTS,
    Verdict,
    alike,
    at_most,
    continuum,
    grows,
    more_with,
    most_are_in_order,
    not_enough,
    ordered,
    runs_are_similar,
    sudden,
    the_ratio_counts,
    times_less,
    two_elements_help,
    waiting_helps,
    whole_wait_is_exact,
    within,
)
from antecast.papers.paper import load_paper


@dataclass(frozen=True)
class Statement:
    """A statement of the paper's; its words are in paper.toml under the item and quantity."""

    item: str
    quantity: str
    judge: Callable[[Seen], Verdict]
    scope: str = ""
    """The part of the plot it is judged on, where not on all."""
    seeds: int = 1
    """How many it takes."""


_ALL = "Section 6"
_RISING_2, _RISING_3 = ("ε = 5", "ε = 10", "ε = 20", "ε = 30"), ("δ = 30", "δ = 20", "δ = 10", "δ = 5")
"""Systems in the order of ε/δ."""
_RATES, _SIZES = ("rate 0.01", "rate 0.1", "rate 0.5"), ("5 processes", "10 processes", "50 processes")


def _limit(item: str, quantity: str, name: str) -> float:
    return load_paper("observer").limit(item, quantity, name)


def _rising(item: str, quantity: str, rule: str, *names: str, what: str = "grows") -> Statement:
    nothing = _limit(item, quantity, "nothing")
    return Statement(item, quantity, grows(rule, item, *names, nothing=nothing, what=what))


def _more(item: str, quantity: str, rule: str, less: str, more: str) -> Statement:
    return Statement(item, quantity, more_with(rule, item, less, more, _limit(item, quantity, "nothing")))


def _alike(item: str, quantity: str, rules: tuple[str, str], systems: list[System]) -> Statement:
    return Statement(item, quantity, alike(rules, systems, _limit(item, quantity, "alike")))


def _times(item: str, quantity: str, word: str, names: Sequence[str], over: str = "DAPW") -> Iterator[Statement]:
    """For large and for small c apart."""
    least = _limit(item, quantity, word)
    for part in PARTS:
        yield Statement(item, quantity, times_less(item, names, part, least, over), part)


def _bounded(item: str, quantity: str, limits: dict[str, str], systems: list[System], *delays: str) -> Statement:
    """Violations by each of these rules stay below the limit of this name."""
    most = {rule: _limit(item, quantity, name) for rule, name in limits.items()}
    return Statement(item, quantity, at_most(most, systems, delays or tuple(DELAYS)))


def _between(item: str, quantity: str, *rules: str) -> Statement:
    return Statement(
        item, quantity, within(rules, _limit(item, quantity, "least"), _limit(item, quantity, "most"))
    )


def _statements() -> Iterator[Statement]:
    yield Statement(_ALL, "perfect order at c = 100 %", whole_wait_is_exact)
    yield Statement(_ALL, "DAPW: longer waits", waiting_helps("DAPW"))
    yield Statement(_ALL, "CBD: longer waits", waiting_helps("CBD"))
    similar = _limit(_ALL, "experiments are alike", "alike")
    yield Statement(_ALL, "experiments are alike", runs_are_similar(similar), seeds=2)
    yield Statement(_ALL, "the ratio ε/δ", the_ratio_counts)
    for item, names, small in (("Fig. 2", _RISING_2, ["ε = 5"]), ("Fig. 3", _RISING_3, ["δ = 20", "δ = 30"])):
        yield _rising(item, "DAPW: larger ε/δ", "DAPW", *names)
        yield _more(item, "DAPW: quicker messages", "DAPW", "δ/2", "δ/4")
        at = _limit(item, "DAPW: threshold", "at small c")
        yield Statement(item, "DAPW: threshold", sudden(item, *small, most=at))
        if item == "Fig. 2":
            half = _limit(item, "DAPW: large ε/δ, small c", "most")
            yield Statement(item, "DAPW: large ε/δ, small c", most_are_in_order(half))
        yield _rising(item, "CBD: larger ε/δ", "CBD", *reversed(names), what="falls")
        if item == "Fig. 2":
            yield _more(item, "CBD: quicker messages", "CBD", "δ/4", "δ/2")
        large = [name for name in names if SWEPT[item][name].epsilon >= SWEPT[item][name].delta]
        yield from _times(item, "CBD against DAPW", "an order of magnitude", large)
        yield _alike(item, "CBD against DAPW, small ε/δ", BOTH, ordered(item, small))
    axes = {rule: rule for rule in BOTH}
    yield _bounded("Fig. 2", "height of the plots", axes, ordered("Fig. 2", _RISING_2))
    for rule in BOTH:
        yield _rising("Fig. 4", f"{rule}: higher rate", rule, *_RATES)
    yield from _times("Fig. 4", "CBD against DAPW", "significantly", _RATES)
    few = ordered("Fig. 4", _RATES)
    yield _bounded("Fig. 4", "CBD, quicker messages", {"CBD": "most"}, few, "δ/4")
    yield _alike("Fig. 4", "CBD against DAPW, low rate", BOTH, few[:1])
    for rule in BOTH:
        yield _rising("Fig. 5", f"{rule}: more processes", rule, *_SIZES)
    sizes = ordered("Fig. 5", _SIZES)
    yield _bounded("Fig. 5", "CBD, quicker messages", {"CBD": "most"}, sizes, "δ/4")
    yield _bounded("Fig. 5", "height of the plots", axes, sizes)
    alone = "physical clocks are not enough"
    yield Statement("Fig. 6", alone, not_enough(_limit("Fig. 6", alone, "nothing")))
    yield _between("Fig. 6", "physical clocks at 100 %", "DPC1", "DPC2")
    yield _between("Fig. 6", "two elements at 100 %", "2 kn")
    helped = _limit("Fig. 6", "two elements help", "significantly")
    yield Statement("Fig. 6", "two elements help", two_elements_help(helped))
    yield Statement("Fig. 6", "a continuum", continuum(USUAL, _limit("Fig. 6", "a continuum", "nothing")))
    yield _alike("Fig. 6", "six elements are enough", ("6 kn", "CBD"), [USUAL])
    yield from _times("Fig. 6", "without the information", "an order of magnitude", (), over="DPC1")
    yield Statement("Fig. 7", "a continuum", continuum(MANY, _limit("Fig. 7", "a continuum", "nothing")))


STATEMENTS = tuple(_statements())
