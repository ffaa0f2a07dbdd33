"""Key-value histories judged by all nine levels: time per step, and memory.

    python -m bench.kv                     200 000 operations, as published checkers are measured
    python -m bench.kv --operations 2e6    more; `--plain` leaves out the text file
    python -m bench.kv --spark --operations 2e7    on Spark, from Parquet, with the memory of its processes

Histories are those of replicas. Half of the transactions only read, from a prefix of one order of transactions
that lags behind by a random amount and never goes back in a session; the others read and write the newest state.
They keep all levels, which is the costly case: nothing ends early. Compiling is reported apart.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.importers import plume
from antecast.importers.source import Source
from antecast.kv import Options, check
from antecast.kv.engine import analyse
from antecast.kv.history import History, Kind
from antecast.kv.resolve import resolve
from bench.table import report

SESSIONS, PER_TXN = 50, 8
LAG = 2000
"""Transactions that a replica is behind at most."""


def replicas(operations: int, sessions: int, keys: int, per_txn: int, seed: int = 1) -> History:
    """A history that keeps all levels."""
    rng = np.random.default_rng(seed)
    n_txn = operations // per_txn
    n = n_txn * per_txn
    session = rng.integers(0, sessions, n_txn).astype(np.int32)
    key = rng.integers(0, keys, n).astype(np.int32)
    reads_only = rng.random(n_txn) < 0.5
    share = 0.75 if per_txn > 1 else 1.0
    kind = ((rng.random(n) < share) & ~np.repeat(reads_only, per_txn)).astype(np.int8)
    counts = np.bincount(key[kind == Kind.WRITE], minlength=keys)
    at = np.concatenate(([0], np.cumsum(counts)))
    value = np.empty(n, np.int64)
    _play(session, key, kind, per_txn, np.where(reads_only, rng.integers(0, LAG, n_txn), 0), at, value, sessions)
    txn = np.repeat(np.arange(n_txn, dtype=np.int32), per_txn)
    zeros = np.zeros(n, np.int32)
    line = np.arange(1, n + 1)
    names = np.arange(max(keys, sessions))
    statuses = np.zeros(n_txn, np.int8)
    return History(txn, kind, key, value, line, zeros, session, statuses, names[:keys], None, names[:sessions])


@compiled
def _play(
    session: NDArray[np.int32],
    key: NDArray[np.int32],
    kind: NDArray[np.int8],
    per_txn: int,
    lag: NDArray[np.int64],
    at: NDArray[np.int64],
    value: NDArray[np.int64],
    sessions: int,
) -> None:
    """Transaction by transaction; writes of a key in `version`, with the transaction that made each."""
    version, made = np.empty(at[-1], np.int64), np.empty(at[-1], np.int64)
    end = at[:-1].copy()
    view = np.full(sessions, -1, np.int64)
    for t in range(len(session)):
        s = session[t]
        view[s] = max(view[s], t - 1 - lag[t])
        for op in range(t * per_txn, (t + 1) * per_txn):
            k = key[op]
            if kind[op] == 1:
                value[op] = op
                version[end[k]], made[end[k]] = op, t
                end[k] += 1
            else:
                left, right = at[k], end[k]
                if right > left and made[right - 1] == t:
                    value[op] = version[right - 1]
                    continue
                while left < right:
                    middle = (left + right) // 2
                    if made[middle] <= view[s]:
                        left = middle + 1
                    else:
                        right = middle
                value[op] = -1 if left == at[k] else version[left - 1]
        if lag[t] == 0:
            view[s] = t  # its own writes, and so all before them


def write_text(history: History, path: Path) -> None:
    session = history.session[history.txn]
    with path.open("w") as out:
        for kind, key, value, s, t in zip(
            history.kind, history.key, history.value, session, history.txn, strict=True
        ):
            out.write(f"{'rw'[kind]}({key},{value + 1},{s},{t})\n")


def write_parquet(operations: int, folder: Path) -> None:
    """A history as Spark reads it, in files of a million operations."""
    history = replicas(operations, SESSIONS, max(1000, operations // 40), PER_TXN)
    order = np.argsort(history.session, kind="stable")
    place = np.empty(len(order), np.int32)
    counts = np.bincount(history.session, minlength=SESSIONS)
    place[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, len(history), 1_000_000)):
        some = slice(first, first + 1_000_000)
        txn = history.txn[some]
        rows = {
            "session": history.session[txn],
            "txn": place[txn],
            "pos": np.arange(len(txn), dtype=np.int32),
            "kind": pa.array(["r", "w"]).take(pa.array(history.kind[some])),
            "key": history.key[some],
            "value": history.value[some],
        }
        pq.write_table(pa.table(rows), folder / f"{number:04}.parquet")


def on_spark(operations: int) -> None:
    """Judge a history on Spark, in as many sizes as show how memory grows."""
    from antecast.spark.kv import check as check_on_spark
    from antecast.spark.session import spark_session
    from bench.processes import watched

    rows = []
    with spark_session("bench kv") as spark, tempfile.TemporaryDirectory() as root:
        for size in sorted({200_000, operations // 4, operations // 2, operations}):
            folder = Path(root) / str(size)
            command = [sys.executable, "-m", "bench.kv", "--operations", str(size), "--write", str(folder)]
            subprocess.run(command, check=True)  # elsewhere, so that this process has nothing of it
            begin = time.perf_counter()
            with watched() as peak:
                verdict = check_on_spark(spark.read.parquet(str(folder)), initial=-1)
            assert verdict.outcome == "kept", verdict
            seconds = round(time.perf_counter() - begin, 1)
            megabytes = {name: round(value) for name, value in peak.items()}
            rows.append({"operations": size, "transactions": verdict.transactions, "seconds": seconds} | megabytes)
            shutil.rmtree(folder)
    note = "memory includes pages of the files that all processes share; the first size includes loading kernels"
    report("kv", "Key-value histories on Spark, all nine levels", rows, note=note, part="spark")


def measured(call: object, *arguments: object) -> tuple[float, object]:
    begin = time.process_time()
    result = call(*arguments)  # type: ignore[operator]
    return time.process_time() - begin, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=float, default=2e5)
    parser.add_argument("--plain", action="store_true", help="leave out the text file and its reader")
    parser.add_argument("--spark", action="store_true", help="judge on Spark")
    parser.add_argument("--write", type=Path, help="only write a history as Parquet")
    chosen = parser.parse_args()
    operations = int(chosen.operations)
    if chosen.write is not None:
        write_parquet(operations, chosen.write)
        return
    if chosen.spark:
        on_spark(operations)
        return
    warm, _ = measured(_warm)
    rows: list[dict[str, object]] = []
    shapes = [(50, 5000, 8), (50, 5000, 1), (100, 1000, 20)]
    for sessions, keys, per_txn in shapes if operations <= 1e6 else shapes[:1]:
        history = replicas(operations, sessions, keys, per_txn)
        read = 0.0
        if not chosen.plain:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "history.txt"
                write_text(history, path)
                read, history = measured(plume.read, Source((path,)))  # type: ignore[assignment]
        found, resolved = measured(resolve, history)
        without, _ = measured(partial(analyse, memory=False), resolved)
        whole, verdict = measured(check, history, Options())
        assert verdict.outcome == "kept", verdict  # type: ignore[attr-defined]
        rows.append(
            {
                "operations": len(history),
                "sessions": sessions,
                "per transaction": per_txn,
                "read text (s)": round(read, 2),
                "who wrote (s)": round(found, 2),
                "CCv and below (s)": round(without, 2),
                "check, with CM (s)": round(whole, 2),
                "all (CPU s)": round(read + whole, 2),
                "peak (MiB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    note = f"CPU seconds of one process; compiling or loading compiled code took {warm:.1f} s before"
    report("kv", "Key-value histories, all nine levels", rows, note=note)


def _warm() -> None:
    for per_txn in (1, 4):
        check(replicas(400, 4, 20, per_txn))


if __name__ == "__main__":
    main()
