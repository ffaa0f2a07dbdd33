"""The compiled loops of `model`.

The random draws are those of `streams`, whose mixer stands here once more, inline, wherever a draw is made:
kernels cannot call each other. A test compares the traffic with one made by `streams.Stream` itself.
"""

from __future__ import annotations

import numpy as np

from antecast.core.compiled import compiled
from antecast.observer import UNKNOWN
from antecast.observer.policy import Longs

LOST = -1
"""The arrival of a message that did not reach the observer."""


@compiled
def count_pairs(source: Longs, seq: Longs, vector: Longs, rows: Longs) -> int:
    """Pairs (m, m') with m' → m and m' delivered after m, for the rows m."""
    pairs = 0
    for row in rows:
        for later in range(row + 1, len(source)):
            if vector[row, source[later]] >= seq[later]:
                pairs += 1
    return pairs


@compiled
def simulate(
    nodes: int,
    epsilon: int,
    delta: int,
    rate: float,
    messages: int,
    width: int,
    table: Longs,
    by_steps: bool,
    keys: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> tuple[Longs, Longs, Longs, Longs, Longs, Longs, Longs, Longs, Longs, Longs]:
    """Columns of all messages: source, seq, r, c, kn, counter, before, arrived, order of arrival, vector."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    first, second = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
    low = np.uint64(0xFFFFFFFF)
    clock = np.zeros(nodes + 1, np.int64)
    latest = np.zeros(nodes, np.int64)
    counts = np.zeros((nodes, width), np.int64)
    counters = np.zeros(nodes, np.int64)
    before = np.full(nodes, UNKNOWN, np.int64)
    vectors = np.zeros((nodes, nodes), np.int64)
    m_source = np.zeros(messages, np.int64)
    m_seq = np.zeros(messages, np.int64)
    m_r = np.zeros(messages, np.int64)
    m_c = np.zeros(messages, np.int64)
    m_kn = np.zeros((messages, width), np.int64)
    m_counter = np.zeros(messages, np.int64)
    m_before = np.zeros(messages, np.int64)
    m_arrived = np.full(messages, -1, np.int64)
    m_rank = np.zeros(messages, np.int64)
    m_vector = np.zeros((messages, nodes), np.int64)
    # Copies on their way: a ring of lists for each sender's clock, and one for the steps. Copy (m, d) has the
    # number m·(nodes + 1) + d; what follows it in its lists stands in `after` (by clock) and `after_step`.
    copies = messages * (nodes + 1)
    units = len(table) - 2
    ring = delta + 1
    head = np.full((nodes, ring), -1, np.int64)
    tail = np.full((nodes, ring), -1, np.int64)
    after = np.full(copies, -1, np.int64)
    steps_ring = units + 1 if by_steps else 1
    step_head = np.full(steps_ring, -1, np.int64)
    step_tail = np.full(steps_ring, -1, np.int64)
    after_step = np.full(copies if by_steps else 1, -1, np.int64)
    here = np.zeros(copies, np.bool_)
    arriving = np.zeros(copies, np.int64)
    sent = 0
    received = 0
    moving = 0
    step = 0
    choices = np.uint64(0)
    tosses = np.uint64(0)
    slowest = 0
    at_slowest = nodes + 1
    while sent < messages or moving > 0:
        step += 1
        while True:
            choices += np.uint64(1)
            z = keys[0] + choices * golden
            z = (z ^ (z >> np.uint64(30))) * first
            z = (z ^ (z >> np.uint64(27))) * second
            z = z ^ (z >> np.uint64(31))
            n = np.uint64(nodes + 1)
            high = ((z >> np.uint64(32)) * n + (((z & low) * n) >> np.uint64(32))) >> np.uint64(32)
            chosen = np.int64(high)
            if clock[chosen] + 1 - slowest <= epsilon:
                break
        if clock[chosen] == slowest:
            at_slowest -= 1
        clock[chosen] += 1
        if at_slowest == 0:
            slowest = clock.min()
            at_slowest = np.sum(clock == slowest)
        # What arrives now: by the steps that have passed, and by the clock of the process that moved.
        coming = 0
        if by_steps:
            slot = step % steps_ring
            copy = step_head[slot]
            while copy >= 0:
                if not here[copy]:
                    here[copy] = True
                    arriving[coming] = copy
                    coming += 1
                copy = after_step[copy]
            step_head[slot] = step_tail[slot] = -1
        if chosen < nodes:
            slot = clock[chosen] % ring
            copy = head[chosen, slot]
            while copy >= 0:
                if not here[copy]:
                    here[copy] = True
                    arriving[coming] = copy
                    coming += 1
                copy = after[copy]
            head[chosen, slot] = tail[chosen, slot] = -1
        # Two rounds: arrivals; then, if one is sent, the copies of it that take no time.
        for phase in range(2):
            for index in range(coming):
                copy = arriving[index]
                moving -= 1
                m, d = copy // (nodes + 1), copy % (nodes + 1)
                if d == nodes:
                    m_arrived[m] = clock[nodes]
                    m_rank[m] = received
                    received += 1
                    continue
                now = clock[d]
                m_latest = m_r[m] + m_c[m]
                top = max(latest[d], now)
                counter = counters[d] + 1 if top == latest[d] else 0
                if m_latest > top:
                    counter = m_counter[m] + 1
                elif m_latest == top:
                    counter = max(counter, m_counter[m] + 1)
                top = max(top, m_latest)
                ours, theirs = top - latest[d], top - m_latest
                for i in range(width - 1, -1, -1):
                    count = counts[d, i - ours] if i >= ours else 0
                    counts[d, i] = max(count, m_kn[m, i - theirs] if i >= theirs else 0)
                if top - now < width:
                    counts[d, top - now] += 1
                latest[d] = top
                counters[d] = counter
                before[d] = max(before[d], m_before[m], m_r[m])
                for j in range(nodes):
                    vectors[d, j] = max(vectors[d, j], m_vector[m, j])
            coming = 0
            if phase == 1 or chosen == nodes or sent == messages:
                break
            tosses += np.uint64(1)
            z = keys[1] + tosses * golden
            z = (z ^ (z >> np.uint64(30))) * first
            z = (z ^ (z >> np.uint64(27))) * second
            z = z ^ (z >> np.uint64(31))
            if (np.float64(z >> np.uint64(11)) + 0.5) * 2.0**-53 >= rate:
                break
            p, now = chosen, clock[chosen]
            top = max(latest[p], now)
            counters[p] = counters[p] + 1 if top == latest[p] else 0
            ours = top - latest[p]
            if ours > 0:
                for i in range(width - 1, -1, -1):
                    counts[p, i] = counts[p, i - ours] if i >= ours else 0
            if top - now < width:
                counts[p, top - now] += 1
            latest[p] = top
            vectors[p, p] += 1
            m = sent
            sent += 1
            m_source[m], m_seq[m], m_r[m], m_c[m] = p, vectors[p, p], now, top - now
            m_kn[m], m_counter[m], m_before[m], m_vector[m] = counts[p], counters[p], before[p], vectors[p]
            before[p] = max(before[p], now)
            z = keys[2] + np.uint64(m + 1) * golden
            z = (z ^ (z >> np.uint64(30))) * first
            z = (z ^ (z >> np.uint64(27))) * second
            of_message = z ^ (z >> np.uint64(31))
            for d in range(nodes + 1):
                if d == p:
                    continue
                z = of_message + np.uint64(d + 1) * golden
                z = (z ^ (z >> np.uint64(30))) * first
                z = (z ^ (z >> np.uint64(27))) * second
                key = z ^ (z >> np.uint64(31))
                draw = np.int64(-1)
                tries = np.uint64(0)
                while draw < table[0]:
                    tries += np.uint64(1)
                    z = key + tries * golden
                    z = (z ^ (z >> np.uint64(30))) * first
                    z = (z ^ (z >> np.uint64(27))) * second
                    draw = np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(11))
                if draw >= table[units + 1]:
                    continue  # lost
                delay = int(np.searchsorted(table, draw, side="right")) - 1
                copy = m * (nodes + 1) + d
                moving += 1
                if delay == 0:
                    here[copy] = True
                    arriving[coming] = copy
                    coming += 1
                    continue
                if by_steps:
                    slot = (step + delay) % steps_ring
                    if step_tail[slot] < 0:
                        step_head[slot] = copy
                    else:
                        after_step[step_tail[slot]] = copy
                    step_tail[slot] = copy
                slot = (now + (delta if by_steps else delay)) % ring
                if tail[p, slot] < 0:
                    head[p, slot] = copy
                else:
                    after[tail[p, slot]] = copy
                tail[p, slot] = copy
    return m_source, m_seq, m_r, m_c, m_kn, m_counter, m_before, m_arrived, m_rank, m_vector
