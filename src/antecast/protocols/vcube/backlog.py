"""The backlog: what waits here for other messages, and a bound on it.

A message that came before others it depends on is kept until they come. From correct nodes these are few. A broken
or lying one can send any number of messages that wait for something that will never come, so the backlog is
weighed, and once it is *full* a message finds a place in it only if its source has few there: it must follow
the last one delivered of that source by no more than `WINDOW`, and the source must be linked here. So a node that
fills the backlog takes only its own places. A message that can be delivered at once waits for nothing and is
always taken.

What is turned away counts as never received. With diagnosis it comes again with a later comparison, by then after
what it waited for: comparisons go on until nothing is missing, and each brings at least the messages that can be
delivered at once.
"""

from typing import Any, Final

from antecast.core import Message

FULL: Final = 1 << 26
"""64 MiB: some 100 000 small messages. Runs of 256 busy nodes have a few hundred out of order at a node."""

WINDOW: Final = 256
"""Places of each linked source when the backlog is full."""


_MESSAGE, _ENTRY = 400, 200
"""About how many bytes a message takes besides its payload, and each entry of its clock."""


def weigh(message: Message[Any]) -> int:
    """About how many bytes of memory a message takes while it waits."""
    return _MESSAGE + len(message.payload) + _ENTRY * len(message.stamp)
