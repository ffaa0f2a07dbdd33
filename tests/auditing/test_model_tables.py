"""Tables in files that are judged by the model that is asked for, and what exports write, audited again."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sound_logs import SPANS, clock_events, govector, otlp, put, shifted

import antecast
from antecast.api import audit_files
from antecast.auditing.foreign import Request
from antecast.core.errors import InputError

EVENTS = clock_events()
LISTS = """{:type :ok, :f :txn, :process 0, :value [[:append 1 1] [:r 2 []]]}
{:type :ok, :f :txn, :process 1, :value [[:r 1 [1]] [:append 1 2]]}
{:type :ok, :f :txn, :process 2, :value [[:r 1 [1 2]]]}
{:type :ok, :f :txn, :process 2, :value [[:r 1 [1]]]}
"""
RUNS = f"=== a ===\n{govector(EVENTS[:10])}=== b ===\n{govector([*EVENTS, EVENTS[3]])}"
LOGS: dict[str, tuple[str, dict[str, Any]]] = {
    "clocks": (govector([*EVENTS, EVENTS[3]]), {}),
    "executions": (RUNS, {"delimiter": "^=== (?<trace>.*) ===$"}),
    "spans": (otlp(shifted(SPANS, "c3", 100_000)), {}),
    "registers": ("r(1,0,2,1)\nw(1,1,1,1)\nr(1,1,2,2)\nr(1,0,2,3)\nr(2,0,1,2)\n", {}),
    "lists": (LISTS, {}),
}


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("name", LOGS)
def test_a_table_that_was_exported_gets_the_same_verdict(name: str, form: Any, tmp_path: Path) -> None:
    text, options = LOGS[name]
    done = audit_files([put(tmp_path, text)], Request(**options))
    assert done.verdict.outcome == "violated"
    again = audit_files([done.export(form, tmp_path / f"again.{form}")], Request(format=form, model=done.model))
    assert str(again.verdict).splitlines()[0] == done.headline
    places = [
        {(row["file"], row["line"]) for row in each.verdict.violations.to_pylist()} for each in (done, again)
    ]
    assert places[0] == places[1]


def test_a_table_that_cannot_be_what_it_is_asked_to_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'session'"):
        antecast.audit(put(tmp_path, "a,b\n1,2\n", "x.csv"), model="kv")
    with pytest.raises(InputError, match=r"x\.csv: no row in it"):
        antecast.audit(put(tmp_path, "session,txn,kind,key,value\n", "x.csv"), model="kv")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        antecast.audit(put(tmp_path, "PAR1", "x.parquet"), model="kv")
    mapped = put(tmp_path, "who,txn,kind,key,value\n1,1,w,x,1\n2,1,r,x,1\n", "y.csv")
    assert antecast.audit(mapped, model="kv", columns={"session": "who"}).outcome == "kept"


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_tables_may_be_compressed_and_are_not_read_in_part(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"log.csv{suffix}"
    packed = PACKERS[suffix](b"node,pos,kind,origin,seq\na,0,broadcast,a,1\nb,0,deliver,a,1\n")
    file.write_bytes(packed)
    assert antecast.audit(tmp_path).outcome == "causal"
    file.write_bytes(packed[:-7])
    with pytest.raises(InputError, match="cut short or damaged"):
        antecast.audit(file)


def test_names_inside_of_structures_may_lie_in_many_row_groups(tmp_path: Path) -> None:
    who = [{"host": "a", "at": 0}, {"host": "b", "at": 0}, {"host": "b", "at": 1}]
    table = pa.table({"who": who, "kind": ["broadcast", "deliver", "deliver"], "message": ["m", "m", "m"]})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=1)
    verdict = antecast.audit(tmp_path, columns={"node": "who.host", "pos": "who.at", "message": "message"})
    assert verdict.violations["problem"].to_pylist() == ["duplicate"]
