"""No order at all: a message is delivered when it is received."""

from collections.abc import Mapping

from antecast.core import Message, NodeId, State
from antecast.protocols.ordering import Ordering, Released


class Unordered(Ordering[None]):
    stamp_type = None
    waits = False

    def stamp(self, seq: int, now: int, lifetime: int | None) -> None:
        return None

    def accept(self, message: Message[None], now: int) -> Released:
        return Released([message], [])

    def skip(self, base: Mapping[NodeId, int]) -> Released:
        return Released([], [])

    def progress(self) -> Mapping[NodeId, int]:
        return {}

    def pending(self) -> list[Message[None]]:
        return []

    def snapshot(self) -> State:
        return {}

    def restore(self, state: State, pending: list[Message[None]]) -> None:
        pass

    def gauges(self) -> dict[str, int]:
        return {"pending": 0, "clock": 0}
