"""What happens to orders of a shop, as events that name the events they follow from.

Services publish them as they please, so a payment may be read before the order that it pays. `shuffled` is such a
stream: out of order, with two events sent twice and one that never comes.
"""

from __future__ import annotations

import random
from typing import Any

SCHEMA = "id string, needs array<string>, account string, text string"


def history(accounts: int = 4) -> list[dict[str, Any]]:
    """Each account orders, pays, gets a parcel, and sends something back."""
    found: list[dict[str, Any]] = []
    for number in range(accounts):
        steps = {"ordered": [], "paid": ["ordered"], "packed": ["ordered"], "sent": ["paid", "packed"]}
        steps |= {"arrived": ["sent"], "returned": ["arrived"], "refunded": ["returned", "paid"]}
        for name, before in steps.items():
            needs = [f"{number}-{each}" for each in before]
            found.append({"id": f"{number}-{name}", "needs": needs, "account": f"account {number}", "text": name})
    return found


def shuffled(seed: int = 7) -> list[dict[str, Any]]:
    """The events as they are read; `2-packed` is lost."""
    events = [event for event in history() if event["id"] != "2-packed"]
    events += [event for event in events if event["id"] in ("1-paid", "3-sent")]
    random.Random(seed).shuffle(events)
    return events
