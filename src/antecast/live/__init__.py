"""Live: the protocols on real networks. Nodes on asyncio, a journal that survives crashes, transports.

`Node` is what an application uses (`docs/live.md`). Nothing here needs Spark, pandas or a compiler.
"""

from antecast.live.engine import NodeStopped
from antecast.live.entries import Delivery, Durability, JournalError
from antecast.live.node import Node
from antecast.live.pacing import Limits
from antecast.live.security import Security, Unsecured

__all__ = ["Delivery", "Durability", "JournalError", "Limits", "Node", "NodeStopped", "Security", "Unsecured"]
