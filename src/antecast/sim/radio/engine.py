"""The engine of a run in cells: stations and their wires, hosts that come into cells and go out of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from antecast.core import Leaving, NodeId
from antecast.history.log import EventWriter, SampleWriter
from antecast.history.schema import Kind
from antecast.sim.engine import Engine
from antecast.sim.fault_kinds import CellCrash, Join
from antecast.sim.host import Host
from antecast.sim.radio.air import Air, Radio
from antecast.sim.radio.host import RadioHost
from antecast.sim.radio.layout import Cells, Place, station_places, station_wires
from antecast.sim.radio.movement import Piece, changes, pieces
from antecast.sim.scenario import Scenario
from antecast.sim.streams import Stream


class Track:
    """Where a host is, asked in the order of time."""

    __slots__ = ("_piece", "_pieces")

    def __init__(self, walk: Iterator[Piece]) -> None:
        self._pieces = walk
        self._piece = next(walk, None)

    def at(self, t: int) -> Place | None:
        while self._piece is not None and t >= self._piece.t1:
            self._piece = next(self._pieces, None)
        return None if self._piece is None or t < self._piece.t0 else self._piece.at(t)


class CellEngine(Engine):
    """Hosts are nodes 0 to `nodes` − 1 and those that join; stations are numbered behind them."""

    _host_type: ClassVar[type[Host]] = RadioHost

    def __init__(self, scenario: Scenario, events: EventWriter, samples: SampleWriter) -> None:
        cells = scenario.network.topology
        assert isinstance(cells, Cells)
        self.cells = cells
        self._places = station_places(cells)
        self._tracks: dict[NodeId, Track] = {}
        self._where: dict[NodeId, NodeId] = {}
        """The station whose cell a host is in, whether it is up or not."""
        self._radios: dict[NodeId, Radio] = {}
        super().__init__(scenario, events, samples)
        self.first_station = scenario.total_nodes
        self.air = Air(self.scheduler, cells, scenario.seed, self._place)
        self._radios = self.air.radios
        make_host, make_station = self._make, scenario.specification.make_station
        assert make_station is not None
        self._make = lambda node, settings: (make_station if self._is_station(node) else make_host)(node, settings)
        for index in range(cells.count):
            self._equip(self._add_host(self.first_station + index))
        for a, b in station_wires(cells, self._places):
            pair = (self.first_station + a, self.first_station + b)
            self._want(*pair)
            self._connect(*pair, log=False)
        for node in range(scenario.nodes):
            self._settle(node)

    def _is_station(self, node: NodeId) -> bool:
        return node >= self.first_station

    def _equip(self, host: Host) -> None:
        assert isinstance(host, RadioHost)
        host.transmit = self.air.transmit
        host.on_left = self._heard_goodbye
        self.air.add(host, station=self._is_station(host.node))

    def _place(self, node: NodeId, t: int) -> Place | None:
        if node >= self.first_station:
            return self._places[node - self.first_station]
        return self._tracks[node].at(t)

    # Hosts come, walk and go.

    def _settle(self, node: NodeId) -> None:
        """A host begins where it is now."""
        walk = (pieces(self.cells, self._places, self.scenario.seed, node) for _ in range(2))
        self._tracks[node] = Track(next(walk))
        self._equip(self.hosts[node])
        self._follow_host((node, None, self._way(next(walk))))

    def _way(self, walk: Iterator[Piece]) -> Iterator[tuple[int, NodeId | None]]:
        """When a host comes into which cell, None for out of reach."""
        last, until = None, 0
        for piece in walk:
            if piece.t0 > self.scenario.horizon:
                return
            if piece.t0 > until and last is not None:
                last = None
                yield until, None
            until = piece.t1
            for t, index in changes(piece, self._places, self.cells.range):
                if index != last:
                    last = index
                    yield t, None if index is None else self.first_station + index
        if last is not None:
            yield until, None

    def _follow_host(self, what: tuple[NodeId, NodeId | None, Iterator[tuple[int, NodeId | None]]]) -> None:
        node, station, way = what
        now = self.scheduler.now
        for t, cell in way:
            if t > now:
                self._change_cell(node, station)
                self.scheduler.at(t, self._follow_host, (node, cell, way))
                return
            station = cell
        self._change_cell(node, station)

    def _change_cell(self, node: NodeId, station: NodeId | None) -> None:
        host = self.hosts[node]
        before = self._where.get(node)
        if node in self._left or station == before:
            return
        if before is not None and host.up:
            host.note(Kind.DOWN, peer=before)
            host.perform(host.protocol.link_down(before, host.local_time()))
        self.air.exit(node)
        if station is None:
            self._where.pop(node, None)
        else:
            self._where[node] = station
            self._enter(node)

    def _enter(self, node: NodeId) -> None:
        host, station = self.hosts[node], self._where.get(node)
        if host.up and station is not None:
            assert isinstance(host, RadioHost)
            self.air.enter(node, station)
            host.note(Kind.UP, peer=station)
            host.perform(host.protocol.link_up(station, host.local_time()))

    # Faults.

    def _connect_all(self, node: NodeId) -> None:
        """A host has recovered."""
        self._enter(node)

    def _stop(self, host: Host) -> None:
        super()._stop(host)
        self.air.exit(host.node)
        self.air.silence(host.node)

    def _fault(self, fault: object) -> None:
        if isinstance(fault, CellCrash):
            self._strike(fault)
        else:
            super()._fault(fault)  # type: ignore[arg-type]

    def _strike(self, fault: CellCrash) -> None:
        station = self.first_station + fault.station
        there = sorted(node for node, cell in self._where.items() if cell == station and self.hosts[node].up)
        if there:
            node = there[Stream(self.scenario.seed, "cell crash", fault.at, fault.station).below(len(there))]
            self._crash(node)
            self.scheduler.at(self.scheduler.now + fault.lasts, self._recover, node)

    def _join(self, fault: Join) -> None:
        if fault.node in self.hosts:
            return
        host = self._add_host(fault.node)
        host.note(Kind.JOIN)
        self._arrive(host)
        self._settle(fault.node)

    def _leave(self, node: NodeId) -> None:
        host = self.hosts.get(node)
        if isinstance(host, RadioHost) and host.up and isinstance(host.protocol, Leaving):
            host.leave()
        else:
            self._gone(node)

    def _heard_goodbye(self, host: RadioHost) -> None:
        self._gone(host.node)

    def _sample(self, every: int) -> None:
        for node, radio in self._radios.items():
            self._samples.append(node, self.scheduler.now, "radio_received", radio.received)
            self._samples.append(node, self.scheduler.now, "radio_missed", radio.missed)
        super()._sample(every)
