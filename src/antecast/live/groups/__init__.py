"""Groups with keys: who may connect, who has said what, and who can read it (docs/groups.md).

- `authority`: a group's folder, from which nodes are invited, revoked and renewed, and group keys rotated
- `identity`: a node's file; `certificates` and `bulletin`: what the authority signs
- `tls`: mutual TLS 1.3, with number and name from the certificate
- `signatures`, `entries`, `packets`: messages signed by their origin
- `payloads`: payloads encrypted end to end by a group key
- `security`: all of it for a running node
"""

from antecast.live.groups.authority import Authority, new_group, open_group
from antecast.live.groups.certificates import Member, Refused
from antecast.live.groups.identity import Identity, load_identity
from antecast.live.groups.payloads import Unreadable
from antecast.live.groups.security import GroupSecurity
from antecast.live.groups.signatures import Unauthentic

__all__ = [
    "Authority",
    "GroupSecurity",
    "Identity",
    "Member",
    "Refused",
    "Unauthentic",
    "Unreadable",
    "load_identity",
    "new_group",
    "open_group",
]
