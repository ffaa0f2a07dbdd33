"""`antecast convert` as a user meets it: one line of result, notes and errors on standard error."""

import gzip
import json
import os
from pathlib import Path

import pytest
from commands import antecast

DATA = Path(__file__).parents[2].parent / "shared" / "data"
ONE = "0 CONN 0 1 up\n1 CONN 1 0 up\n2 CONN 0 1 down\n5 CONN 1 0 down\n7 CONN 0 2 down\n"
WALK = "0 create 0 0 0 0\n0 setdest 0 5 5 0 1 10\n10 destroy 0\n"


def assert_one_line_of_error(done, *words):
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "trace.txt").write_text(ONE)
    (tmp_path / "walk.txt").write_text(WALK)
    return tmp_path


def test_a_trace_is_converted_and_summed_up_in_a_line(folder):
    done = antecast("convert", "trace.txt", "trace.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "one to csv: 2 nodes, 1 contacts, 0 s to 5 s: trace.csv\n"
    assert done.stderr.splitlines() == [
        "note: trace.txt: 1 nested up joined",
        "note: trace.txt: 1 down without an up ignored",
    ]
    assert (folder / "trace.csv").read_text() == "a,b,start,end\n0,1,0,5\n"


def test_times_that_count_from_1970_are_shown_in_full(folder):
    (folder / "epoch.txt").write_text("1353304120 CONN 0 1 up\n1353304200 CONN 0 1 down\n")
    done = antecast("convert", "epoch.txt", "epoch.csv", cwd=folder)
    assert done.stdout == "one to csv: 2 nodes, 1 contacts, 1353304120 s to 1353304200 s: epoch.csv\n"


def test_the_summary_is_had_as_json(folder):
    done = antecast("convert", "walk.txt", "walk.movements.gz", "--json", cwd=folder)
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "source": "walk.txt",
        "target": "walk.movements.gz",
        "from": "walkers",
        "to": "bonnmotion",
        "kind": "movement",
        "nodes": 1,
        "segments": 1,
        "start": 0.0,
        "end": 10.0,
        "notes": [],
    }
    assert gzip.decompress((folder / "walk.movements.gz").read_bytes()) == b"0 0.0 0.0 10 5.0 5.0\n"


def test_formats_and_their_options_can_be_said(folder):
    (folder / "list").write_text("1 2 300\n1 2 600\n")
    arguments = ["--from", "sociopatterns", "--to", "imote", "--set", "interval=5min", "--set", "order=ijt"]
    done = antecast("convert", "list", "out.dat", *arguments, "--quiet", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "out.dat").read_text() == "1\t2\t0\t600\t1\t0\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent", "x.csv"], ["absent: cannot read: No such file"]),
        (["trace.txt", "x.txt"], ["--to: x.txt does not tell a format"]),
        (["trace.txt", "x", "--to", "two"], ["--to: unknown format 'two'; known are one, one-movement, ns2"]),
        (["trace.txt", "x.csv", "--from", "two"], ["--from: unknown format 'two'"]),
        (["walk.txt", "x.imote"], ["imote holds contacts, and this is movement", "`antecast contacts`"]),
        (["trace.txt", "x.tcl"], ["ns2 holds movement, and this is contacts"]),
        (["trace.txt", "x.csv", "--set", "step"], ["--set: expected OPTION=VALUE, got 'step'"]),
        (["trace.txt", "x.csv", "--set", "step=1s"], ["step: unknown option 'step'; csv takes no options"]),
        (["walk.txt", "x.one", "--set", "step=soon"], ["step: expected a duration with its unit"]),
        (["trace.txt", "x.csv", "--from", "imote"], ['trace.txt:1: expected a number, got "up"']),
        (["trace.txt", "nowhere/x.csv"], ["nowhere/x.csv: cannot write: No such file or directory"]),
        (["trace.txt", "walk.txt", "--to", "csv"], ["walk.txt: exists already; --force writes over it"]),
    ],
)
def test_what_cannot_be_done_is_one_line(folder, arguments, words):
    before = sorted(path.name for path in folder.iterdir())
    assert_one_line_of_error(antecast("convert", *arguments, cwd=folder), *words)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (folder / "walk.txt").read_text() == WALK


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ["bad: an empty file"]),
        (b"0 CONN 0 1 up\n12.3 CON 1 2 up\n", ['bad:2: expected "time CONN a b up|down", got "12.3 CON 1 2 up"']),
        (b"\x7fELF\x02\x01\x01\x00\x00", ["bad:1: a binary file, not text"]),
        (gzip.compress(ONE.encode() * 100, mtime=0)[:40], ["bad: the gzip data is damaged or cut short"]),
        (b"0 CONN 0 1 up\n0 CONN 0 \xff up\n", ["bad:2: not UTF-8 text"]),
        (b"Dear all,\n", ["bad: ", "--from"]),
    ],
)
def test_bad_input_is_one_line(folder, data, words):
    (folder / "bad").write_bytes(data)
    assert_one_line_of_error(antecast("convert", "bad", "out.csv", cwd=folder), *words)


def test_force_writes_over_a_file(folder):
    assert antecast("convert", "trace.txt", "walk.txt", "--to", "csv", "--force", cwd=folder).returncode == 0
    assert (folder / "walk.txt").read_text().startswith("a,b,start,end\n")


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="needs /dev/full")
def test_a_full_device_is_one_line(folder):
    (folder / ".out.csv.partial").symlink_to("/dev/full")
    done = antecast("convert", "trace.txt", "out.csv", cwd=folder)
    assert_one_line_of_error(done, "out.csv: cannot write: No space left on device")
    assert not (folder / "out.csv").exists()


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")
def test_the_shared_traces_are_converted_with_their_figures(tmp_path):
    done = antecast("convert", DATA / "contacts" / "sbrc_2019.one.txt", "sbrc.parquet", cwd=tmp_path)
    assert done.stdout == "one to parquet: 356 nodes, 24,787 contacts, 0 s to 200494 s: sbrc.parquet\n"
    done = antecast("convert", DATA / "mobility" / "ostermalm_003_sample.tr.gz", "walk.walkers", cwd=tmp_path)
    assert done.stdout == "ns2 to walkers: 100 nodes, 70,491 segments, 3.6 s to 900.6 s: walk.walkers\n"
