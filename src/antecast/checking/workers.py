"""A breadth-first search whose frontier is shared between processes.

A search begins in one process. Once it has seen enough worlds to make it worth while, it forks workers, and each
owns the worlds whose fingerprints have its number as the remainder: it remembers them, and looks into them. All
look into the worlds of one depth; then each sends the worlds that it reached to those who own them, and the next
depth begins. So a violation is found at the same depth as by one process, and worlds and transitions are counted
alike; of several violations at one depth the one with the smallest fingerprint is told, however many workers there
are.

The first process looks into nothing any more: it passes parcels on, counts, and decides when to end. What the
reduction rests on is verified by the workers, each for its own local calls (symmetry, and frames that are only
noted) or for some of the local states of all (frames that mean nothing).
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
import traceback
from array import array
from collections import defaultdict
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, TypeAlias

from antecast.checking.lassos import MayGoOn, Receptions
from antecast.checking.limits import memory_used
from antecast.checking.noted import Lag, Lags
from antecast.checking.reduction import Arriving, Edge, Held, Images, TooEager, Unverified, inherited
from antecast.checking.symmetry import NotSymmetric
from antecast.checking.translation import Common, Incoming, Outgoing, Parcel
from antecast.checking.world import World
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.checking.search import Found, Search

_PAUSE = 0.3
"""Seconds between two notes of a worker."""

Box: TypeAlias = bytes
"""Worlds for one owner, packed: fingerprints, those of the worlds they were reached from, and the worlds. The
first process passes it on as it is."""


def cores() -> int:
    """Processes that are worth while here; 1 where processes cannot be forked."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """One process, and the worlds that it owns."""

    def __init__(self, search: Search, mine: int, jobs: int, pipe: Connection, stop: Any) -> None:
        self._search, self._mine, self._jobs = search, mine, jobs
        self._pipe, self._stop = pipe, stop
        self._seen: dict[int, int] = {}
        """Worlds that are owned here, and from which world each was reached."""
        self._passed: tuple[set[int], set[int]] = (set(), set())
        """Worlds of others that were reached lately: at this depth and at the one before."""
        self._frontier: list[tuple[World, int]] = []
        self._fresh: dict[int, tuple[int, World]] = {}
        self._transitions = 0
        common = Common(search.worlds)
        self._outgoing = [Outgoing(search.worlds, common) for _ in range(jobs)]
        self._incoming = [Incoming(search.worlds, common) for _ in range(jobs)]
        self._lags: Lags | None = None
        self._lags_told: set[Lag] = set()
        self._told = time.monotonic()

    def serve(self, frontier: Sequence[tuple[World, int]]) -> None:
        """Do what the first process asks for, until it asks for nothing more."""
        self._frontier = [each for each in frontier if each[1] % self._jobs == self._mine]
        while True:
            name, *arguments = pickle.loads(self._pipe.recv_bytes())
            if name == "end":
                return
            try:
                reply = ("done", getattr(self, f"_{name}")(*arguments))
            except NotSymmetric:
                reply = ("not symmetric", None)
            except Unverified as late:
                reply = ("unverified", str(late))
            except ConfigurationError as error:
                reply = ("refused", str(error))
            except Exception:
                reply = ("failed", traceback.format_exc())
            self._pipe.send_bytes(pickle.dumps(reply))

    def _note(self) -> str | None:
        """Tell the first process how far this one is, now and then; why to end, if it says so."""
        if time.monotonic() - self._told > _PAUSE:
            self._told = time.monotonic()
            note = (len(self._seen) + len(self._fresh), self._transitions, time.process_time(), memory_used())
            self._pipe.send_bytes(pickle.dumps(("note", note)))
        return "stopped" if self._stop.is_set() else None

    def _look(self) -> tuple[list[tuple[bool, int]], list[Box | None], int]:
        """Look into all worlds of this depth: the violations, worlds for others, and how many were left."""
        search, jobs = self._search, self._jobs
        reducer, worlds, old, seen = search.reducer, search.worlds, search.graph.places, self._seen
        boxes: list[dict[int, tuple[int, World]]] = [{} for _ in range(jobs)]
        passed, before = self._passed
        violations: list[tuple[bool, int]] = []
        looked = 0
        for world, key in self._frontier:
            if not looked & 63 and self._note():
                break
            looked += 1
            if search.judge(world) is not None:
                violations.append((False, key))
            for action, after, problem in worlds.expand(world):
                self._transitions += 1
                if problem is not None:
                    violations.append((True, key))
                    break
                after = reducer.reduced(after)
                search.followed.note(world, action, after)
                found: int = reducer.key(after)  # type: ignore[assignment]
                owner = found % jobs
                if found in old or (found in seen if owner == self._mine else found in before):
                    continue
                known = boxes[owner].get(found)
                if known is None or key < known[0]:
                    boxes[owner][found] = (key, after if known is None else known[1])
                    search.times.add(after[worlds.NOW])
        self._fresh = boxes[self._mine]
        for owner, box in enumerate(boxes):
            if owner != self._mine:
                passed.update(box)
        self._passed = (set(), passed)
        left = len(self._frontier) - looked
        return violations, [self._box(owner, box) for owner, box in enumerate(boxes)], left

    def _box(self, owner: int, box: dict[int, tuple[int, World]]) -> Box | None:
        if owner == self._mine:
            return None
        parents = array("Q", (parent for parent, _ in box.values()))
        parcel = self._outgoing[owner].parcel(world for _, world in box.values())
        return pickle.dumps((array("Q", box).tobytes(), parents.tobytes(), parcel))

    def _take(self, boxes: list[Box | None]) -> tuple[int, int, int, float, int]:
        """Take in what others have sent: worlds that wait, worlds owned, transitions, CPU time and memory."""
        fresh, seen = self._fresh, self._seen
        for sender, box in enumerate(boxes):
            if box is None:
                continue
            packed: tuple[bytes, bytes, Parcel] = pickle.loads(box)
            keys, parents = array("Q", packed[0]), array("Q", packed[1])
            for key, parent, world in zip(keys, parents, self._incoming[sender].worlds(packed[2]), strict=True):
                if key not in seen:
                    known = fresh.get(key)
                    if known is None or parent < known[0]:
                        fresh[key] = (parent, world if known is None else known[1])
        self._fresh = {}
        for key, (parent, _) in fresh.items():
            seen[key] = parent
        self._frontier = [(world, key) for key, (_, world) in fresh.items()]
        return len(fresh), len(seen), self._transitions, time.process_time(), memory_used()

    def _parent(self, key: int) -> int | None:
        return self._seen.get(key)

    def _symmetric(self) -> bool:
        self._search.compare_again()
        return self._search.symmetry is None or not self._search.symmetry.broken()

    def _receptions(self) -> tuple[Receptions, bool]:
        return Receptions.of(self._search.worlds.machine), self._search.calm.cut_short

    def _times(self) -> set[int]:
        return self._search.times

    def _noted(self, boxes: list[Parcel] | None, times: set[int]) -> tuple[set[Arriving], list[Parcel]]:
        """Follow the states that lag behind, here (at first) or at other workers: what failed, and states that lag
        of which the others have not been told."""
        search, machine = self._search, self._search.worlds.machine
        if boxes is None or self._lags is None:
            assert search.reducer.eager is not None
            search.times |= times
            self._lags, self._lags_told = search.lags(), set()
            self._lags.follow(search.reducer.eager.noted)
        else:
            with machine.judging():
                others = [
                    lag
                    for sender, box in enumerate(boxes)
                    if sender != self._mine
                    for lag in self._incoming[sender].lags(box)
                ]
            self._lags_told.update(others)
            self._lags.follow(others)
        new = [lag for lag in self._lags if lag not in self._lags_told]
        self._lags_told.update(new)
        boxes = [self._outgoing[each].lags(new if each != self._mine else ()) for each in range(self._jobs)]
        return self._lags.failed, boxes

    def _assumed(self) -> tuple[set[Edge], dict[bytes, set[Arriving]], set[Arriving], Images]:
        search = self._search
        machine, eager = search.worlds.machine, search.reducer.eager
        assert eager is not None and self._lags is not None
        edges, held = search.followed.edges(machine) | self._lags.edges(), eager.held(machine)
        return edges, dict(held), eager.frames(machine), search.images(edges, held)

    def _failing(self, held: Held, times: set[int]) -> set[Arriving]:
        eager = self._search.reducer.eager
        assert eager is not None
        return eager.failing(self._search.worlds.machine, held, times, self._note)

    def _images(self, frames: set[Arriving]) -> set[Arriving]:
        eager = self._search.reducer.eager
        assert eager is not None
        return eager.images(self._search.worlds.machine, self._search.symmetry, frames)


class Sharing:
    """The first process: it passes on what the workers send, and counts."""

    def __init__(self, search: Search, frontier: Sequence[tuple[World, int]], jobs: int) -> None:
        self._search, self._jobs = search, jobs
        context = multiprocessing.get_context("fork")
        self._stop = context.Event()
        self._why = ""
        self._pipes: list[Connection] = []
        self._workers = []
        self._notes: list[tuple[int, int, float, int]] = [(0, 0, 0.0, 0)] * jobs
        """Of each worker: worlds owned, transitions, CPU time and memory."""
        self._waiting = len(frontier)
        self._cpu, self._busiest = search.meter.cpu, search.meter.busiest
        """Of workers that are gone."""
        for mine in range(jobs):
            here, there = context.Pipe()
            worker = context.Process(target=self._work, args=(mine, there, frontier), daemon=True)
            worker.start()
            there.close()
            self._pipes.append(here)
            self._workers.append(worker)

    def _work(self, mine: int, pipe: Connection, frontier: Sequence[tuple[World, int]]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides
        for each in self._pipes:
            each.close()
        Worker(self._search, mine, self._jobs, pipe, self._stop).serve(frontier)

    def run(self, depth: int, verify_at: int) -> Found:
        """Look at all worlds from this depth on. Assumptions are verified when there are so many."""
        search = self._search
        try:
            while self._waiting:
                search.depth = depth
                done = self._ask([("look",)] * self._jobs)
                left = sum(each[2] for each in done)
                violations = sorted(each for violated, _, _ in done for each in violated)
                if violations:
                    return search.violated(self._chain(violations[0][1]), judged=not violations[0][0])
                inboxes = [[each[1][owner] for each in done] for owner in range(self._jobs)]
                taken = self._ask([("take", inbox) for inbox in inboxes])
                self._notes = [each[1:] for each in taken]
                self._waiting = sum(each[0] for each in taken)
                if left or self._why or self._over(depth):
                    return self._found("not exhausted", why=self._why, frontier=self._waiting + left)
                if self._waiting and self._states() >= verify_at:
                    verify_at = 4 * self._states()
                    self._verify()
                depth += 1
            self._verify()
            if not all(self._ask([("symmetric",)] * self._jobs)):
                raise NotSymmetric
            receptions = Receptions()
            for each, cut_short in self._ask([("receptions",)] * self._jobs):
                receptions.add(each)
                search.calm.cut_short |= cut_short
            if not receptions.come_to_rest():
                raise MayGoOn
            return self._found("exhausted")
        except Unverified as late:
            return search.unverified(late, **self._counts())
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return self._found("not exhausted", why="a worker process died", frontier=self._waiting)
        finally:
            self._end()

    def _states(self) -> int:
        return len(self._search.graph) + sum(note[0] for note in self._notes)

    def _counts(self) -> dict[str, int]:
        transitions = self._search.transitions + sum(note[1] for note in self._notes)
        return {"states": self._states(), "transitions": transitions}

    def _found(self, verdict: Any, **more: Any) -> Found:
        values: dict[str, Any] = self._counts() | more
        return self._search.found(verdict, **values)

    def _over(self, depth: int) -> bool:
        """Whether the search should end; the workers are told, and why is remembered."""
        search = self._search
        search.meter.cpu = self._cpu + sum(note[2] for note in self._notes)
        search.meter.busiest = self._busiest + max(note[2] for note in self._notes)
        search.meter.memory = sum(note[3] for note in self._notes)
        if search.progress is not None and not self._why:
            counts = self._counts()
            self._why = search.progress(counts["states"], counts["transitions"], self._waiting, depth) or ""
            if self._why:
                self._stop.set()
        return bool(self._why)

    def _ask(self, questions: list[tuple[Any, ...]]) -> list[Any]:
        """Ask each worker, and wait for all answers; meanwhile note how far they are."""
        for pipe, question in zip(self._pipes, questions, strict=True):
            pipe.send_bytes(pickle.dumps(question))
        answers: list[Any] = [None] * self._jobs
        open_pipes = dict(zip(self._pipes, range(self._jobs), strict=True))
        while open_pipes:
            for ready in wait(list(open_pipes), timeout=_PAUSE):
                pipe = next(each for each in open_pipes if each is ready)
                kind, value = pickle.loads(pipe.recv_bytes())
                place = open_pipes[pipe]
                if kind == "note":
                    self._notes[place] = value
                    continue
                if kind == "not symmetric":
                    raise NotSymmetric
                if kind == "unverified":
                    raise Unverified(self._why or value)
                if kind == "refused":
                    raise ConfigurationError(value)
                if kind == "failed":
                    raise RuntimeError(f"a worker failed:\n{value}")
                answers[place] = value
                del open_pipes[pipe]
            self._over(self._search.depth)
        return answers

    def _chain(self, key: int) -> list[World | int]:
        """The fingerprints on the way to a world, from the beginning."""
        chain: list[int] = [key]
        places = self._search.graph.places
        while chain[-1] not in places:
            owner = chain[-1] % self._jobs
            pipe = self._pipes[owner]
            pipe.send_bytes(pickle.dumps(("parent", chain[-1])))
            while (answer := pickle.loads(pipe.recv_bytes()))[0] == "note":
                pass
            chain.append(answer[1])
        first = self._search.graph.chain(places[chain.pop()])
        return [*first, *reversed(chain)]

    def _verify(self) -> None:
        """Raise `TooEager` if a frame that was taken to mean nothing, or to be only noted, is more than that."""
        eager = self._search.reducer.eager
        if eager is None:
            return
        times: set[int] = set().union(*self._ask([("times",)] * self._jobs))
        loud = self._loud(times)
        if loud:
            raise TooEager(set(), self._images(loud))
        told = self._ask([("assumed",)] * self._jobs)
        held: Held = defaultdict(set)
        knows: dict[bytes, list[int]] = defaultdict(list)
        images, frames = Images(), set()
        for worker, (followed, assumed, arrived, renamed) in enumerate(told):
            images.add(renamed)
            frames |= arrived
            for state, names in assumed.items():
                held[state] |= names
            for state in {each for edge in followed for each in edge[:2]} | set(assumed):
                knows[state].append(worker)
        eager.count = len(frames)
        held = inherited((edge for followed, *_ in told for edge in followed), held, images)
        shares: list[Held] = [{} for _ in range(self._jobs)]
        for state, names in held.items():
            able = knows[state]
            shares[able[state[0] % len(able)]][state] = names
        lively: set[Arriving] = set().union(*self._ask([("failing", share, times) for share in shares]))
        if lively:
            raise TooEager(self._images(lively), set())

    def _loud(self, times: set[int]) -> set[Arriving]:
        """The frames that turned out to be more than noted. Each worker follows the states that lag behind by the
        calls that it knows, and tells the others of those that it comes to, until none are new."""
        boxes: list[list[Parcel]] | None = None
        failed: set[Arriving] = set()
        while True:
            asked = [("noted", None if boxes is None else boxes[each], times) for each in range(self._jobs)]
            done = self._ask(asked)
            failed |= set().union(*(each[0] for each in done))
            if not any(parcel[1] for _, parcels in done for parcel in parcels):
                return failed
            boxes = [[parcels[receiver] for _, parcels in done] for receiver in range(self._jobs)]

    def _images(self, frames: set[Arriving]) -> set[Arriving]:
        return set().union(*self._ask([("images", frames)] * self._jobs))

    def _end(self) -> None:
        self._stop.set()
        for pipe in self._pipes:
            try:
                pipe.send_bytes(pickle.dumps(("end",)))
            except OSError:
                continue
        for worker in self._workers:
            worker.join(timeout=1.0)
            if worker.is_alive():
                worker.terminate()
                worker.join()
