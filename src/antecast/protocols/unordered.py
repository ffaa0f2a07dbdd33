"""No order at all: a message is delivered when it is received."""

from collections.abc import Mapping

from antecast.core import Message, NodeId
from antecast.protocols.ordering import Ordering, Skipped


class Unordered(Ordering[None]):
    stamp_type = None
    waits = False

    def stamp(self, seq: int) -> None:
        return None

    def accept(self, message: Message[None]) -> list[Message[None]]:
        return [message]

    def skip(self, base: Mapping[NodeId, int]) -> Skipped:
        return Skipped([], [])

    def progress(self) -> Mapping[NodeId, int]:
        return {}

    def pending(self) -> list[Message[None]]:
        return []

    def restore(self, progress: Mapping[NodeId, int], pending: list[Message[None]]) -> None:
        pass

    def gauges(self) -> dict[str, int]:
        return {"pending": 0, "clock": 0}
