"""The engine: builds the hosts of a scenario, and makes links and nodes come and go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import ClassVar

import msgspec

from antecast.core import Leaving, LinkSafety, NodeId
from antecast.history.log import EventWriter, SampleWriter
from antecast.history.schema import Kind
from antecast.sim.clocks import make_clock
from antecast.sim.contact_plan import ContactPlan, load_plan
from antecast.sim.ends import LateEnds
from antecast.sim.fault_kinds import Churn, Crash, Cut, Heal, Join, Leave, Partition, Rebirth, Recover
from antecast.sim.fault_kinds import Link as LinkFault
from antecast.sim.host import Host, Sizes, Troubles
from antecast.sim.links import Link, Medium, Port
from antecast.sim.overlay import Network, WatchedHost, make_overlay
from antecast.sim.packet_links import EndingPacketLink, PacketLink
from antecast.sim.scenario import Scenario
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream
from antecast.sim.topology import Complete, Contacts, edges
from antecast.sim.workloads import Workloads

_JOIN_LINKS = 3
"""Links of a node that joins a network that is not complete: enough to survive the loss of two."""

_FAREWELL, _LOOK = 10 * 10**9, 10**7
"""How long a leaving node may take to say goodbye, and how often it is checked meanwhile."""


class Engine:
    """One run in the making."""

    _host_type: ClassVar[type[Host]] = Host

    def __init__(self, scenario: Scenario, events: EventWriter, samples: SampleWriter) -> None:
        self.scenario = scenario
        self.scheduler = Scheduler()
        self.hosts: dict[NodeId, Host] = {}
        self._events = events
        self._samples = samples
        self._settings = scenario.protocol_settings
        self._make = scenario.specification.make
        self._workloads = Workloads(scenario, self.scheduler, self.hosts)
        self._sizes: Sizes = {}
        self.troubles = Troubles()
        self._medium = Medium(self.scheduler, scenario.network, None, scenario.seed)
        self._special: dict[tuple[NodeId, NodeId], Medium] = {}
        for link in scenario.network.links:
            medium = Medium(self.scheduler, scenario.network, link, scenario.seed)
            self._special[link.a, link.b] = medium
            if link.both:
                self._special[link.b, link.a] = medium
        self._ports: dict[NodeId, Port] = {}
        self._broken: dict[tuple[NodeId, NodeId], int] = {}
        self._wanted: defaultdict[NodeId, set[NodeId]] = defaultdict(set)
        self._group: dict[NodeId, int] | None = None
        self._saved: dict[NodeId, bytes] = {}
        self._left: set[NodeId] = set()
        self._ends: LateEnds | None = None
        if scenario.network.notice is not None:
            assert not isinstance(scenario.network.notice, str)
            self._ends = LateEnds(scenario.network.notice, scenario.seed, self.scheduler, self.hosts)
        topology = scenario.network.topology
        network = Network(self.scheduler, self.hosts, self._meet, self._part)
        self._overlay = make_overlay(topology, scenario.nodes, scenario.seed, scenario.duration, network)
        self._lasting = not (scenario.faults or isinstance(topology, Contacts) or self._overlay is not None)
        """Whether links stay up for the whole run."""

        self._workloads.start()
        plan = load_plan(topology) if isinstance(topology, Contacts) else None
        for node in range(scenario.nodes):
            if plan is None or node not in plan.presence:
                self._arrive(self._add_host(node))
        if isinstance(topology, Complete) and self._ends is None:
            self._connect_everyone()
        else:
            everyone = combinations(range(scenario.nodes), 2) if isinstance(topology, Complete) else None
            first = everyone or (
                self._overlay.start() if self._overlay else edges(topology, scenario.nodes, scenario.seed)
            )
            for a, b in first:
                self._want(a, b)
                self._connect(a, b, log=False)
        if plan is not None and isinstance(topology, Contacts):
            self._follow(plan, topology.setup)
        self._schedule_faults()
        every = scenario.duration // 50 if scenario.log.sample is None else scenario.log.sample
        if every > 0:
            self._sample(every)

    def run(self, between: Callable[[], bool] | None = None) -> int:
        """Run to the scenario's horizon; the number of events run."""
        return self.scheduler.run(self.scenario.horizon, between=between)

    @property
    def now(self) -> int:
        return self.scheduler.now

    @property
    def dropped(self) -> int:
        """Frames that found no room in a send queue."""
        return sum(host.dropped for host in self.hosts.values())

    @property
    def lost(self) -> int:
        """Frames that links took and did not deliver."""
        media = {id(medium): medium for medium in (self._medium, *self._special.values())}
        return sum(medium.lost for medium in media.values()) + (0 if self._ends is None else self._ends.lost)

    def _add_host(self, node: NodeId) -> Host:
        scenario = self.scenario
        make_host = self._host_type if self._overlay is None else WatchedHost
        host = self.hosts[node] = make_host(
            node,
            self._make(node, self._settings),
            make_clock(scenario.clocks, scenario.seed, node),
            self.scheduler,
            self._events,
            self._workloads.on_deliver,
            self._link,
            self._sizes,
            self.troubles,
            log_frames=scenario.log.events == "all",
        )
        return host

    def _arrive(self, host: Host) -> None:
        """A node appears, for the first time or again."""
        host.arrivals += 1
        self._workloads.arrived(host)

    # Links. `_wanted` says who should be linked; a link is up when both ends are, and no partition
    # lies between them.

    def _want(self, a: NodeId, b: NodeId) -> None:
        self._wanted[a].add(b)
        self._wanted[b].add(a)

    def _connect(
        self, a: NodeId, b: NodeId, by: NodeId | None = None, number: int | None = None, *, log: bool = True
    ) -> None:
        one, other = self.hosts.get(a), self.hosts.get(b)
        if one is None or other is None or not (one.up and other.up) or b in self._lines(a) or self._parted(a, b):
            return
        if number is None:
            number = self._broken.get((min(a, b), max(a, b)), 0) + 1
        if self._ends is not None:
            self._ends.connect(a, b, number, by)
            return
        if log:
            one.note(Kind.UP, peer=b)
            other.note(Kind.UP, peer=a)
        if by is not None:
            for host, peer in ((one, b), (other, a)):
                if isinstance(host.protocol, LinkSafety):
                    host.protocol.introduce(peer, by)
        one.link_up(b, number)
        other.link_up(a, number)

    def _lines(self, node: NodeId) -> dict[NodeId, int]:
        """Who is linked with a node, whether the two have noticed or not."""
        return self.hosts[node].links if self._ends is None else self._ends.lines[node]

    def _connect_everyone(self) -> None:
        """All pairs at the start, in order, without the checks that cannot fail yet."""
        hosts = self.hosts
        if self.scenario.faults:  # else nothing ever asks who should be linked
            self._wanted.update({node: hosts.keys() - {node} for node in hosts})
        for a, b in combinations(range(self.scenario.nodes), 2):
            hosts[a].link_up(b, 1)
            hosts[b].link_up(a, 1)

    def _link(self, sender: Host, to: NodeId, instance: int) -> Link:
        """Made when something is first sent over it."""
        network = self.scenario.network
        medium = self._special.get((sender.node, to), self._medium)
        port = self._ports.get(sender.node)
        if network.queue == "link" and (medium.bandwidth or network.transmission):
            port = Port(sender)
        elif port is None:
            port = self._ports[sender.node] = Port(sender)
        kind: type[Link] = Link
        if network.packets:
            kind = PacketLink if self._lasting else EndingPacketLink
        if self._ends is None:
            return kind(medium, sender, self.hosts[to], instance, port)
        link = kind(medium, sender, self._ends.end(to, sender.node, instance), instance, port)
        link.alive = self._ends.line(sender.node, to, instance)
        return link

    def _disconnect(self, a: NodeId, b: NodeId) -> None:
        one, other = self.hosts.get(a), self.hosts.get(b)
        if one is None or other is None or b not in self._lines(a):
            return
        pair = min(a, b), max(a, b)
        self._broken[pair] = self._broken.get(pair, 0) + 1
        if self._ends is not None:
            self._ends.disconnect(a, b)
            return
        for host, peer in ((one, b), (other, a)):
            host.kill_link(peer)
        for host, peer in ((one, b), (other, a)):
            if host.up:
                host.note(Kind.DOWN, peer=peer)
            host.link_down(peer)
        if self._overlay is not None:
            self._overlay.broke(a, b)

    def _parted(self, a: NodeId, b: NodeId) -> bool:
        return self._group is not None and self._group.get(a, -1) != self._group.get(b, -1)

    def _connect_all(self, node: NodeId) -> None:
        for peer in sorted(self._wanted[node]):
            self._connect(node, peer)

    # Traces: nodes appear, meet, part and go.

    def _follow(self, plan: ContactPlan, setup: int) -> None:
        for node, spans in plan.presence.items():
            for index, (start, end) in enumerate(spans):
                self.scheduler.at(start, self._appear, node)
                self.scheduler.at(end, self._leave if index == len(spans) - 1 else self._crash, node)
        for start, end, a, b in plan.contacts:
            if start + setup < end:
                self.scheduler.at(start + setup, self._meet, (a, b))
                self.scheduler.at(end, self._part, (a, b))

    def _appear(self, node: NodeId) -> None:
        if node in self.hosts:
            self._recover(node)
        else:
            host = self._add_host(node)
            host.note(Kind.JOIN)
            self._arrive(host)
            self._connect_all(node)

    def _meet(self, pair: tuple[NodeId, NodeId], by: NodeId | None = None, number: int | None = None) -> None:
        self._want(*pair)
        self._connect(*pair, by, number)

    def _part(self, pair: tuple[NodeId, NodeId]) -> None:
        a, b = pair
        self._wanted[a].discard(b)
        self._wanted[b].discard(a)
        self._disconnect(a, b)

    # Faults.

    def _schedule_faults(self) -> None:
        for index, fault in enumerate(self.scenario.faults):
            if isinstance(fault, Churn):
                for node in range(self.scenario.nodes):
                    stream = Stream(self.scenario.seed, "churn", index, node)
                    at = fault.start + round(fault.uptime * stream.exponential())
                    self._churn_later(at, self._churn_crash, fault, stream, node)
            else:
                self.scheduler.at(int(fault.at), self._fault, fault)

    def _fault(self, fault: Crash | Recover | Rebirth | Join | Leave | Partition | Heal | Cut | LinkFault) -> None:
        match fault:
            case Crash(node=node):
                self._crash(node)
            case Recover(node=node):
                self._recover(node)
            case Rebirth():
                self._rebirth(fault)
            case Join():
                self._join(fault)
            case Leave(node=node):
                self._leave(node)
            case Partition(groups=groups):
                self._group = {node: index for index, group in enumerate(groups) for node in group}
                for a in sorted(self.hosts):
                    for b in sorted(self._lines(a)):
                        if self._parted(a, b):
                            self._disconnect(a, b)
            case Heal():
                self._group = None
                for node in sorted(self.hosts):
                    self._connect_all(node)
            case Cut(a=a, b=b):
                self._part((a, b))
            case LinkFault(a=a, b=b, by=by):
                if a != b and not {a, b} & self._left:
                    self._meet((a, b), by)

    def _crash(self, node: NodeId) -> bool:
        host = self.hosts.get(node)
        if host is None or not host.up:
            return False
        host.note(Kind.CRASH)
        self._saved[node] = msgspec.msgpack.encode(host.protocol.snapshot())
        self._stop(host)
        return True

    def _stop(self, host: Host) -> None:
        host.halt()
        for peer in sorted(self._lines(host.node)):
            self._disconnect(host.node, peer)
        for peer in list(host.links):  # gone already, but it has not heard so yet
            host.forget_link(peer)

    def _recover(self, node: NodeId) -> bool:
        saved = self._saved.pop(node, None)
        if saved is None:
            return False
        host = self.hosts[node]
        host.protocol = self._make(node, self._settings)
        host.protocol.restore(msgspec.msgpack.decode(saved, strict=False))
        host.up = True
        host.note(Kind.RECOVER)
        self._arrive(host)
        host.perform(host.protocol.resume(host.local_time()))
        self._connect_all(node)
        return True

    def _join(self, fault: Join) -> None:
        if fault.node in self.hosts:
            return
        if self._overlay is not None:
            self._join_overlay(fault)
            return
        present = sorted(self.hosts.keys() - self._left)  # crashed ones too: they link when they recover
        if fault.peers is not None:
            peers = fault.peers
        elif isinstance(self.scenario.network.topology, Complete):
            peers = present
        else:
            chosen = Stream(self.scenario.seed, "join", fault.node).sample(len(present), _JOIN_LINKS)
            peers = [present[index] for index in chosen]
        host = self._add_host(fault.node)
        host.note(Kind.JOIN)
        self._arrive(host)
        for peer in peers:
            if peer in self.hosts and peer != fault.node and peer not in self._left:
                self._want(fault.node, peer)
        self._connect_all(fault.node)

    def _join_overlay(self, fault: Join) -> None:
        assert self._overlay is not None
        host = self._add_host(fault.node)
        host.note(Kind.JOIN)
        self._arrive(host)
        self._overlay.join(fault.node, fault.peers[0] if fault.peers else None)

    def _rebirth(self, fault: Rebirth) -> None:
        """A node has lost its state for good: it comes back as a newcomer, with the links of its old life."""
        if fault.node not in self.hosts or fault.node in self._left or fault.number in self.hosts:
            return
        whole = isinstance(self.scenario.network.topology, Complete)
        peers = None if whole else sorted(self._wanted[fault.node])
        self._crash(fault.node)
        self._gone(fault.node)
        self._join(Join(at=fault.at, node=fault.number, peers=peers))

    def _leave(self, node: NodeId) -> None:
        host = self.hosts.get(node)
        if host is not None and host.up and node not in self._left and isinstance(host.protocol, Leaving):
            self._left.add(node)  # it is on its way: nobody links with it any more
            host.leaving = True
            host.perform(host.protocol.leave(host.local_time()))
            self._see_off((host, self.scheduler.now + _FAREWELL))
        else:
            self._gone(node)

    def _see_off(self, what: tuple[Host, int]) -> None:
        """Stop a node that leaves once the others have let it go, or after a while."""
        host, latest = what
        assert isinstance(host.protocol, Leaving)
        now = self.scheduler.now
        if host.protocol.left or now >= latest or not host.up:
            self._left.discard(host.node)
            self._gone(host.node)
        else:
            self.scheduler.at(min(now + _LOOK, latest), self._see_off, what)

    def _gone(self, node: NodeId) -> None:
        """A node is gone for good."""
        host = self.hosts.get(node)
        if host is None or node in self._left:
            return
        if host.up:
            host.note(Kind.LEAVE)
            self._stop(host)
        self._left.add(node)
        if self._overlay is not None:
            self._overlay.leave(node)
        self._saved.pop(node, None)
        for peer in self._wanted[node]:
            self._wanted[peer].discard(node)
        self._wanted[node].clear()

    def _churn_later(
        self,
        at: int,
        action: Callable[[tuple[Churn, Stream, NodeId]], None],
        fault: Churn,
        stream: Stream,
        node: NodeId,
    ) -> None:
        until = self.scenario.duration if fault.until is None else fault.until
        # A crash falls within the time of churn; the recovery from it always comes.
        if at < until or action == self._churn_recover:
            self.scheduler.at(at, action, (fault, stream, node))

    def _churn_crash(self, what: tuple[Churn, Stream, NodeId]) -> None:
        fault, stream, node = what
        self._crash(node)
        at = self.scheduler.now + round(fault.downtime * stream.exponential())
        self._churn_later(at, self._churn_recover, fault, stream, node)

    def _churn_recover(self, what: tuple[Churn, Stream, NodeId]) -> None:
        fault, stream, node = what
        self._recover(node)
        at = self.scheduler.now + round(fault.uptime * stream.exponential())
        self._churn_later(at, self._churn_crash, fault, stream, node)

    def _sample(self, every: int) -> None:
        now = self.scheduler.now
        for node, host in self.hosts.items():
            if host.up:
                gauges = host.protocol.gauges()
                for gauge, value in (
                    gauges if self._overlay is None else gauges | self._overlay.gauges(node)
                ).items():
                    self._samples.append(node, now, gauge, value)
        only_the_end_is_left = len(self.scheduler) <= 1
        if now < self.scenario.duration or not only_the_end_is_left:
            self.scheduler.at(now + every, self._sample, every)
