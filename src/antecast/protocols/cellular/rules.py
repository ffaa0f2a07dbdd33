"""The paper's rules as printed, one by one: what each breaks, and how to follow it for study.

The protocol as published does not keep its promise. `published = ["no-lock"]` puts one rule of the restated
protocol back to what Algorithms 1 to 4 say, as far as they can be read, `published = ["all"]` all of them;
`antecast demonstrate cellular` shows each to fail where the default holds. The code asks `Rules` at each place
where a printed rule differs. P is the old station, N the new one.

1.  `take-always` (Alg. 1, l. 15): the cell's messages are taken in any state. A joiner delivers number 0
    before `InitAck`, which then sets its counter back: delivered twice.
2.  `ack-always` (l. 48): an acknowledgement sent before the session is established carries the new session
    with the old cell's number: N drops what was not delivered.
3.  `mark-copies` (l. 20; Alg. 4, l. 86): who has delivered a message elsewhere is written on its copies
    (M_d). A copy sent before that was known arrives after `InitAck`: delivered twice.
4.  `send-always` (l. 10, 51): a host sends before it is established. A takes its message, the `InitAck` is
    lost, and B, which starts at number 1, takes it again.
5.  `accept-early` (Alg. 2, l. 2): N accepts the host's messages before the handoff ends: it may lack what
    they depend on, and counts from 1.
6.  `accept-late` (Alg. 2, l. 2): P accepts them after `Rsp1`, which carries the host's counter: N expects
    them again.
7.  `no-lock` (Alg. 4, l. 54): `Req1` does not lock P. The host that comes back to P before the handoff ends
    leaves N waiting for ever.
8.  `one-request` (Alg. 4, l. 55): one pending request is kept, and any station that knows a newer session
    floods `Delete`: P and N both drop the host.
9.  `catch-up-first` (Alg. 2, l. 13): `InitAck` follows the catch-up, whose end is tested by comparing the
    host's count of catch-up messages with the station's numbers (`<`): a station with small numbers never
    sends it.
10. `list-all` (Alg. 4, l. 66): unless P's session is the host's last established one, everything that P keeps
    counts as not delivered, acknowledged or not: delivered twice.
11. `any-session` (Alg. 2, l. 21): `≠` where `>` is meant. A late `Init` pulls the session back.
12. `no-floor`: nothing is remembered of hosts that are elsewhere. A late copy of `Join` makes a second
    record, which keeps its messages for ever.
13. `keep-stale`: a record older than the host's last established session is believed. The radio overtook the
    wires: what the host delivered since is delivered again.
14. `silent-rejoin` (Alg. 2, l. 19): joining again at a station that knows the host floods no `Delete`; the
    record that a join elsewhere left behind stays.
15. `leave-if-known` (Alg. 2, l. 40): only a station that has the host tells the others that it leaves; a
    leave in the middle of a handoff leaves a record behind.
16. `save-with-acks` (section IV.E): what was received is saved only when it is acknowledged, and apart from
    the session: delivered twice, or lost, after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum


class Rule(StrEnum):
    """The name of a printed rule that breaks a promise."""

    ALL = "all"
    TAKE_ALWAYS = "take-always"
    ACK_ALWAYS = "ack-always"
    MARK_COPIES = "mark-copies"
    SEND_ALWAYS = "send-always"
    ACCEPT_EARLY = "accept-early"
    ACCEPT_LATE = "accept-late"
    NO_LOCK = "no-lock"
    ONE_REQUEST = "one-request"
    CATCH_UP_FIRST = "catch-up-first"
    LIST_ALL = "list-all"
    ANY_SESSION = "any-session"
    NO_FLOOR = "no-floor"
    KEEP_STALE = "keep-stale"
    SILENT_REJOIN = "silent-rejoin"
    LEAVE_IF_KNOWN = "leave-if-known"
    SAVE_WITH_ACKS = "save-with-acks"


@dataclass(frozen=True, slots=True)
class Rules:
    """Which of the printed rules are followed; default: none."""

    printed: bool = False
    """Whether any rule is followed. Stations then tolerate from each other what only these rules lead to."""
    take_always: bool = False
    ack_always: bool = False
    mark_copies: bool = False
    send_always: bool = False
    accept_early: bool = False
    accept_late: bool = False
    no_lock: bool = False
    one_request: bool = False
    catch_up_first: bool = False
    list_all: bool = False
    any_session: bool = False
    no_floor: bool = False
    keep_stale: bool = False
    silent_rejoin: bool = False
    leave_if_known: bool = False
    save_with_acks: bool = False

    @classmethod
    def of(cls, published: Iterable[Rule]) -> Rules:
        chosen = {name.replace("-", "_") for name in published}
        everything = "all" in chosen
        flags = {each.name: everything or each.name in chosen for each in fields(cls)}
        return cls(**flags | {"printed": bool(chosen)})
