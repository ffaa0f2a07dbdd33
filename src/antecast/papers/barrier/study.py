"""The barrier paper's experiments: Tables I to VI, Figures 3 to 6 and 8 to 11, on generated or given networks.

Networks are made first, as files of presence and contacts. A sweep runs every lifetime on each of them; its log
becomes one table of pairs, and all figures are queries on it, on the samples, and on the networks themselves (see
`measures`). Means and intervals are over networks; a given network is one, and not the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from antecast.core.errors import ConfigurationError
from antecast.papers.barrier.experiment import BUSES, NETWORKS, PEDESTRIANS, Network
from antecast.papers.barrier.judgement import Part
from antecast.papers.barrier.networks import generated, given_by
from antecast.papers.findings import Finding, Mark, Results
from antecast.papers.job import Job
from antecast.papers.paper import load_paper

OPTIONS = {
    "gtfs": "A GTFS feed: its buses instead of generated ones. Needs a date.",
    "date": "The day of the feed, such as 2026-03-21.",
    "trace": "A mobility or contact trace instead of generated pedestrians.",
    "range": "The radio range in metres for a feed or a mobility trace, instead of the paper's.",
}


def study(job: Job) -> Results:
    given = [BUSES] * ("gtfs" in job.options) + [PEDESTRIANS] * ("trace" in job.options)
    if job.options and not given:
        raise ConfigurationError("goes with a feed or a trace", field=min(job.options))
    findings: list[Finding] = []
    figures: dict[str, pa.Table] = {}
    for network in given or NETWORKS:
        places = given_by(job, network) if given else generated(job, network)
        part = Part(job, network, places, comparable=not given)
        findings += part.findings()
        figures |= part.figures
    if given:
        origin = f"On {' and '.join(str(job.options[name]) for name in ('gtfs', 'trace') if name in job.options)}."
    else:
        origin = (
            f"Means over {len(places)} generated {'network' if len(places) == 1 else 'networks'} of each kind."
        )
    notes = [
        origin,
        f"A node's contacts share its radio, whose bandwidth and set-up time are fitted to half of the paper's "
        f"figures for each network: {' and '.join(_radio(network) for network in given or NETWORKS)}. A frame "
        "travels for 2 ms, a payload has 500 bytes. The paper does not describe its radio.",
        "Δ-causal broadcast by the safe rule for deadlines; the nodes' clocks agree. `published` is the published "
        f"rule, on {'one network' if len(places) == 1 else 'the first two networks'}.",
    ]
    if not given:
        notes += [fit_in_words(findings), BROADCASTS]
    return Results(study="barrier", findings=findings, figures=figures, notes=notes)


BROADCASTS = (
    "By the paper's own rule (the first message 20 s after a node appears, then one a minute) its 2,092 "
    "pedestrians would make about 11,670 broadcasts in the times of Table IV; it prints 10,557. Ours follow the "
    "rule, so counts of messages begin a tenth above the paper's."
)


def _radio(network: Network) -> str:
    return f"{network.radio.bandwidth} and {network.radio.setup} for the {network.name}"


def fit_in_words(findings: Sequence[Finding]) -> str:
    """How many figures agree that the radio was fitted to, and how many that judge it."""
    paper = load_paper("barrier")
    counts = {True: [0, 0], False: [0, 0]}
    for each in findings:
        if each.paper is not None and each.ours is not None:
            used = each.setting in paper.items[each.item].quantities[each.quantity].fitted
            counts[used][0] += each.mark is Mark.AGREES
            counts[used][1] += 1
    (fits, fitted), (agree, others) = counts[True], counts[False]
    return (
        f"Of the {fitted} figures that the radios are fitted to, {fits} agree; of the {others} others, {agree} do."
    )
