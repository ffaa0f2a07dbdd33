"""Logs of other systems on Spark: the same rows, the same verdicts, streams of lines that are added."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import antecast
from antecast.api import audit_files
from antecast.auditing.follow import Follower
from antecast.auditing.foreign import Request
from antecast.core.errors import InputError
from antecast.history.rows import BrokenLog
from antecast.spark.follow import follow_on_spark

pytestmark = pytest.mark.spark

CLOCKS = ['a {"a": 1}\nsend\n', 'b {"a": 1, "b": 1}\nreceive\n', 'a {"a": 2}\nsend\n']


def test_a_history_in_several_files_gets_the_verdict_of_one_process(spark: Any, tmp_path: Path) -> None:
    one, two = tmp_path / "1.txt", tmp_path / "2.txt"
    one.write_text("r(7,0,2,9)\nw(1,1,1,1)\nw(1,2,1,2)\nr(1,2,2,1)\n")
    two.write_text("r(1,1,2,2)\nr(7,0,2,3)\n")
    here, there = (audit_files([one, two], engine=engine).verdict for engine in ("local", "spark"))
    assert here.levels == there.levels and here.counts == there.counts == {"conflict-CO": 1}
    assert f"{two}:1" in str(there.witness)
    rows = spark.read.format("antecast.foreign").load(str(tmp_path)).orderBy("pos").collect()
    assert [(row["line"], row["kind"], row["initial"]) for row in rows][:2] == [
        (1, "read", True),
        (2, "write", False),
    ]
    two.write_text("r(1,1,2,2)\nr(7,0,2,\n")
    with pytest.raises(InputError, match=r"2\.txt:2: "):
        audit_files([one, two], Request(format="plume"), engine="spark")


def test_a_frame_may_have_every_type_that_a_table_may_have(spark: Any) -> None:
    table = pa.table(
        {
            "who": pa.array([{"host": 1.0}, {"host": 2.0}, {"host": 2.0}]),
            "pos": pa.array([1, 1, 2], pa.timestamp("us")),
            "kind": ["broadcast", "deliver", "deliver"],
            "message": ["m", "m", "m"],
        }
    )
    names = {"node": "who.host"}
    here, there = (antecast.audit(log, columns=names) for log in (table, spark.createDataFrame(table)))
    assert str(here) == str(there) and here.violations.to_pylist() == there.violations.to_pylist()
    broken = spark.createDataFrame(
        [(1.5, 1, "broadcast", "m")], "node double, pos long, kind string, message string"
    )
    with pytest.raises(BrokenLog, match=r"node is 1\.5, which is not a whole number"):
        antecast.audit(broken)


@pytest.mark.jvm("following needs a Spark whose driver is here, and says so")
def test_a_stream_of_lines_is_judged_over_rotation_and_a_restart(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    file, state = folder / "app.log", tmp_path / "state"
    file.write_text(CLOCKS[0])
    said: list[tuple[str, str | None, int | None]] = []

    def rotate() -> None:
        while follower.result().seen < 2:
            time.sleep(0.02)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(CLOCKS[1])
        file.rename(folder / "app.log.1")
        file.write_text(CLOCKS[2] + CLOCKS[1])

    def say(found: Any) -> None:
        said.extend((each.kind, each.file, each.line) for each in found)

    follower = Follower([folder], Request(), state=state)
    rotation = threading.Thread(target=rotate, daemon=True)
    rotation.start()
    follow_on_spark(follower, say, spark=spark, until_idle=3)
    rotation.join(10)
    assert said == [("counted twice", str(file), 3)] and follower.result().seen == 8
    again = Follower([folder], Request(), state=state)
    follow_on_spark(again, say, spark=spark, until_idle=2)
    assert len(said) == 1 and (again.result().seen, again.result().violations) == (8, 1)
