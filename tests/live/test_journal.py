"""The journal: whose it is, what it survives, and what it says when it cannot be used."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from journals import open_journal

from antecast.live import faults
from antecast.live.calls import Call, CallKind
from antecast.live.entries import Commit, Delivery, JournalError
from antecast.live.journal import Journal


def group(number: int) -> Commit:
    """A broadcast and its delivery."""
    call = Call(CallKind.BROADCAST, number, -1, b"payload %d" % number)
    return Commit([call], [Delivery(number, 0, number, number, b"payload %d" % number)])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.journal"


def filled(path: Path, groups: int = 3, durability: str = "normal") -> Journal:
    journal = open_journal(path, durability=durability)
    for number in range(1, groups + 1):
        journal.commit(group(number))
    return journal


def calls_of(journal: Journal) -> list[bytes]:
    return [call.data for _, call in journal.calls(journal.recovered())]


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_what_was_committed_is_there_after_a_crash(path, durability):
    filled(path, durability=durability).close()  # no snapshot: as a crash leaves it
    again = open_journal(path, durability=durability)
    assert calls_of(again) == [b"payload 1", b"payload 2", b"payload 3"]
    assert [each.number for each in again.deliveries(1)] == [2, 3]
    assert (again.position, again.delivered) == (3, 3)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"number": 4}, "belongs to node 0 with vector, not to node 4 with vector"),
        ({"group": "other"}, "belongs to node 0 with vector, not to node 0 of group 'other' with vector"),
        ({"protocol": "fifo"}, "not to node 0 with fifo"),
        ({"settings": {}}, "a node keeps its settings for life"),
    ],
)
def test_a_journal_of_another_node_is_refused(path, changes, problem):
    filled(path).close()
    with pytest.raises(JournalError) as refused:
        open_journal(path, **changes)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_second_process_is_refused(path):
    journal = filled(path)
    with pytest.raises(JournalError, match="in use by another process"):
        open_journal(path)
    code = f"""
import sys; sys.path[:0] = {[str(Path(__file__).parent)]!r}
from pathlib import Path
from journals import open_journal
from antecast.live.entries import JournalError
try: open_journal(Path({str(path)!r}))
except JournalError as error: print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "in use by another process" in done.stdout
    journal.close()
    open_journal(path).close()


def test_what_is_no_journal_is_refused(path):
    path.write_text("hello, I am a text file, and longer than a header of SQLite; " * 20)
    with pytest.raises(JournalError, match="file is not a database"):
        open_journal(path)
    path.unlink()
    sqlite3.connect(path).execute("create table meta (key text primary key, value)").connection.close()
    with pytest.raises(JournalError, match="not a journal of Antecast"):
        open_journal(path)


def test_a_journal_of_a_later_format_is_refused(path):
    filled(path).close()
    edit(path, "update meta set value = 99 where key = 'format'")
    with pytest.raises(JournalError, match="format 99; this version reads format 1"):
        open_journal(path)


def edit(path: Path, statement: str) -> None:
    with sqlite3.connect(path, isolation_level=None) as db:
        db.execute(statement)
    db.close()


def test_a_damaged_group_whose_effects_have_left_is_refused(path):
    filled(path).close()
    edit(path, "update groups set calls = zeroblob(length(calls)) where first = 2")
    with pytest.raises(JournalError, match="the calls after 1 are damaged, so the state of the node is lost"):
        open_journal(path)


def test_a_damaged_end_of_which_nothing_has_left_is_cut_off_with_a_note(path):
    journal = filled(path, 2)
    journal._mark.write = lambda *_: None  # killed after the commit, before the mark
    journal.commit(group(3))
    journal.close()
    edit(path, "update groups set calls = zeroblob(length(calls)) where first = 3")
    again = open_journal(path)
    assert again.notes == ["a torn end was cut off after call 2; nothing of it had left the node"]
    assert (again.position, [each.number for each in again.deliveries(0)]) == (2, [1, 2])
    again.commit(group(3))
    assert again.position == 3


def test_the_same_damage_after_the_machine_went_down_is_not_cut_off(path):
    """The mark is not synced: after a power cut it may be older than what has left."""
    journal = filled(path, 2, "full")
    journal._mark.write = lambda *_: None
    journal.commit(group(3))
    journal.close()
    edit(path, "update groups set calls = zeroblob(length(calls)) where first = 3")
    edit(path, """update meta set value = '{"boot": "another", "durability": "full"}' where key = 'open'""")
    with pytest.raises(JournalError, match="state of the node is lost"):
        open_journal(path, durability="full")


def test_a_journal_that_lost_its_end_is_refused(path):
    """SQLite drops what is torn in its write-ahead log, silently; the mark knows better."""
    journal = filled(path)
    torn = path.with_name("torn.journal")
    for suffix in ("", "-wal", ".mark"):  # as a kill leaves them
        shutil.copy(path.with_name(path.name + suffix), torn.with_name(torn.name + suffix))
    with torn.with_name("torn.journal-wal").open("r+b") as wal:
        wal.truncate(wal.seek(0, os.SEEK_END) - 100)
    journal.close()
    with pytest.raises(JournalError, match="ends at call 2, but effects of call 3 may have left the node"):
        open_journal(torn)


def test_an_older_copy_is_refused(path):
    filled(path, 2).close()
    old = path.read_bytes()
    journal = open_journal(path)
    journal.commit(group(3))
    journal.close()
    path.write_bytes(old)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with pytest.raises(JournalError, match="its end is lost, or it is an older copy"):
        open_journal(path)


def test_a_damaged_delivery_is_noticed(path):
    journal = filled(path)
    edit(path, "update deliveries set payload = x'00' where number = 2")
    with pytest.raises(JournalError, match="delivery 2 is damaged"):
        journal.deliveries(0)


def test_a_damaged_snapshot_is_noticed(path):
    journal = filled(path)
    journal.close(state=b"state", now=5, events=0)
    edit(path, "update snapshots set state = x'00'")
    with pytest.raises(JournalError, match="the snapshot after call 3 is damaged"):
        open_journal(path)


def test_a_damaged_page_is_noticed(path):
    journal = filled(path, 200)
    journal.close(state=b"state" * 3000, now=5, events=0)
    data = bytearray(path.read_bytes())
    place = data.index(b"state" * 100)
    data[place + 300 : place + 400] = os.urandom(100)
    path.write_bytes(data)
    with pytest.raises(JournalError, match=r"damaged|not a readable journal"):
        open_journal(path)


def test_a_page_that_is_lost_where_only_history_lies_is_noticed_at_the_start(path):
    journal = filled(path)
    journal.snapshot(b"older" * 4000, now=3, events=0, exact=True)
    journal.commit(group(4))
    journal.close(state=b"newer", now=5, events=0)
    data = bytearray(path.read_bytes())
    page = data.index(b"older" * 800) // 4096 * 4096 + 4096
    assert data[page + 4 : page + 4000].strip(b"older") == b""  # the middle of a chain of pages
    data[page : page + 4] = bytes(4)
    path.write_bytes(data)
    with pytest.raises(JournalError, match="not a readable journal"):
        open_journal(path)


def test_deliveries_stay_until_they_are_acknowledged(path):
    journal = filled(path)
    journal.acknowledge(2)
    journal.close()
    again = open_journal(path)
    assert [each.number for each in again.deliveries(0)] == [3]
    assert (again.acknowledged, again.delivered) == (2, 3)
    again.acknowledge(3)
    again.close()
    assert open_journal(path).delivered == 3  # numbers go on


def test_a_snapshot_cuts_the_journal_and_keeps_a_stretch_of_history(path):
    journal = filled(path)
    for number in range(4, 9):
        journal.snapshot(b"after %d" % journal.position, now=number, events=number, exact=False, history=37)
        journal.commit(group(number))
    assert journal.snapshots() == [(5, False), (6, False), (7, False)]
    assert calls_of(journal) == [b"payload 8"]
    assert journal.oldest() == 5
    assert [call.data for _, call in journal.calls(journal.recovered(5))] == [b"payload %d" % n for n in (6, 7, 8)]


def test_a_journal_stays_small_whatever_passes_through_it(path):
    journal, sizes = filled(path), []
    for number in range(4, 400):
        journal.commit(Commit([Call(CallKind.BROADCAST, number, -1, bytes(2000))]))
        if number % 20 == 0:
            journal.snapshot(b"state", now=number, events=number, exact=False, history=1000)
            journal.acknowledge(3)
            sizes.append(path.stat().st_size)
    assert max(sizes[4:]) <= 2 * sizes[3] + 200_000


def test_a_node_that_is_started_again_and_again_does_not_grow_its_journal(path):
    """Each start has a call and a snapshot, and the snapshot may be large."""
    journal, sizes = filled(path), []
    for number in range(4, 60):
        journal.commit(group(number))
        journal.acknowledge(number)
        journal.snapshot(bytes(20_000), now=number, events=number, exact=False, history=100_000)
        sizes.append(path.stat().st_size)
    assert len(journal.snapshots()) == 6
    assert max(sizes) < 400_000


def test_after_a_crash_with_durability_none_the_number_is_lost(path):
    filled(path, durability="none").close()
    with pytest.raises(JournalError, match="ran with durability none and did not stop cleanly"):
        open_journal(path)


def test_durability_none_survives_a_clean_stop(path):
    journal = filled(path, durability="none")
    journal.acknowledge(1)
    journal.close(state=b"state", now=7, events=2)
    again = open_journal(path, durability="none")
    start = again.recovered()
    assert (start.state, start.position, start.now, start.delivered) == (b"state", 3, 7, 3)
    assert [each.number for each in again.deliveries(1)] == [2, 3]
    again.commit(group(4))
    assert [each.number for each in again.deliveries(1)] == [2, 3, 4]
    assert [each.number for each in again.deliveries(3)] == [4]


def test_after_the_machine_went_down_with_durability_normal_the_number_is_lost(path):
    filled(path).close()
    with sqlite3.connect(path) as db:
        opened = json.loads(db.execute("select value from meta where key = 'open'").fetchone()[0])
        db.execute("update meta set value = ? where key = 'open'", (json.dumps({**opened, "boot": "other"}),))
    with pytest.raises(JournalError, match="the machine went down while its node ran with durability normal"):
        open_journal(path)


def test_an_upgrade_goes_over_a_clean_stop(path):
    filled(path).close(state=b"state", now=5, events=0)
    again = open_journal(path, code="2")
    assert again.notes == ["the code has changed since it was written; older history was dropped"]
    assert again.recovered().state == b"state"
    again.close()


def test_a_tail_that_only_old_code_can_replay_says_how_to_get_there(path):
    filled(path).close()
    with pytest.raises(
        JournalError, match=r"its last 3 calls can only be replayed by .*: .*antecast node --compact"
    ):
        open_journal(path, code="2")
    assert open_journal(path, code="1").position == 3


def test_an_exact_snapshot_needs_its_code_too(path):
    journal = filled(path)
    journal.snapshot(b"frozen", now=4, events=0, exact=True)
    journal.close()
    with pytest.raises(JournalError, match="can only be replayed by"):
        open_journal(path, code="2")


def test_killed_while_it_is_created_it_is_created_again(path, monkeypatch):
    class Killed(BaseException):
        pass

    def die(point):
        raise Killed

    monkeypatch.setattr(faults, "armed", die)
    with pytest.raises(Killed):
        open_journal(path)
    monkeypatch.setattr(faults, "armed", None)
    assert filled(path).position == 3


def test_the_file_is_nobody_elses_business(path):
    filled(path)
    assert path.stat().st_mode & 0o077 == 0


def test_a_full_disk_is_one_line(path):
    journal = filled(path)
    journal._db.execute("pragma max_page_count = 1")
    with pytest.raises(JournalError, match="cannot write: database or disk is full"):
        journal.commit(Commit([Call(CallKind.BROADCAST, 4, -1, bytes(1 << 20))]))


def test_a_disk_that_is_full_at_a_clean_stop_is_one_line_as_well(path):
    journal = filled(path)
    journal._db.set_authorizer(
        lambda action, table, *_: (action, table) == (sqlite3.SQLITE_DELETE, "meta")  # 1 denies, 0 allows
    )
    with pytest.raises(JournalError, match="cannot write"):
        journal.close(state=b"state", now=4)
    again = open_journal(path)
    assert (again.position, again.recovered().state) == (3, b"state")


def test_a_start_for_which_the_disk_is_too_full_costs_nobody_the_number(path, monkeypatch):
    filled(path, durability="none").close(state=b"state")

    def refuse(journal, key, value):
        if key != "open":
            raise sqlite3.OperationalError("database or disk is full")
        set_meta(journal, key, value)

    set_meta = Journal._set_meta
    monkeypatch.setattr(Journal, "_set_meta", refuse)
    with pytest.raises(JournalError, match="the disk is full"):
        open_journal(path, durability="none")
    monkeypatch.undo()
    assert open_journal(path, durability="none").recovered().state == b"state"


def test_after_a_group_that_could_not_be_written_comes_no_snapshot_of_what_was_called_later(path):
    """It would hold the deliveries of that group as made, and nobody would ever see them."""
    journal = filled(path)
    journal._db.execute("pragma max_page_count = 1")
    with pytest.raises(JournalError, match="disk is full"):
        journal.commit(Commit([Call(CallKind.BROADCAST, 4, -1, bytes(1 << 20))]))
    journal._db.execute("pragma max_page_count = 1000000")  # somebody has made room
    with pytest.raises(JournalError, match="cannot write: what was called before could not be written"):
        journal.snapshot(b"after 4", now=5, events=0, exact=True)
    with pytest.raises(JournalError, match="what was called before"):
        journal.commit(group(5))
    journal.close()
    again = open_journal(path)
    assert (again.position, again.delivered, again.snapshots()) == (3, 3, [])


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_second_name_is_no_second_journal(path, link):
    journal = filled(path)
    other = path.with_name("other.journal")
    link(path, other)
    with pytest.raises(JournalError, match="in use by another process"):
        open_journal(other)
    journal.close()
    if link is os.symlink:
        again = open_journal(other)
        assert not again.notes
        again.close()


@pytest.mark.parametrize("name", [":memory:", "file:a?mode=memory#b", "50% of äöü?"])
def test_a_journal_is_a_file_whatever_it_is_called(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    filled(Path(name)).close()
    again = open_journal(Path(name))
    assert len(calls_of(again)) == 3
    again.close()
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{name}.mark"}


@pytest.fixture
def read_only(monkeypatch):
    """A folder to which nothing can be written: SQLite opens no journal there in the usual way."""

    def open_there(name, *, uri, connect=sqlite3.connect, **more):
        if not uri:
            raise sqlite3.OperationalError("unable to open database file")
        return connect(name, uri=uri, **more)

    def begin():
        monkeypatch.setattr("antecast.live.journal_file.sqlite3.connect", open_there)
        monkeypatch.setattr("antecast.live.journal_file.os.access", lambda *_: False)

    return begin


def test_a_backup_to_which_nothing_can_be_written_is_read(tmp_path, read_only):
    path = tmp_path / "50% of #1?"
    journal = filled(path)
    journal.close(state=b"state")
    read_only()
    looked_at = Journal.look(path)
    assert (looked_at.position, len(looked_at.deliveries(0))) == (3, 3)
    looked_at.close()


def test_a_backup_of_a_killed_node_to_which_nothing_can_be_written_says_what_to_do(path, read_only):
    journal = filled(path)
    read_only()
    with pytest.raises(JournalError, match=r"last calls are in .*-wal, .* copy both somewhere else"):
        Journal.look(path)
    journal.close()


@pytest.mark.parametrize("checkpointed", [True, False])
def test_a_journal_that_was_torn_from_its_node_without_its_mark_is_refused(path, checkpointed):
    """The last calls, or all of them, are in SQLite's log beside it."""
    journal = filled(path)
    if checkpointed:
        journal._db.execute("pragma wal_checkpoint")
    alone = path.with_name("alone.journal")
    shutil.copy(path, alone)
    journal.close()
    with pytest.raises(JournalError, match=r"missing.*bring alone\.journal\.mark and alone\.journal-wal along"):
        open_journal(alone)


def test_a_database_of_something_else_is_left_as_it_is(path):
    with sqlite3.connect(path) as db:
        db.execute("create table lines (words text)")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="not a journal of Antecast"):
        open_journal(path)
    assert path.read_bytes() == before


def test_a_journal_that_was_closed_may_be_moved_without_its_mark(path):
    filled(path).close(state=b"snapshot")
    path.with_name(f"{path.name}.mark").unlink()
    journal = open_journal(path)
    assert journal.notes == ["its mark is missing; whether it is an older copy cannot be told"]
    journal.close()


@pytest.mark.parametrize("place", ["folder", "missing/file"])
def test_a_place_that_cannot_hold_a_journal_is_one_line(tmp_path, place):
    (tmp_path / "folder").mkdir()
    with pytest.raises(JournalError, match="cannot open"):
        open_journal(tmp_path / place)
