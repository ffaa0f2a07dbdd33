"""Compiled kernels of contact detection, and the exact arithmetic behind them.

`cut` lays pieces of movement into the cells of a grid, `sweep` compares the pieces that share a cell and a
moment, `join` makes one interval of those that touch. They are plain typed Python over arrays; Numba compiles
them when they are first called.

Why `sweep` is exact although it computes in doubles: the square of the distance of two nodes, less that of the
range, is a convex parabola f(t), evaluated with an error below a bound E that follows from the sizes of its
terms (at most eight roundings of 2⁻⁵³ in a coordinate). A sign is believed only if |f| > E. An instant found by
the usual formula and rounded to a nanosecond n is believed only if f has the two signs it must have at n − ½ and
n + ½, so how the formula was rounded does not matter. What is not certain, one instant in thousands, is returned
as doubtful and solved by `exact_interval` in whole numbers. So every instant is the true one, rounded to the
nearest nanosecond, on every machine and however the work was divided.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, isqrt, sqrt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled

Longs: TypeAlias = NDArray[np.int64]
Doubles: TypeAlias = NDArray[np.float64]
Motion: TypeAlias = tuple[int, float, float, int, float, float]
"""t0, x0, y0, t1, x1, y1 of a straight piece of movement."""


@compiled
def cut(
    t0: Longs,
    x0: Doubles,
    y0: Doubles,
    t1: Longs,
    x1: Doubles,
    y1: Doubles,
    low: int,
    high: int,
    reach: float,
    cell: float,
    west: int,
    south: int,
    side: int,
) -> Longs:
    """Pieces by cell, within the times [low, high) and the square of `side` cells from (west, south).

    A piece travels the side of a cell at the most, so that a fast node meets few cells it does not cross, and
    one that stands is one piece for as long as it stands. A piece lies in all cells that its bounding box
    touches when widened by half the range: two nodes in range then share the cell of the point half way
    between them. Rows: cell, from, until, segment, x and y of the piece's lowest cell.
    """
    rows = np.empty((0, 6), np.int64)
    for filling in range(2):
        count = 0
        for i in range(len(t0)):
            begin, end = max(t0[i], low), min(t1[i], high)
            if begin >= end:
                continue
            span = float(t1[i] - t0[i])
            dx, dy = x1[i] - x0[i], y1[i] - y0[i]
            pieces = max(1, ceil(sqrt(dx * dx + dy * dy) * (float(end - begin) / span) / cell))
            around = reach / 2 + 1e-9 * (reach + max(abs(x0[i]), abs(x1[i]), abs(y0[i]), abs(y1[i])))
            until = begin
            for piece in range(pieces):
                since = until
                until = end if piece == pieces - 1 else begin + int(float(end - begin) * ((piece + 1) / pieces))
                if since == until:
                    continue
                u, v = float(since - t0[i]) / span, float(until - t0[i]) / span
                xa, xb = x0[i] + dx * u, x0[i] + dx * v
                ya, yb = y0[i] + dy * u, y0[i] + dy * v
                left, right = floor((min(xa, xb) - around) / cell), floor((max(xa, xb) + around) / cell)
                bottom, top = floor((min(ya, yb) - around) / cell), floor((max(ya, yb) + around) / cell)
                for cx in range(max(left, west), min(right, west + side - 1) + 1):
                    for cy in range(max(bottom, south), min(top, south + side - 1) + 1):
                        if filling:
                            rows[count, 0] = (cx << 32) + cy
                            rows[count, 1] = since
                            rows[count, 2] = until
                            rows[count, 3] = i
                            rows[count, 4] = left
                            rows[count, 5] = bottom
                        count += 1
        if not filling:
            rows = np.empty((count, 6), np.int64)
    return rows


@compiled
def sweep(
    rows: Longs,
    node: Longs,
    t0: Longs,
    x0: Doubles,
    y0: Doubles,
    t1: Longs,
    x1: Doubles,
    y1: Doubles,
    reach: float,
) -> tuple[Longs, Longs, int]:
    """The intervals in which nodes are in range, the doubtful ones, and how many pairs of pieces were compared.

    `rows` are those of `cut`, by cell and time. In a cell each piece is compared with those that begin before it
    ends; a pair that shares several cells is compared in the lowest. Intervals are rows of node, node, start,
    end, smaller node first; doubtful ones of segment, segment, from, until.
    """
    found = np.empty((1024, 4), np.int64)
    doubtful = np.empty((16, 4), np.int64)
    finds, doubts, compared = 0, 0, 0
    square = reach * reach

    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            if rows[j, 0] != rows[i, 0] or rows[j, 1] >= rows[i, 2]:
                break
            p, q = rows[i, 3], rows[j, 3]
            if (
                node[p] == node[q]
                or (max(rows[i, 4], rows[j, 4]) << 32) + max(rows[i, 5], rows[j, 5]) != rows[i, 0]
            ):
                continue
            compared += 1
            s, e = rows[j, 1], min(rows[i, 2], rows[j, 2])
            ox, px, qx = x0[p] - x0[q], x1[p] - x0[p], x1[q] - x0[q]
            oy, py, qy = y0[p] - y0[q], y1[p] - y0[p], y1[q] - y0[q]
            wide, high = abs(ox) + abs(px) + abs(qx), abs(oy) + abs(py) + abs(qy)
            least = 1e-29 * (wide * wide + high * high)

            # The distance at both ends, as vectors, and f there.
            u, v = float(s - t0[p]) / float(t1[p] - t0[p]), float(s - t0[q]) / float(t1[q] - t0[q])
            sx, sy = ox + px * u - qx * v, oy + py * u - qy * v
            u, v = float(e - t0[p]) / float(t1[p] - t0[p]), float(e - t0[q]) / float(t1[q] - t0[q])
            ex, ey = ox + px * u - qx * v, oy + py * u - qy * v
            at_s, at_e = sx * sx + sy * sy - square, ex * ex + ey * ey - square
            error_s = 2e-15 * (abs(sx) * wide + abs(sy) * high + sx * sx + sy * sy + square) + least
            error_e = 2e-15 * (abs(ex) * wide + abs(ey) * high + ex * ex + ey * ey + square) + least
            start, end = s, e
            sure = abs(at_s) > error_s and abs(at_e) > error_e
            if not (sure and at_s < 0.0 and at_e < 0.0):
                # f = a τ² + 2 b τ + c, with τ from 0 at s to 1 at e.
                mx, my = ex - sx, ey - sy
                a, b = mx * mx + my * my, sx * mx + sy * my
                if sure and at_s > 0.0 and at_e > 0.0:
                    if not -a < b < 0.0:
                        continue  # nearest at one of the ends
                    nearest = at_s - b * b / a
                    if nearest > 4.0 * error_s:
                        continue
                    sure = nearest < -4.0 * error_s
                if sure:
                    root = sqrt(max(0.0, b * b - a * at_s))
                    span = float(e - s)
                    for side in range(2):
                        if side == 0:
                            if at_s < 0.0:
                                continue
                            tau = at_s / (root - b)
                        else:
                            if at_e < 0.0:
                                continue
                            tau = (root - b) / a if b < 0.0 else -at_s / (root + b)
                        n = min(e, max(s, s + floor(tau * span + 0.5)))
                        for step in range(2):
                            if n == (e if step else s):
                                continue  # the interval ends here anyway
                            half = step - 0.5
                            u = (float(n - t0[p]) + half) / float(t1[p] - t0[p])
                            v = (float(n - t0[q]) + half) / float(t1[q] - t0[q])
                            hx, hy = ox + px * u - qx * v, oy + py * u - qy * v
                            at_half = hx * hx + hy * hy - square
                            error = 2e-15 * (abs(hx) * wide + abs(hy) * high + hx * hx + hy * hy + square) + least
                            if step == side:  # before a start and after an end: outside is wanted
                                at_half = -at_half
                            sure = sure and at_half < -error
                        if side == 0:
                            start = n
                        else:
                            end = n
                if not sure:
                    if doubts == len(doubtful):
                        more = np.empty((2 * doubts, 4), np.int64)
                        more[:doubts] = doubtful
                        doubtful = more
                    doubtful[doubts, 0], doubtful[doubts, 1] = p, q
                    doubtful[doubts, 2], doubtful[doubts, 3] = s, e
                    doubts += 1
                    continue
            if start < end:
                if finds == len(found):
                    more = np.empty((2 * finds, 4), np.int64)
                    more[:finds] = found
                    found = more
                found[finds, 0], found[finds, 1] = min(node[p], node[q]), max(node[p], node[q])
                found[finds, 2], found[finds, 3] = start, end
                finds += 1
    return found[:finds], doubtful[:doubts], compared


@compiled
def join(rows: Longs) -> Longs:
    """Intervals of one pair that touch or overlap as one; rows are those of `sweep`, by nodes and start."""
    joined = np.empty_like(rows)
    last = -1
    for i in range(len(rows)):
        same = last >= 0 and joined[last, 0] == rows[i, 0] and joined[last, 1] == rows[i, 1]
        if same and rows[i, 2] <= joined[last, 3]:
            joined[last, 3] = max(joined[last, 3], rows[i, 3])
        else:
            last += 1
            joined[last] = rows[i]
    return joined[: last + 1]


def exact_interval(p: Motion, q: Motion, reach: float, since: int, until: int) -> tuple[int, int] | None:
    """When two nodes are in range between two instants, in whole numbers only; None if never or for no time.

    Doubles are fractions, so A t² + 2 B t + C ≤ 0 has whole coefficients, and the roots are rounded exactly
    by way of the integer square root: floor((X ± √Y) / Z) is floor(floor(X ± √Y) / Z) for whole X, Y and Z > 0.

    >>> exact_interval((0, 0.0, 0.0, 100, 100.0, 0.0), (0, 50.0, 0.0, 100, 50.0, 0.0), 10.0, 0, 100)
    (40, 60)
    """
    (x, vx), (y, vy) = (_difference(p, q, axis) for axis in (1, 2))
    a = vx * vx + vy * vy
    b = x * vx + y * vy
    c = x * x + y * y - Fraction(reach) ** 2
    if a == 0:
        return (since, until) if c <= 0 else None
    scale = a.denominator * b.denominator * c.denominator
    whole_a, whole_b, whole_c = int(a * scale), int(b * scale), int(c * scale)
    discriminant = whole_b * whole_b - whole_a * whole_c
    if discriminant <= 0:
        return None
    # Nearest to (-B ± √D) / A is the floor of (A - 2 B ± √(4 D)) / (2 A).
    middle, below = whole_a - 2 * whole_b, isqrt(4 * discriminant)
    above = below if below * below == 4 * discriminant else below + 1
    start = max(since, (middle - above) // (2 * whole_a))
    end = min(until, (middle + below) // (2 * whole_a))
    return (start, end) if start < end else None


def _difference(p: Motion, q: Motion, axis: int) -> tuple[Fraction, Fraction]:
    """How far p is from q at time 0 along an axis, and how fast that grows."""
    places, speeds = [], []
    for each in (p, q):
        speed = (Fraction(each[axis + 3]) - Fraction(each[axis])) / (each[3] - each[0])
        speeds.append(speed)
        places.append(Fraction(each[axis]) - speed * each[0])
    return places[0] - places[1], speeds[0] - speeds[1]
