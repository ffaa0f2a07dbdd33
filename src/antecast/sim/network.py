"""The network of a scenario: its links, their delays, losses and bandwidth."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from antecast.core.settings import BitRate, Duration, Settings
from antecast.sim.delays import Constant, Delay, expand_delay
from antecast.sim.radio.layout import Cells
from antecast.sim.topology import Complete, Spray, Topology

Node: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=9_999_999)]
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


class LinkSettings(Settings, frozen=True, kw_only=True):
    """One link that differs from the others, in both directions or only from a to b."""

    a: Node
    b: Node
    both: bool = True
    delay: str | Delay | None = None
    loss: Share | None = None
    bandwidth: BitRate | None = None

    def __post_init__(self) -> None:
        expand_delay(self, self.delay)


class NetworkSettings(Settings, frozen=True, kw_only=True):
    topology: Topology = msgspec.field(default_factory=Complete)
    delay: str | Delay = msgspec.field(default_factory=lambda: Constant(value=Duration(10_000_000)))
    loss: Share = 0.0
    """Share of frames that a link loses."""
    fifo: bool = False
    """Whether a link keeps the order of its frames."""
    bandwidth: BitRate | None = None
    """Bits per second of a sender. Default: frames take no time to send."""
    queue: Literal["node", "link"] = "node"
    """Whether a node sends its frames one after the other, or those of each link."""
    queue_limit: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """Bytes that may wait to be sent; a frame that finds no room is lost."""
    processing: Duration = Duration(0)
    """How long a frame is processed before it joins the queue; frames are processed in parallel."""
    transmission: Duration | None = None
    """How long a sender takes for a frame of any size, instead of a bandwidth."""
    delays: Literal["frame", "message"] = "frame"
    """Whether a link draws a delay for each frame in turn, or one for each message whenever it is sent: runs
    that send the same messages at other times, or several in a frame, then share their delays."""
    notice: str | Delay | None = None
    """How long after a link came up or broke each of its ends hears of it. Default: both at once."""
    links: list[LinkSettings] = []

    def __post_init__(self) -> None:
        expand_delay(self, self.delay)
        expand_delay(self, self.notice, "notice")
        if self.notice is not None and isinstance(self.topology, Spray | Cells):
            raise ValueError("notice is for networks of links; overlays and cells have rules of their own")
        if self.transmission is not None:
            for name in ("bandwidth", "queue_limit"):
                if getattr(self, name) is not None or any(getattr(link, name, None) for link in self.links):
                    raise ValueError(f"{name} counts bytes, transmission counts frames: give one of the two")

    @property
    def packets(self) -> bool:
        """Whether links are those of a packet network (`sim.packet_links`)."""
        return bool(self.processing) or self.transmission is not None or self.delays == "message"
