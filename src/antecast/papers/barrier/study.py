"""The barrier paper's experiments: Tables I to VI, Figures 3 to 6 and 8 to 11, on generated or given networks.

Networks are made first, as files of presence and contacts. A sweep runs every lifetime on each of them; its log
becomes one table of pairs, and all figures are queries on it, on the samples, and on the networks themselves (see
`measures`). Means and intervals are over networks; a given network is one, and not the paper's.
"""

from __future__ import annotations

import pyarrow as pa

from antecast.core.errors import ConfigurationError
from antecast.papers.barrier.experiment import BUSES, NETWORKS, PEDESTRIANS
from antecast.papers.barrier.judgement import Part
from antecast.papers.barrier.networks import generated, given_by
from antecast.papers.findings import Finding, Results
from antecast.papers.job import Job

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
        "A contact carries 300 kb/s each way with 2 ms of delay, and a payload has 500 bytes. The paper does not "
        "describe its radio; these figures were chosen so that its co-delivery ratios come out.",
        "Δ-causal broadcast by the safe rule for deadlines; the nodes' clocks agree.",
    ]
    return Results(study="barrier", findings=findings, figures=figures, notes=notes)
