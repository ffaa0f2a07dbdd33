"""A priority queue for compiled kernels: (time, order) pairs in one array, four children to a parent.

`order` breaks ties as the scheduler does, by the order of scheduling; what it stands for is its user's business.
The pairs of four children fill one line of the processor's cache, so a step down costs one look at memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import allocating_part, part
from antecast.sim.compiled.draws import Whole


@part
def push(heap: NDArray[np.int64], size: Whole, time: Whole, order: Whole) -> Whole:
    """Add a pair; the new size. The array must have room for it."""
    at = size
    while at > 0:
        parent = (at - 1) >> 2
        if heap[parent, 0] < time or (heap[parent, 0] == time and heap[parent, 1] < order):
            break
        heap[at, 0], heap[at, 1] = heap[parent, 0], heap[parent, 1]
        at = parent
    heap[at, 0], heap[at, 1] = time, order
    return size + 1


@part
def pop(heap: NDArray[np.int64], size: Whole) -> Whole:
    """Remove the first pair, `heap[0]`; the new size."""
    size -= 1
    time, order = heap[size, 0], heap[size, 1]
    at = 0
    while True:
        first = 4 * at + 1
        if first >= size:
            break
        least = first
        for other in range(first + 1, min(first + 4, size)):
            if heap[other, 0] < heap[least, 0] or (
                heap[other, 0] == heap[least, 0] and heap[other, 1] < heap[least, 1]
            ):
                least = other
        if time < heap[least, 0] or (time == heap[least, 0] and order < heap[least, 1]):
            break
        heap[at, 0], heap[at, 1] = heap[least, 0], heap[least, 1]
        at = least
    heap[at, 0], heap[at, 1] = time, order
    return size


@allocating_part
def grown(heap: NDArray[np.int64], size: Whole) -> NDArray[np.int64]:
    """The same queue with twice the room."""
    more = np.empty((2 * len(heap), 2), np.int64)
    more[:size] = heap[:size]
    return more
