"""Parts of the compiled engine: whom each process has lost touch with (`overlay.memory`, over rows)."""

from __future__ import annotations

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole
from antecast.sim.overlay.compiled.arrays import Lives
from antecast.sim.overlay.memory import KEPT, MET


@part
def place_of(lives: Lives, p: Whole, peer: Whole) -> Whole:
    """Where p remembers that it has lost a peer; -1 if it does not."""
    for at in range(lives.losses[p]):
        if lives.lost[p, at] == peer:
            return at
    return -1


@part
def forget(lives: Lives, p: Whole, place: Whole) -> Whole:
    """`Memory.find`: how many arcs were owed."""
    owed = lives.owed[p, place]
    for at in range(place + 1, lives.losses[p]):
        lives.lost[p, at - 1], lives.owed[p, at - 1] = lives.lost[p, at], lives.owed[p, at]
    lives.losses[p] -= 1
    return owed


@part
def remember(lives: Lives, p: Whole, peer: Whole, owed: Whole) -> None:
    """`Memory.lose`."""
    place = place_of(lives, p, peer)
    if place >= 0:
        owed += forget(lives, p, place)
    lives.lost[p, lives.losses[p]], lives.owed[p, lives.losses[p]] = peer, owed
    lives.losses[p] += 1
    if lives.losses[p] > KEPT:
        forget(lives, p, 0)


@part
def part_from(lives: Lives, p: Whole, peer: Whole) -> None:
    """`Memory.part`."""
    kept = 0
    for at in range(lives.meetings[p]):
        if lives.met[p, at] != peer:
            lives.met[p, kept] = lives.met[p, at]
            kept += 1
    lives.met[p, kept] = peer
    kept += 1
    if kept > MET:
        kept -= 1
        for at in range(kept):
            lives.met[p, at] = lives.met[p, at + 1]
    lives.meetings[p] = kept


@part
def recall(lives: Lives, p: Whole) -> None:
    """`Memory.recall`."""
    for at in range(lives.meetings[p]):
        if lives.losses[p] < KEPT and place_of(lives, p, lives.met[p, at]) < 0:
            lives.lost[p, lives.losses[p]], lives.owed[p, lives.losses[p]] = lives.met[p, at], 0
            lives.losses[p] += 1


@part
def turn(lives: Lives, p: Whole) -> Whole:
    """`Memory.turn`: whom p tries next."""
    peer, owed = lives.lost[p, 0], lives.owed[p, 0]
    forget(lives, p, 0)
    lives.lost[p, lives.losses[p]], lives.owed[p, lives.losses[p]] = peer, owed
    lives.losses[p] += 1
    return peer


@part
def owed_in_all(lives: Lives, p: Whole) -> Whole:
    owed = 0
    for at in range(lives.losses[p]):
        owed += lives.owed[p, at]
    return owed
