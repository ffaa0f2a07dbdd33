"""Sorting in place for kernels that allocate nothing: by insertion while that is quick, as a heap beyond."""

from __future__ import annotations

from antecast.core.compiled import part
from antecast.sim.compiled.draws import Whole
from antecast.sim.compiled.queue import Longs

_FEW = 24


@part
def sort(numbers: Longs, count: Whole) -> None:
    """Sort the first entries of an array, so many of them."""
    if count > _FEW:
        for root in range(count // 2 - 1, -1, -1):
            _sift(numbers, root, count)
        for last in range(count - 1, 0, -1):
            numbers[0], numbers[last] = numbers[last], numbers[0]
            _sift(numbers, 0, last)
        return
    for each in range(1, count):
        number, at = numbers[each], each
        while at > 0 and numbers[at - 1] > number:
            numbers[at] = numbers[at - 1]
            at -= 1
        numbers[at] = number


@part
def _sift(numbers: Longs, root: Whole, count: Whole) -> None:
    """Let a number sink to its place in a heap with the greatest on top."""
    number = numbers[root]
    while True:
        child = 2 * root + 1
        if child >= count:
            break
        if child + 1 < count and numbers[child + 1] > numbers[child]:
            child += 1
        if numbers[child] <= number:
            break
        numbers[root] = numbers[child]
        root = child
    numbers[root] = number


@part
def sort_pairs(pairs: Longs, count: Whole) -> None:
    """Sort the first rows of an array of two columns by the first one, so many of them."""
    for root in range(count // 2 - 1, -1, -1):
        _sift_pairs(pairs, root, count)
    for last in range(count - 1, 0, -1):
        pairs[0, 0], pairs[last, 0] = pairs[last, 0], pairs[0, 0]
        pairs[0, 1], pairs[last, 1] = pairs[last, 1], pairs[0, 1]
        _sift_pairs(pairs, 0, last)


@part
def _sift_pairs(pairs: Longs, root: Whole, count: Whole) -> None:
    key, value = pairs[root, 0], pairs[root, 1]
    while True:
        child = 2 * root + 1
        if child >= count:
            break
        if child + 1 < count and pairs[child + 1, 0] > pairs[child, 0]:
            child += 1
        if pairs[child, 0] <= key:
            break
        pairs[root, 0], pairs[root, 1] = pairs[child, 0], pairs[child, 1]
        root = child
    pairs[root, 0], pairs[root, 1] = key, value
