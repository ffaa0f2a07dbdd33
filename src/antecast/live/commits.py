"""Commits: batches go to the journal one after the other, and what they hold leaves when they are durable.

When the journal is free, the open batch is handed to it and a new one is opened. When a batch is committed, its
effects leave: frames first, then deliveries, then the answers to broadcasts. So no effect leaves before its call
is durable, a busy node commits in large groups, and an idle one commits at once.

Snapshots, acknowledgements and what is remembered of other nodes go the same way: the writer works in order.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from antecast.core import AntecastError, Frame, NodeId
from antecast.live.batch import Batch
from antecast.live.counters import Counters
from antecast.live.entries import Commit, Durability, JournalError
from antecast.live.eventlog import EventLog
from antecast.live.journal import Journal
from antecast.live.links.link import Link
from antecast.live.machine import Clock, Machine
from antecast.live.security import Unsecured
from antecast.live.writing import Writer

log = logging.getLogger("antecast.live")


class NodeStopped(AntecastError):
    """The node has stopped, or could not go on; the text says why."""


class Owner(Protocol):
    """What an engine tells its node."""

    def committed(self, batch: Batch) -> None:
        """A batch is durable, and its frames have been written."""

    def transmit(self, packets: list[bytes]) -> None:
        """Packets of a durable batch go on the air."""

    def failed(self, error: Exception) -> None:
        """Nothing more can be committed, and nothing more leaves."""

    def fell_behind(self) -> None:
        """More is uncommitted than `bound`."""

    def reads_slowly(self, link: Link) -> None:
        """More waits in a link than `most_waiting`."""


class Commits:
    """The side of an engine that faces the journal."""

    def __init__(
        self,
        owner: Owner,
        machine: Machine,
        clock: Clock,
        journal: Journal,
        recorder: EventLog,
        counters: Counters,
        *,
        most_waiting: int,
        snapshot_every: int,
        history: int,
    ) -> None:
        self._owner, self.machine, self.journal, self.clock = owner, machine, journal, clock
        self.number, self.codec, self.security = machine.number, machine.protocol.codec, machine.security
        self.behind = 0
        """Bytes of calls that are made and not committed."""
        self.position = journal.position
        """How many calls are committed: what a restart is sure to remember."""
        self.since_snapshot = 0
        self.stopped = False
        self.closed = False
        """Whether it has let go of the journal."""
        self._most_waiting, self._history = most_waiting, history
        self._snapshot_every = self._cut_at = snapshot_every
        """Bytes of calls after which the next snapshot is due; 0 if the protocol cannot be frozen."""
        self._recorder, self._counters = recorder, counters
        self._secured = not isinstance(self.security, Unsecured)
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self._loop, inline=journal.durability is Durability.NONE)
        self._batch = Batch()
        self._writing: Batch | None = None
        self._scheduled = False
        self._done_with, self._forgetting = journal.acknowledged, False

    @property
    def idle(self) -> bool:
        """Whether everything that was called is committed."""
        return self._writing is None and not self._batch.count and not self._batch.answers

    def answer(self, future: asyncio.Future[Any], result: Any) -> None:
        """Resolve a future when all that was called so far is durable."""
        self._batch.answers.append((future, result))
        self._schedule()

    def _broke(self, error: Exception) -> NodeStopped:
        """The protocol raised what no protocol may: its state can no longer be trusted."""
        log.exception("node %d: a defect of %s", self.number, self.machine.spec.name)
        stopped = NodeStopped(f"a defect of {self.machine.spec.name}: {error!r}")
        self.fail(stopped)
        return stopped

    def _schedule(self) -> None:
        if not self._scheduled and self._writing is None:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        """Hand the open batch to the journal, if it is free."""
        self._scheduled = False
        batch = self._batch
        if self._writing is not None or self.stopped or not (batch.count or batch.answers):
            return
        if self._secured:
            try:
                self._seal(batch)
            except AntecastError as error:
                self._broke(error)
                return
        self._writing, self._batch = batch, Batch()
        if batch.count:
            what = Commit(batch.calls, batch.deliveries, batch.count, batch.positions)
            journal = self.journal
            self._writer.put(lambda: journal.commit(what), self._committed)
        else:
            self._batch.positions = batch.positions
            self._committed(None)

    def _seal(self, batch: Batch) -> None:
        """Make packets of the frames of a batch, before it is committed: nothing leaves yet."""
        self.security.prepare(frame for frame, _, _ in batch.unsealed)
        last: Frame | None = None
        packet = b""
        for frame, waiting, place in batch.unsealed:
            if frame is not last:
                last, packet = frame, self.security.seal(frame, self.codec.encode(frame))
            waiting[place] = packet
        self.security.settle(self.machine.protocol)

    def _committed(self, error: Exception | None) -> None:
        """The batch is durable: its effects leave."""
        batch, self._writing = self._writing, None
        assert batch is not None
        if error is not None or self.stopped:
            self._batch.answers[:0] = batch.answers
            self._failed(error)
            return
        self.position = self.journal.position
        counters = self._counters
        counters["groups"] += 1
        self.behind -= batch.size
        self.since_snapshot += batch.size
        for link, packets in batch.frames.items():
            if link.closed:
                counters["dropped_link_gone"] += len(packets)
                continue
            counters["frames_sent"] += len(packets)
            link.write(packets)
            if link.waiting > self._most_waiting:
                self._owner.reads_slowly(link)
        if batch.transmissions:
            counters["frames_sent"] += len(batch.transmissions)
            self._owner.transmit(batch.transmissions)
        self._owner.committed(batch)
        for future, result in batch.answers:
            if not future.done():
                future.set_result(result)
        if self._cut_at and self.since_snapshot > self._cut_at:
            self._cut()
        if self._batch.count or self._batch.answers:
            self._schedule()

    def _failed(self, error: Exception | None) -> None:
        if error is not None:
            known = isinstance(error, JournalError)
            self.fail(error if known else NodeStopped(f"the journal failed: {error!r}"))

    def fail(self, error: Exception) -> None:
        """Nothing more leaves this node."""
        if not self.stopped:
            self.stopped = True
            self._owner.failed(error)
            self._refuse_answers(error)

    def _refuse_answers(self, error: Exception) -> None:
        for batch in (self._batch, self._writing):
            for future, _ in () if batch is None else batch.answers:
                if not future.done():
                    future.set_exception(error)

    def _cut(self) -> None:
        """Write a snapshot of the running machine, so that the journal can be cut.

        The machine is ahead of the journal by the open batch. That is committed first: the writer works in order.
        """
        self.since_snapshot = 0
        if self.journal.durability is Durability.NONE:
            return
        self._commit()
        try:
            saved = self.machine.save_exactly()
        except TypeError as error:
            if self._cut_at:
                self._cut_at = 0
                log.warning("node %d: its journal is only cut at a clean stop: %s", self.number, error)
            return
        self._cut_at = max(self._snapshot_every, 4 * len(saved))
        self._write_snapshot(saved, exact=True)

    def _write_snapshot(self, saved: bytes, *, exact: bool) -> None:
        now, journal, pos = self.clock.read(), self.journal, self._recorder.pos
        history = self._history
        try:
            self._recorder.keep()
        except AntecastError as error:
            self.fail(NodeStopped(f"the event log failed: {error}"))
            return
        self._counters["snapshots"] += 1
        self._writer.put(
            lambda: journal.snapshot(saved, now=now, events=pos, exact=exact, history=history), self._failed
        )

    def forget(self, number: int) -> None:
        """The application is done with deliveries up to a number. However often it says so, the journal writes one
        acknowledgement at a time, of all that was said meanwhile."""
        self._done_with = max(self._done_with, number)
        if not self._forgetting and self._done_with > self.journal.acknowledged:
            self._forgetting = True
            self._writer.put(lambda: self.journal.acknowledge(self._done_with), self._forgotten)

    def _forgotten(self, error: Exception | None) -> None:
        self._forgetting = False
        self._failed(error)
        if not self.stopped:
            self.forget(self._done_with)

    def remember(self, peer: NodeId, life: bytes) -> None:
        """The first meeting with a peer."""
        journal = self.journal
        self._writer.put(lambda: journal.remember(peer, life), self._failed)

    def remember_position(self, peer: NodeId, position: int) -> None:
        """How far a peer's journal has come."""
        journal = self.journal
        self._writer.put(lambda: journal.remember_position(peer, position), self._failed)

    def note_position(self, peer: NodeId, position: int) -> None:
        """The same, with the next group: what comes from the peer after it has said so is no sooner in the journal
        than its position is."""
        self._batch.positions[peer] = position

    async def stop(self) -> None:
        """Commit what was called, write a snapshot of what survives, and let go of the journal."""
        try:
            while not self.stopped and not self.idle:
                self._commit()
                await asyncio.sleep(0 if self._writing is None else 0.001)
        finally:
            self._close()

    def _close(self) -> None:
        """What is not committed by now is as if there had been a crash."""
        if self.closed:
            return
        self.closed = True
        if not self.idle and not self.stopped:  # the wait was cancelled
            self.stopped = True
            self._refuse_answers(NodeStopped("the node has stopped"))
        self._writer.stop()
        failed, self.stopped = self.stopped, True
        saved = None if failed else self.machine.save()
        try:
            self._recorder.close()
            if not failed:
                self.journal.acknowledge(self._done_with)
        except AntecastError:  # without a snapshot, the calls stay, from which the log is written again
            self.journal.close()
            raise
        self.journal.close(state=saved, now=self.clock.read(), events=self._recorder.pos)
