"""What compiled engines have in common with the reference: they are made, run and asked in the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from antecast.core import ConfigurationError
from antecast.sim.host import Troubles


class OutOfReach(ConfigurationError):
    """A run has come to something that the compiled engine does not support, and that shows only as it goes on."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"the compiled engine cannot go on: {problem}", field=field)


class Made(Protocol):
    """An engine, of either kind, and what it says of the run that it makes."""

    troubles: Troubles

    @property
    def now(self) -> int:
        """Simulated time, in nanoseconds."""

    @property
    def dropped(self) -> int:
        """Frames that found no room in a send queue."""

    @property
    def lost(self) -> int:
        """Frames that links took and did not deliver."""

    def run(self, between: Callable[[], bool] | None = None) -> int:
        """Run to the scenario's horizon; the number of events run."""


class CompiledEngine(ABC):
    """One run in the making, over arrays."""

    dropped = 0

    def __init__(self) -> None:
        self.troubles = Troubles()

    @property
    @abstractmethod
    def now(self) -> int: ...

    @property
    @abstractmethod
    def lost(self) -> int: ...

    @abstractmethod
    def run(self, between: Callable[[], bool] | None = None) -> int: ...
