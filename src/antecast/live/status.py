"""What a running node says of itself to people: `antecast status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from antecast.live.engine import Engine
from antecast.live.pacing import Pacing

if TYPE_CHECKING:
    from antecast.live.node import Node


def status_of(node: Node, engine: Engine, pacing: Pacing) -> dict[str, Any]:
    """Links, buffers and counters, as plain values."""
    journal = engine.journal
    return {
        "node": node.number,
        "protocol": node.spec.name,
        "group": node.security.group,
        "secured": node.secured,
        "durability": journal.durability.value,
        "journal": {
            "path": str(journal.path),
            "calls": journal.position,
            "snapshot_age": engine.since_snapshot,
        },
        "deliveries": {"last": node.delivered.shown, "read": pacing.read, "acknowledged": journal.acknowledged},
        "links": [link.describe() for link in node.links.values()],
        "transports": [transport.describe() for transport in node.transports],
        "buffers": {"uncommitted_bytes": engine.behind, "reading_paused": pacing.paused},
        "gauges": engine.machine.protocol.gauges()
        | dict(node.security.gauges())
        | {name: value for transport in node.transports for name, value in transport.gauges().items()},
        "timers": len(engine.machine.timers),
        "other_lives": node.lives.doubted,
        "counters": dict(node.counters),
    }
