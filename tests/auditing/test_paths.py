"""Which files a path means: all of them, once each, or an error."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import antecast
from antecast.auditing.follow import Follower
from antecast.auditing.foreign import Request
from antecast.core.errors import InputError

HEADER = "node,pos,kind,origin,seq\n"
FIRST = "a,0,broadcast,a,1\nb,0,deliver,a,1\nb,1,broadcast,b,1\n"
SECOND = "c,0,deliver,b,1\nc,1,deliver,a,1\n"
CLOCKS = 'a {"a":1}\nx\nb {"b":1, "a":1}\ny\n'


def put(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def put_table(file: Path, text: str) -> None:
    rows = [line.split(",") for line in text.splitlines()]
    columns: dict[str, Any] = dict(zip(HEADER.strip().split(","), zip(*rows, strict=True), strict=True))
    columns |= {name: [int(each) for each in columns[name]] for name in ("pos", "seq")}
    pq.write_table(pa.table(columns), file)


def test_a_table_called_events_does_not_hide_the_others_of_its_folder(tmp_path: Path) -> None:
    put_table(tmp_path / "events.parquet", FIRST)
    put_table(tmp_path / "more.parquet", SECOND)
    assert antecast.audit(tmp_path).outcome == "violated"


def test_a_file_counts_once_whatever_links_lead_to_it(tmp_path: Path) -> None:
    file = put(tmp_path / "logs" / "app.1.log", CLOCKS)
    (tmp_path / "logs" / "current.log").symlink_to("app.1.log")
    os.link(file, tmp_path / "logs" / "kept.log")
    assert antecast.audit(tmp_path / "logs").outcome == "sound"
    assert antecast.audit([file, tmp_path / "logs" / ".." / "logs" / "app.1.log"]).outcome == "sound"
    assert Follower([tmp_path / "logs"], Request()).poll() == []


@pytest.mark.parametrize("name", ["log.csv", "log.txt"])
def test_folders_behind_links_are_part_of_a_folder(name: str, tmp_path: Path) -> None:
    whole = {"log.csv": (HEADER + FIRST, HEADER + SECOND), "log.txt": (CLOCKS, 'c {"c":1, "b":2}\nz\n')}[name]
    put(tmp_path / "logs" / name, whole[0])
    put(tmp_path / "elsewhere" / name, whole[1])
    (tmp_path / "logs" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "logs")
    assert antecast.audit(tmp_path / "logs").outcome == "violated"


@pytest.mark.parametrize("name", ["b.csv", "b.log"])
def test_what_leads_nowhere_or_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    put(tmp_path / "a.csv", HEADER + FIRST) if name == "b.csv" else put(tmp_path / "a.log", CLOCKS)
    (tmp_path / name).symlink_to("gone")
    with pytest.raises(InputError, match=f"{name}: a broken symbolic link, to gone"):
        antecast.audit(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(InputError, match=f"{name}: a pipe or a device"):
            antecast.audit(path)


def test_tables_are_decompressed_by_their_first_bytes(tmp_path: Path) -> None:
    for name in ("LOG.CSV.GZ", "log.csv"):
        file = tmp_path / name
        file.write_bytes(gzip.compress((HEADER + FIRST + SECOND).encode()))
        assert antecast.audit(file).outcome == "violated"
    file.write_text(HEADER + FIRST + SECOND, encoding="utf-16")
    with pytest.raises(InputError, match=":1: the file is UTF-16; UTF-8 is expected"):
        antecast.audit(file)


def test_files_that_are_no_tables_are_named(tmp_path: Path, antecast: Any) -> None:
    put(tmp_path / "logs" / "a.csv", HEADER + FIRST)
    put(tmp_path / "logs" / "notes.txt", "some words\n")
    code, _, err = antecast("audit", str(tmp_path / "logs"))
    assert code == 0 and "notes.txt, not a table by name" in err
