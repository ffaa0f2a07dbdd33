"""What a protocol promised, and what a run kept of it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from antecast.history import checks
from antecast.history.verdict import Verdict
from antecast.protocols import Guarantee


def broken_promises(
    promised: Collection[Guarantee], verdict: Verdict, events: Callable[[], pa.Table]
) -> list[str]:
    """What was guaranteed and not kept; `events` is read only where the verdict does not tell."""
    tally = verdict.tally
    broken = []
    if Guarantee.INTEGRITY in promised and (tally.duplicates or tally.before_broadcast):
        broken.append(Guarantee.INTEGRITY.value)
    if Guarantee.CAUSAL in promised and (tally.early or tally.late):
        broken.append(Guarantee.CAUSAL.value)
    elif Guarantee.FIFO in promised and Guarantee.CAUSAL not in promised and not checks.fifo_order(events()).ok:
        broken.append(Guarantee.FIFO.value)
    return broken


def violation_in_words(name: str, verdict: Verdict, broken: Collection[str]) -> str:
    """`by NAME, …: deliveries 3 too early`: whose fault it is, and how often it happened."""
    tally = verdict.tally
    counts = {
        "too early": tally.early,
        "too late": tally.late,
        "twice": tally.duplicates,
        "before their broadcast": tally.before_broadcast,
    }
    what = ", ".join(f"{count:,} {how}" for how, count in counts.items() if count)
    promise = f"a broken promise ({', '.join(broken)})" if broken else "which it does not promise to keep"
    return f"by {name}, {promise}: deliveries {what}"
