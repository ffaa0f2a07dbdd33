"""What a node says when others have messages of its own that it never broadcast (rule 11 of the contract)."""

from antecast.core import Alert, MessageId, NodeId


def lost_state(peer: NodeId, newest: MessageId) -> Alert:
    """A peer has messages of this node up to one that this node never broadcast."""
    return foreign_claim(peer, f"has messages of this node up to {newest}")


def foreign_claim(peer: NodeId, claim: str) -> Alert:
    """A peer sent or claims something of this node that this node never broadcast."""
    return Alert(
        f"node {peer} {claim}, which this node never broadcast: node {peer} is wrong, or this node has lost its "
        "state; if so, start it under a new number"
    )
