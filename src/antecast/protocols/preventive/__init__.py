"""Preventive causal broadcast: links are used only once they are safe.

`pc-broadcast` is the protocol to use. `pc-broadcast-paper` is Algorithms 2 and 3 as they are printed, which can
break causal order when links come and go; it is there to show the difference.
"""

import msgspec

from antecast.protocols.preventive.pc import PreventiveBroadcast
from antecast.protocols.preventive.printed import PrintedBroadcast, PrintedSettings
from antecast.protocols.preventive.settings import PreventiveSettings
from antecast.protocols.registry import Guarantee, Need, Specification, Unit, register

_PAPER = (
    "Nédelec, Molli and Mostéfaoui, Breaking the scalability barrier of causal broadcast for large and dynamic"
    " systems"
)
_NEEDS = frozenset({Need.RELIABLE_LINKS, Need.FIFO_LINKS})


def _found(settings: PreventiveSettings, nodes: int) -> PreventiveSettings:
    return settings if settings.founders is not None else msgspec.structs.replace(settings, founders=nodes)


_COUNTERS = dict.fromkeys(
    ("links", "unsafe", "pings", "pongs", "syncs", "refusals", "rebases", "skipped", "control_bytes"), Unit.COUNTER
)

PC_BROADCAST = register(
    Specification(
        name="pc-broadcast",
        title="causal, by links that are used once they are safe",
        reference=_PAPER,
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO, Guarantee.CAUSAL}),
        needs=lambda settings: _NEEDS,
        control="constant",
        memory="a counter per live source, kept messages",
        delivery="constant",
        settings=PreventiveSettings,
        make=PreventiveBroadcast,
        fit=_found,
        gauges={
            "sources": Unit.ENTRIES,
            "forgotten": Unit.ENTRIES,
            "outstanding": Unit.ENTRIES,
            "log": Unit.MESSAGES,
        }
        | _COUNTERS,
        trusts_bases=True,
        trusts_order=True,
        draws={"tries": (1, 0, 2)},  # more take longer than a test, since timeouts double
    )
)

PC_BROADCAST_PAPER = register(
    Specification(
        name="pc-broadcast-paper",
        title="PC-broadcast as printed: causal only while links stay",
        reference=_PAPER,
        guarantees=frozenset({Guarantee.INTEGRITY}),
        needs=lambda settings: _NEEDS,
        control="constant",
        memory="N counters, a buffer per unsafe link",
        delivery="unsafe links",
        settings=PrintedSettings,
        make=PrintedBroadcast,
        gauges={"sources": Unit.ENTRIES, "buffered": Unit.MESSAGES} | _COUNTERS,
    )
)
