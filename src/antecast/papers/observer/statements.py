"""What the paper says in section 6, each statement with the rule by which it holds or does not (`judgement`).

The paper's explanations of what it saw are not among them, only what it says that it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from antecast.papers.observer.experiment import BOTH, MANY, SWEPT, USUAL, Seen
from antecast.papers.observer.judgement import (
    ALIKE,
    AROUND,
    FAR_LESS,
    PARTS,
    SAME,
    TENFOLD,
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


def _statements() -> Iterator[Statement]:
    yield Statement(_ALL, "perfect order at c = 100 %", whole_wait_is_exact)
    yield Statement(_ALL, "DAPW: longer waits", waiting_helps("DAPW"))
    yield Statement(_ALL, "CBD: longer waits", waiting_helps("CBD"))
    yield Statement(_ALL, "experiments are alike", runs_are_similar, seeds=2)
    yield Statement(_ALL, "the ratio ε/δ", the_ratio_counts)
    for item, names, small in (("Fig. 2", _RISING_2, ["ε = 5"]), ("Fig. 3", _RISING_3, ["δ = 20", "δ = 30"])):
        yield Statement(item, "DAPW: larger ε/δ", grows("DAPW", item, *names))
        yield Statement(item, "DAPW: quicker messages", more_with("DAPW", item, "δ/2", "δ/4"))
        yield Statement(item, "DAPW: threshold", sudden(item, *small))
        if item == "Fig. 2":
            yield Statement(item, "DAPW: large ε/δ, small c", most_are_in_order)
        yield Statement(item, "CBD: larger ε/δ", grows("CBD", item, *reversed(names), what="falls"))
        if item == "Fig. 2":
            yield Statement(item, "CBD: quicker messages", more_with("CBD", item, "δ/4", "δ/2"))
        large = [name for name in names if SWEPT[item][name].epsilon >= SWEPT[item][name].delta]
        for part in PARTS:
            yield Statement(item, "CBD against DAPW", times_less(item, large, part, TENFOLD), part)
        yield Statement(item, "CBD against DAPW, small ε/δ", alike(BOTH, ordered(item, small), ALIKE))
    yield Statement(
        "Fig. 2", "height of the plots", at_most({"DAPW": 0.8, "CBD": 0.1}, ordered("Fig. 2", _RISING_2))
    )
    for rule in BOTH:
        yield Statement("Fig. 4", f"{rule}: higher rate", grows(rule, "Fig. 4", *_RATES))
    for part in PARTS:
        yield Statement("Fig. 4", "CBD against DAPW", times_less("Fig. 4", _RATES, part, FAR_LESS), part)
    few = ordered("Fig. 4", _RATES)
    yield Statement("Fig. 4", "CBD, quicker messages", at_most({"CBD": 0.02 * (1 + AROUND)}, few, ["δ/4"]))
    yield Statement("Fig. 4", "CBD against DAPW, low rate", alike(BOTH, few[:1], ALIKE))
    for rule in BOTH:
        yield Statement("Fig. 5", f"{rule}: more processes", grows(rule, "Fig. 5", *_SIZES))
    sizes = ordered("Fig. 5", _SIZES)
    yield Statement("Fig. 5", "CBD, quicker messages", at_most({"CBD": 0.03 * (1 + AROUND)}, sizes, ["δ/4"]))
    yield Statement("Fig. 5", "height of the plots", at_most({"DAPW": 0.6, "CBD": 0.1}, sizes))
    yield Statement("Fig. 6", "physical clocks are not enough", not_enough)
    yield Statement("Fig. 6", "physical clocks at 100 %", within(("DPC1", "DPC2"), 0.3, 0.5))
    yield Statement("Fig. 6", "two elements at 100 %", within(("2 kn",), 0.1, 0.15))
    yield Statement("Fig. 6", "two elements help", two_elements_help)
    yield Statement("Fig. 6", "a continuum", continuum(USUAL))
    yield Statement("Fig. 6", "six elements are enough", alike(("6 kn", "CBD"), [USUAL], SAME))
    for part in PARTS:
        against = times_less("Fig. 6", (), part, TENFOLD, over="DPC1")
        yield Statement("Fig. 6", "without the information", against, part)
    yield Statement("Fig. 7", "a continuum", continuum(MANY))


STATEMENTS = tuple(_statements())
