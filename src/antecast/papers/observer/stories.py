"""Where the approximate causal observer's timestamps and delivery rule go wrong.

p, k and j are processes, o is the observer. Times are readings of clocks, in ticks.
"""

from __future__ import annotations

from antecast.observer import (
    Bounds,
    HybridClock,
    KnowledgeClock,
    Observer,
    Policy,
    Timestamp,
    less,
    published_key,
    shorten,
)
from antecast.papers.demonstration import Demonstration, Outcome

_BOUNDS = Bounds(epsilon=2, delta=3)
_EPSILON, _DELTA = _BOUNDS.epsilon, _BOUNDS.delta


def c_is_epsilon_paper() -> Outcome:
    p, k = (KnowledgeClock(_BOUNDS, rule="paper") for _ in range(2))
    e, g = _exchange(p, k)
    keys = published_key(e, 0, _BOUNDS), published_key(g, 1, _BOUNDS)
    return Outcome(
        keys[1] < keys[0], f"e has the key {keys[0]}, g the key {keys[1]}: g sorts before e, but e → g."
    )


def c_is_epsilon_ours() -> Outcome:
    p, k = (KnowledgeClock(_BOUNDS, rule="cured") for _ in range(2))
    e, g = (shorten(stamp, _BOUNDS) for stamp in _exchange(p, k))
    words = f"e has the key {e.key(0)}, g the key {g.key(1)}: e sorts before g."
    return Outcome(not less(e, 0, g, 1), words)


def _exchange(p: KnowledgeClock, k: KnowledgeClock) -> tuple[Timestamp, Timestamp]:
    """p at clock 20 sends e; k receives it at clock 20 − ε, and sends g a tick later."""
    e = p.send(20)
    k.receive(e, 20 - _EPSILON)
    return e, k.send(20 - _EPSILON + 1)


def modulus(size: int) -> Outcome:
    """Send r by its remainder, and read it back as the one value that fits the receiver's clock."""
    clock = 20
    # The sender's clock may be ε ahead; or ε behind, with a message that took δ.
    possible = range(clock - _DELTA - _EPSILON, clock + _EPSILON + 1)
    for r in possible:
        fitting = [each for each in possible if each % size == r % size]
        if fitting != [r]:
            read = " or ".join(map(str, fitting))
            words = f"The clock of k reads {clock}; r = {r} travels as {r % size}, which may stand for {read}."
            return Outcome(True, words)
    return Outcome(False, f"At clock {clock}, each r from {possible[0]} to {possible[-1]} has its own remainder.")


def tick_paper() -> Outcome:
    """Deliver when the clock shows the reading."""
    queue: list[tuple[int, str]] = []
    order = []
    for now in range(20, 30):
        order += [name for due, name in sorted(queue) if due == now]
        queue += [(stamp.latest + _DELTA + _EPSILON, name) for name, stamp, _, at in _overtaken() if at == now]
        late = [name for due, name in queue if due == now and name not in order]
        order += late  # it arrived in the tick in which it was due
    return Outcome(
        order == ["g", "e"],
        f"o delivers {' and then '.join(order)}, which arrives while its clock still shows 25; but e → g.",
    )


def tick_ours() -> Outcome:
    observer: Observer[str] = Observer(Policy(bounds=_BOUNDS, mode="exact", stamps="hybrid"))
    out = []
    for now in range(20, 30):
        out += observer.advance(now)
        for name, stamp, source, at in _overtaken():
            if at == now:
                out += observer.receive(name, stamp, source, now)
    order = [each.item for each in out]
    return Outcome(order != ["e", "g"], f"When the clock of o has passed 25 it delivers {' and '.join(order)}.")


def _overtaken() -> list[tuple[str, Timestamp, str, int]]:
    """p sends e at 20; k has it at the same reading and sends g, which overtakes e on the way to o.

    o's clock is ε ahead of p's, and e takes δ: it arrives when o's clock shows 20 + ε + δ.
    """
    p, k = HybridClock(_BOUNDS), HybridClock(_BOUNDS)
    e = p.send(20)
    k.receive(e, 20)
    return [("g", k.send(20), "k", 22), ("e", e, "p", 20 + _EPSILON + _DELTA)]


def bad_row_paper() -> Outcome:
    """Check before delivery, with the queue looked through as the paper says."""
    policy = Policy(bounds=_BOUNDS, mode="cbd", percent=40)
    queue = [(stamp.key(source), policy.due(stamp.r, stamp.c, 0), name) for name, stamp, source in _rows()]
    delivered = []
    for now in range(20, 1_000):
        for key, due, name in sorted(queue):
            smaller = [other[1] for other in queue if other[0] < key]
            if max([due, *smaller]) <= now:
                delivered.append(name)
                queue.remove((key, due, name))
    stuck = ", ".join(name for *_, name in queue)
    return Outcome("m" not in delivered, f"At clock 1,000, {stuck} are still in the queue.")


def bad_row_ours() -> Outcome:
    observer: Observer[str] = Observer(Policy(bounds=_BOUNDS, mode="cbd", percent=40))
    out = []
    for name, stamp, source in _rows():
        out += observer.receive(name, stamp, source, now=20)
    for now in range(20, 40):
        out += observer.advance(now)
    delivered = [each.item for each in out if each.reason is None]
    refused = [f"{each.item} is refused ({each.reason})" for each in out if each.reason]
    return Outcome(delivered != ["m"], f"{', '.join(refused)}; {', '.join(delivered)} is delivered.")


def _rows() -> list[tuple[str, Timestamp, str]]:
    kn = (0,) * (_EPSILON + 1)
    return [("x", Timestamp(10**6, 10 - 10**6, kn), "p"), ("m", Timestamp(20, 0, (1, *kn[1:])), "k")]


DEMONSTRATIONS = (
    Demonstration(
        name="c-is-epsilon",
        study="observer",
        title="timestamps sort an effect before its cause where clocks differ by exactly ε",
        story=(
            "ε = 2. p sends e at clock 20; k receives it when its own clock reads 18, and sends g a tick later."
            " Clocks that differ by ε are within the model."
        ),
        printed="kn has indices −ε to ε − 1 and ε elements are compared, on the ground that c < ε. Here c = ε.",
        ours=(
            "Indices −ε to ε, and ε + 1 elements are compared. The same order fits into half the space, and"
            " a hybrid logical clock gives it in two numbers."
        ),
        by_paper=c_is_epsilon_paper,
        by_us=c_is_epsilon_ours,
    ),
    Demonstration(
        name="modulus",
        study="observer",
        title="the modulus of bounded timestamps is too small",
        story="ε = 2, δ = 3. r is sent modulo B, and the receiver takes the value that fits its own clock.",
        printed="B ≥ ε + δ + 1 is said to be enough.",
        ours="B ≥ 2ε + δ + 1: on receipt the clock differs from r by −ε to δ + ε, and both ends are reached.",
        by_paper=lambda: modulus(_EPSILON + _DELTA + 1),
        by_us=lambda: modulus(_BOUNDS.modulus),
    ),
    Demonstration(
        name="end-of-tick",
        study="observer",
        title="delivery when the clock shows the reading is a tick too early",
        story=(
            "ε = 2, δ = 3. p sends e at clock 20; k receives it at once and sends g, which reaches the"
            " observer first. p's clock is ε behind the observer's, and e takes δ."
        ),
        printed="A message is delivered as soon as rt = r + c + δ + ε.",
        ours="It is delivered when the clock has passed that reading: a message may still arrive during the tick.",
        by_paper=tick_paper,
        by_us=tick_ours,
    ),
    Demonstration(
        name="bad-row",
        study="observer",
        title="one corrupted message blocks check-before-delivery",
        story="m is valid. x was corrupted on its way: r is a million, c a million less, so that r + c is small.",
        printed=(
            "m looks through the queue, finds x with the smaller timestamp, and takes its time of delivery,"
            " a million ticks away. (The paper calls the exact rule stabilising; check-before-delivery is"
            " not.)"
        ),
        ours=(
            "Timestamps that no correct process can have made are refused with a reason, and nothing waits"
            " longer than δ + 2ε + 1."
        ),
        by_paper=bad_row_paper,
        by_us=bad_row_ours,
    ),
)
