"""Who may work in a sweep's folder: one driver at a time, on any store.

Every driver that wants a folder writes an object of its own into `.claims` and then looks at the others. It goes
on only if it sees its own and no other; otherwise it takes its own away, waits a little, and gives up after a few
tries. Of two drivers at least one writes before the other looks, so two never go on. An object is written again
every few seconds; one that was not for two minutes, by the clock of the store, is void, and so is one whose
process on this very machine is gone.

On a disk a lock comes first: the system releases it when its holder dies, whatever the clocks say.

A driver that was away for longer than that (a machine asleep, a network down) does not damage what another one has
made meanwhile. Parts are the same whoever makes them. A claim that others took away is never written again. If it
was renewed late, others may have taken it between the look and the writing. Theirs was there before that, so the
driver looks for it. Whoever has lost the claim stops and tidies nothing up; and tasks ask before each part whether
the claim still stands.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from antecast.core.errors import AntecastError, ConfigurationError, OutputError
from antecast.history.store import Listed, Store

LEASE = 120.0
"""Seconds after which a claim that nobody renewed is void."""

_SETTLING = (0.2, 0.5, 1, 2, 4, 8, 16)
"""Seconds between looks for a claim that was just written and is not listed."""

_RENEWAL = 10.0
_TRIES = 4


class ClaimLost(AntecastError):
    """Another driver has taken the folder meanwhile."""


class Claim:
    """A claim that this process holds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.token = uuid.uuid4().hex
        self._ended = threading.Event()
        self._renewed = _now()
        self._taken = False
        self._trouble = "nobody answers"
        self._thread = threading.Thread(target=self._renew, daemon=True, name="antecast-claim")

    def write(self) -> None:
        begin = _now()  # the store counts from later than this, so we give up before others take over
        self._store.write(f".claims/{self.token}.json", json.dumps(_ourselves()).encode())
        self._renewed = begin

    def hold(self) -> None:
        self._thread.start()

    def check(self) -> None:
        """Stop if the folder may be another's by now."""
        if not self.stands:
            problem = f"the claim could not be renewed for {LEASE:.0f} s ({self._trouble})"
            if self._taken:
                problem = "the claim was not renewed in time, and another driver has taken the folder"
            raise ClaimLost(f"{self._store.where()}: {problem}, so the sweep stops; call it again")

    @property
    def stands(self) -> bool:
        """Whether nobody else can have the folder; on a disk the lock says so."""
        in_time = _now() - self._renewed <= LEASE
        return self._store.local is not None or (in_time and not self._taken)

    def release(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(LEASE)
        with suppress(OutputError):
            self._store.delete(f".claims/{self.token}.json")

    def _renew(self) -> None:
        while not self._ended.wait(_RENEWAL):
            try:
                if not self._store.exists(f".claims/{self.token}.json"):
                    self._taken = True
                    return
                before = self._renewed
                self.write()
                if _now() - before > LEASE and self._store.list(".claims").keys() - {f"{self.token}.json"}:
                    self._taken = True
                    return
            except OutputError as error:
                self._trouble = error.problem


def _now() -> float:
    """Seconds by a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def check_claim(store: Store, token: str) -> None:
    """For a task: refuse to go on if its driver does not hold the folder any more."""
    if not store.exists(f".claims/{token}.json"):
        raise ClaimLost("the driver of this task has left the folder")


@contextmanager
def claimed(store: Store) -> Iterator[Claim]:
    """Hold a folder for a block of work."""
    if store.local is not None:
        with _locked(store.local):
            store.delete(*(f".claims/{name}" for name in store.list(".claims")))  # of those who died
            yield from _held(store)
    else:
        yield from _held(store)


def _held(store: Store) -> Iterator[Claim]:
    claim = Claim(store)
    for left in reversed(range(_TRIES)):
        claim.write()
        others = _others(store, claim.token)
        if not others:
            break
        claim.release()
        if not left:
            who = others[0]
            problem = (
                f"another sweep is at work in {store.where()} (process {who.get('pid')} on {who.get('host')}); "
                f"wait for it, or name another folder. A claim is void {LEASE:.0f} s after its holder has died"
            )
            raise ConfigurationError(problem, field="--out")
        time.sleep(random.uniform(0.2, 1.0))
        claim = Claim(store)
    claim.hold()
    try:
        yield claim
    finally:
        claim.release()
        store.remove_if_empty(".claims")


def _others(store: Store, token: str) -> list[dict[str, Any]]:
    """The claims of others that stand; void ones are taken away."""
    listed = _listed(store, token)
    now = listed[f"{token}.json"].mtime
    found = []
    for name, each in listed.items():
        if name == f"{token}.json":
            continue
        try:
            who = json.loads(store.read(f".claims/{name}"))
        except (FileNotFoundError, ValueError):
            continue
        if now - each.mtime > LEASE or _is_dead(who):
            store.delete(f".claims/{name}")
        else:
            found.append(who)
    return found


def _listed(store: Store, token: str) -> dict[str, Listed]:
    """All claims, ours among them. A listing that does not show what was just written may hide others, too."""
    for pause in (*_SETTLING, None):
        listed = store.list(".claims")
        if f"{token}.json" in listed:
            return listed
        if pause is None:
            break
        time.sleep(pause)
    store.delete(f".claims/{token}.json")
    problem = (
        f"the store took an object and does not list it {sum(_SETTLING):.0f} s later, so it cannot be told "
        "whether another sweep is at work here; a sweep needs a store that lists what was written"
    )
    raise OutputError(problem, path=store.where(f".claims/{token}.json"))


def _ourselves() -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": _started(os.getpid()), "boot": _boot()}


def _is_dead(who: dict[str, Any]) -> bool:
    """Whether a process of this machine is gone; of others nobody knows."""
    return who.get("boot") == _boot() and _started(int(who.get("pid", 0))) != who.get("started")


def _boot() -> str:
    """Names this machine since it was started, and the view of processes that a container has."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + str(
            Path("/proc/self/ns/pid").readlink()
        )
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        lock = (folder / ".lock").open("wb")
    except OSError as error:
        raise OutputError(f"cannot create the folder: {error.strerror}", path=folder) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            problem = f"another sweep is at work in {folder}; wait for it, or name another folder"
            raise ConfigurationError(problem, field="--out") from None
        yield
