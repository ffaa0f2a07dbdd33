"""Claims that cannot be right, and what is said about them.

A number stands for one life of a process. One that comes back without its state numbers its messages from 1 again,
and others take them for copies. Nobody can see that in a message; but before a link to such a process is safe, it
has been shown everything its neighbour has, its own messages of another life included (rules 3 and 5). So it
always hears of them, and says so: to a person, in an alert, and to the neighbour, in a `Disown`, who says so too.

The neighbour may also have been misled by one who sends in the name of others. It is never refused for that, and
nobody changes a count of its own because another says so. Each thing is said once while a link is up.
"""

from __future__ import annotations

from antecast.core import Alert, Effect, MessageId, NodeId
from antecast.protocols.preventive.frames import EVERYTHING, Disown
from antecast.protocols.preventive.links import Links


class Claims:
    """What neighbours say about this process, and about others, that contradicts what is known here."""

    def __init__(self, node: NodeId, links: Links) -> None:
        self.node = node
        self._links = links

    def of_mine(self, sender: NodeId, upto: int, sent: int, out: list[Effect]) -> bool:
        """A neighbour has messages of this process; returns whether they are more than there are."""
        if upto <= sent:
            return False
        if upto == EVERYTHING:
            claim = f"node {sender} says that this node has left, which it never did"
        else:
            last = MessageId(self.node, upto)
            claim = f"node {sender} has messages of this node up to {last}, which this node never broadcast"
        text = (
            f"{claim}: node {sender} is wrong, or this node has lost its state; if so, start it under a new number"
        )
        if self._links.alert(sender, "claim", text, out):
            self._links.send([sender], Disown(sent), out)
        return True

    def disowned(self, sender: NodeId, upto: int, here: int, out: list[Effect]) -> None:
        """A neighbour says that it has broadcast fewer messages than are here."""
        if here > upto:
            text = (
                f"node {sender} has broadcast {upto} messages, and {here} of it are here: its new ones are taken"
                " for copies of these; it has lost its state and must be started under a new number, or somebody"
                " sends in its name"
            )
            self._links.alert(sender, "disown", text, out)

    def gap(self, sender: NodeId, name: MessageId, out: list[Effect]) -> None:
        """A neighbour sent a message without the one before it."""
        text = (
            f"node {sender} sent message {name} before {MessageId(name.origin, name.seq - 1)}: the link from it"
            f" loses frames or does not keep their order, or somebody sends in the name of node {name.origin};"
            " the link begins anew"
        )
        self._links.alert(sender, "gap", text, out)

    def retired(self, by: NodeId) -> Alert:
        """The others have been told to forget this process."""
        return Alert(
            f"node {by} says that this node has gone for good, and the others have forgotten it;"
            " to go on, start it under a new number"
        )
