"""What a node says when others have messages of its own that it never broadcast (rule 11 of the contract)."""

from antecast.core import Alert, MessageId, NodeId


def lost_state(peer: NodeId, newest: MessageId) -> Alert:
    return Alert(
        f"node {peer} has messages of this node up to {newest}, which this node never broadcast: node {peer} is "
        "wrong, or this node has lost its state; if so, start it under a new number"
    )
