"""What can be set of TCP links."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from antecast.core import ConfigurationError


@dataclass(frozen=True)
class TcpOptions:
    heartbeat: float = 5.0
    """Seconds without anything to send before a heartbeat is sent."""
    silence: float = 15.0
    """Seconds without hearing anything before a link is given up."""
    greeting: float = 5.0
    """Seconds that a new connection has to become a link."""
    proof: float = 2.0
    """Seconds that a linked peer has to give a sign of life when another process claims its number."""
    retry_least: float = 0.05
    """Seconds before the first attempt to connect again; doubled each time, with jitter."""
    retry_most: float = 10.0
    unknown: int = 64
    """Connections that have not greeted yet, at most; more are refused."""
    bytes_per_second: int = 256 << 20
    """What one peer may send; reading from it pauses when it sends more."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise ConfigurationError(f"expected more than 0, got {value}", field=name)
        if not self.heartbeat < self.silence:
            problem = f"expected more than heartbeat ({self.heartbeat:g} s), or every idle link ends"
            raise ConfigurationError(f"{problem}; got {self.silence:g}", field="silence")
