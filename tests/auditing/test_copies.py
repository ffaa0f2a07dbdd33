"""Logs that are rotated by copying them and truncating the file (`copytruncate`), while they are followed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sound_logs import CHAT, chat, clock_events, govector, put

from antecast.auditing.follow import Follower
from antecast.auditing.foreign import Request
from antecast.core.errors import InputError

EVENTS = clock_events()
ROWS = [chat([row]) for row in CHAT]
LOGS = {"app.jsonl": ROWS, "app.log": [govector([event]) for event in EVENTS]}


def append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text)


def truncate(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.truncate(0)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("whole_folder", [True, False])
@pytest.mark.parametrize("looks", ["at the copy", "behind it"])
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("name", LOGS)
def test_every_line_counts_once_wherever_the_copy_is_made(
    name: str, restarts: bool, looks: str, whole_folder: bool, logs: Path, tmp_path: Path
) -> None:
    """The copy has all that was read, and perhaps lines that were not."""
    records, file = LOGS[name], logs / name
    lines = sum(record.count("\n") for record in records)
    for cut in range(2, min(len(records), 9)):
        for unread in (0, 1):
            for each in (*logs.iterdir(), tmp_path / "state"):
                each.unlink(missing_ok=True)

            def begun() -> Follower:
                state = tmp_path / "state" if restarts else None
                return Follower([logs if whole_folder else file], Request(), state=state)

            file.write_text("".join(records[: cut - unread]), encoding="utf-8")
            follower = begun()
            assert follower.poll() == []
            append(file, "".join(records[cut - unread : cut]))
            shutil.copy(file, logs / f"old-{name}" if whole_folder else logs / f"{name}.1")
            if looks == "at the copy":
                assert follower.poll() == []
            truncate(file)
            if restarts:
                follower = begun()
            append(file, "".join(records[cut:]))
            assert follower.poll() == [] and follower.poll() == []
            assert follower.result().seen == lines and follower.result().outcome == "sound", (cut, unread)


def test_a_violation_between_a_copy_and_what_followed_it_is_found_at_its_line(logs: Path) -> None:
    file = put(logs, govector(EVENTS[:10]), "app.log")
    follower = Follower([logs], Request())
    follower.poll()
    shutil.copy(file, logs / "app.log.1")
    truncate(file)
    append(file, govector([*EVENTS[10:20], EVENTS[4]]))
    (found,) = follower.poll()
    assert (found.kind, found.file, found.line) == ("counted twice", str(file), 21)
    assert "app.log.1:9" in found.words


def test_a_file_that_was_written_anew_under_its_name_goes_on(logs: Path) -> None:
    """As editors and synchronisation do: another file, with the same lines and more."""
    file = put(logs, govector(EVENTS[:10]), "app.log")
    follower = Follower([file], Request())
    follower.poll()
    put(logs, govector(EVENTS[:20]), "new").replace(file)
    assert follower.poll() == [] and follower.result().seen == 40


def test_a_backup_is_passed_over_for_as_long_as_it_holds_nothing_else(logs: Path) -> None:
    file = put(logs, govector(EVENTS[:10]), "app.log")
    shutil.copy(file, logs / "backup.log")
    follower = Follower([logs], Request())
    append(file, govector(EVENTS[10:12]))
    assert follower.poll() == [] and follower.result().seen == 24
    append(logs / "backup.log", govector(EVENTS[10:11]))
    assert follower.poll() == [] and follower.result().seen == 24
    append(logs / "backup.log", govector(EVENTS[12:13]))  # the two have parted
    assert {found.kind for found in follower.poll()} == {"counted twice"}


def test_tables_that_have_their_header_in_common_are_no_copies(logs: Path) -> None:
    header = "node,pos,kind,origin,seq\n"
    rows = ["a,0,broadcast,a,0\n", "b,0,deliver,a,0\n"]
    files = [put(logs, header, f"{name}.csv") for name in "ab"]
    follower = Follower([logs], Request())
    for file, row in zip(files, rows, strict=True):
        follower.poll()
        append(file, row)
    assert follower.poll() == [] and follower.result().seen == 4
    truncate(files[0])
    assert follower.poll() == [] and follower.result().outcome == "sound"


def test_a_table_is_no_copy_of_another_in_a_folder_of_its_own(logs: Path) -> None:
    for name in "ab":
        (logs / name).mkdir()
        put(logs / name, "".join(ROWS[:1]), "app.jsonl")
    with pytest.raises(InputError, match=r"a second time") as told:
        Follower([logs], Request()).poll()
    assert str(told.value).startswith(str(logs))


def test_what_was_not_read_of_a_file_that_was_truncated_is_said(logs: Path) -> None:
    file = put(logs, govector(EVENTS[:10]) + "half of a line", "app.log")
    follower = Follower([file], Request())
    follower.poll()
    truncate(file)
    append(file, govector(EVENTS[10:]))
    assert follower.poll() == [] and follower.result().outcome == "inconclusive"
    assert "app.log was truncated, and 14 bytes of it were not read" in str(follower.result())


def test_a_table_that_contradicts_itself_is_told_in_its_own_files_and_lines(logs: Path) -> None:
    put(logs, "\n" + ROWS[0], "a.jsonl")
    put(logs, ROWS[1] + ROWS[2] + chat([{**CHAT[1], "pos": 0}]), "b.jsonl")
    with pytest.raises(InputError) as told:
        Follower([logs], Request()).poll()
    assert told.value.line == 3 and f"(the other is {logs / 'a.jsonl'}:2)" in str(told.value)


def test_a_stream_of_lines_reads_the_rest_of_a_truncated_file_in_its_copy(logs: Path) -> None:
    lines = pytest.importorskip("antecast.spark.sources.lines")
    reader = lines.LinesReader(lines.LinesSource({"paths": str(logs)}).schema(), {"paths": [str(logs)]})
    file, offset, texts = put(logs, "one\n", "app.log"), reader.initialOffset(), []
    for step in range(4):
        if step == 1:
            append(file, "two\n")
            shutil.copy(file, logs / "app.log.1")
        if step == 2:
            truncate(file)
            append(file, "three\n")
        end = reader.newest() if step == 0 else reader.latestOffset(offset, lines.ReadLimit())
        for partition in reader.partitions(offset, end):
            texts += [row["text"] for batch in reader.read(partition) for row in batch.to_pylist()]
        offset = end
    assert texts == [b"one\n", b"two\n", b"three\n"]
