"""The causal order of a large run, judged while its log is written: a sink that keeps no rows.

A message needs all that its source had delivered when it was broadcast. That is a bit for each message, noted
then; at every delivery those bits are compared with what has been delivered there. A node may broadcast once.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.history.log import Sink
from antecast.history.schema import Kind

_BROADCAST, _DELIVER = int(Kind.BROADCAST), int(Kind.DELIVER)
_DELIVERIES, _EARLY, _TWICE, _MADE = range(4)


class OrderSink:
    """Judges the events it is given, and hands them to another sink."""

    def __init__(self, nodes: int, messages: int, then: Sink) -> None:
        words = (messages + 63) // 64
        self._needs = np.zeros((messages, words), np.uint64)
        self._delivered = np.zeros((nodes, words), np.uint64)
        self._number = np.full(nodes, -1, np.int64)
        self._tally = np.zeros(4, np.int64)
        self._then = then
        self.cpu = 0.0
        """Seconds that judging took."""

    def write(self, batch: pa.RecordBatch) -> None:
        begun = time.process_time()
        kinds = batch["kind"].indices.to_numpy()
        rows = np.flatnonzero((kinds == _BROADCAST) | (kinds == _DELIVER))
        node, origin = (batch[name].fill_null(-1).to_numpy()[rows] for name in ("node", "origin"))
        _follow(kinds[rows], node, origin, self._needs, self._delivered, self._number, self._tally)
        self.cpu += time.process_time() - begun
        self._then.write(batch)

    def close(self) -> None:
        self._then.close()

    def abandon(self) -> None:
        self._then.abandon()

    @property
    def verdict(self) -> str:
        """In words; the engine of a run that was not causal is at fault."""
        deliveries, early, twice, made = self._tally.tolist()
        if not deliveries:
            return "nothing delivered"
        missed = made * len(self._delivered) - deliveries + twice
        outcome = "violated" if early or twice else "causal"
        return f"{outcome}, {early:,} early" + (f", {twice:,} twice" if twice else "") + f", {missed:,} missed"


@compiled
def _follow(
    kinds: NDArray[np.int32],
    node: NDArray[np.int32],
    origin: NDArray[np.int32],
    needs: NDArray[np.uint64],
    delivered: NDArray[np.uint64],
    number: NDArray[np.int64],
    tally: NDArray[np.int64],
) -> None:
    one, none = np.uint64(1), np.uint64(0)
    for row in range(len(kinds)):
        p = node[row]
        if kinds[row] == _BROADCAST:
            m = tally[_MADE]
            tally[_MADE] += 1
            number[p] = m
            for word in range(needs.shape[1]):
                needs[m, word] = delivered[p, word]
            continue
        m = number[origin[row]]
        tally[_DELIVERIES] += 1
        missing = none
        for word in range(needs.shape[1]):
            missing |= needs[m, word] & ~delivered[p, word]
        tally[_EARLY] += missing != none
        bit = one << np.uint64(m & 63)
        tally[_TWICE] += (delivered[p, m >> 6] & bit) != none
        delivered[p, m >> 6] |= bit
