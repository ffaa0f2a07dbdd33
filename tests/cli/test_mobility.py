"""`antecast mobility gtfs` as a user meets it."""

import json
import subprocess
import sys
import zipfile

import pytest

from antecast.cli import main
from antecast.traces import read

TABLES = {
    "agency": "agency_name,agency_url,agency_timezone\nLines,http://x,Europe/Paris\n",
    "routes": "route_id,route_short_name,route_type\nR,1,3\nT,2,0\n",
    "calendar_dates": "service_id,date,exception_type\nS,20260321,1\nS,20260322,1\nW,20260322,1\n",
    "stops": "stop_id,stop_lat,stop_lon\nA,48.00,7.0\nB,48.01,7.0\nC,48.02,7.0\n",
    "trips": "route_id,service_id,trip_id,block_id\nR,S,out,7\nR,S,back,7\nT,S,tram,\nR,W,more,7\n",
    "stop_times": (
        "trip_id,stop_sequence,stop_id,arrival_time,departure_time\n"
        "out,1,A,08:00:00,08:00:00\nout,2,C,08:10:00,08:10:00\n"
        "back,1,C,08:20:00,08:20:00\nback,2,A,08:30:00,08:30:00\n"
        "tram,1,A,08:00:00,08:00:00\ntram,2,C,08:05:00,08:05:00\n"
        "more,1,A,09:00:00,09:00:00\nmore,2,C,09:05:00,09:05:00\n"
    ),
}


@pytest.fixture
def town(tmp_path):
    path = tmp_path / "town.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in TABLES.items():
            file.writestr(f"{name}.txt", text)
    return path


@pytest.fixture
def gtfs(tmp_path, monkeypatch, capsys):
    """The command, called in this process for speed: what it would exit with, print and complain of."""

    def call(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["antecast", "mobility", "gtfs", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(sys.argv, ended.value.code or 0, said.out, said.err)

    return call


def test_the_command_is_there(town, tmp_path):
    command = [sys.executable, "-m", "antecast", "mobility", "gtfs", "town.zip", "--date", "2026-03-21", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trips"] == 3


def test_a_day_of_buses_becomes_a_file_and_a_summary(gtfs, town, tmp_path):
    done = gtfs("town.zip", "--date", "2026-03-21", "--route-type", "bus")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "2 routes (1 bus, 1 tram), 4 trips, 3 stops, 8 stop times, 0 shape points" in said
    assert "trips 2, 0 of them without block_id" in said
    assert "vehicles 1: 1 blocks (at most 1 at once) and 0 chains" in said
    assert "time 08:00:00 to 08:30:00" in said and "trajectories: town-2026-03-21.parquet" in said
    assert "note: trips without a shape, in straight lines from stop to stop: 2" in done.stderr
    trace = read(tmp_path / "town-2026-03-21.parquet")
    assert trace.kind == "movement" and trace.nodes == 1
    assert trace.span == (8 * 3600 * 10**9, 8 * 3600 * 10**9 + 1800 * 10**9)


def test_json_says_the_same(gtfs, town, tmp_path):
    done = gtfs(town, "--date", "20260321", "--json", "-o", "all.parquet")
    summary = json.loads(done.stdout)
    assert summary["vehicles"] == 2 and summary["chains"] == 1 and summary["file"] == "all.parquet"
    assert read(tmp_path / "all.parquet").nodes == 2


def test_a_text_format_can_be_written_too(gtfs, town, tmp_path):
    done = gtfs(town, "--date", "20260321", "--quiet", "-o", "all.csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert read(tmp_path / "all.csv").nodes == 2


@pytest.mark.parametrize(
    ("layover", "seconds"), [("absent", 1200), ("10min", 1800), ("stand", 1800), ("9min", 1200)]
)
def test_layovers_are_spent_as_told(gtfs, town, tmp_path, layover, seconds):
    options = ["--route", "1", "--layover", layover, "-q", "-o", "out.parquet"]
    assert gtfs(town, "--date", "20260321", *options).returncode == 0
    pieces = read(tmp_path / "out.parquet").table.to_pylist()
    assert sum(piece["t1"] - piece["t0"] for piece in pieces) == seconds * 10**9


def test_the_other_options_reach_the_timetable(gtfs, town, tmp_path):
    options = ["--from", "8:05", "--to", "8:25", "--max-layover", "1h", "--terminus-radius", "50", "--overnight"]
    done = gtfs(town, "--date", "20260322", *options, "--json")
    summary = json.loads(done.stdout)
    assert (summary["from"], summary["to"], summary["nodes"]) == ("08:05:00", "08:25:00", 1)


DAYS = "2026-03-21 is the first day with service, 2026-03-22 the last, 2026-03-22 the busiest (4 trips)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], f"error: --date: which day? {DAYS}"),
        (["--date", "2026-03-23"], f"town.zip: no trip runs on 2026-03-23; {DAYS}"),
        (["--date", "21.3.2026"], "--date: no such date as '21.3.2026'; a date is written as 20260321"),
        (["--date", "20260321", "--route-type", "tramm"], "unknown route type 'tramm'; did you mean 'tram'?"),
        (["--date", "20260321", "--route", "9"], "--route: no route has the id or short name '9'"),
        (["--date", "20260321", "--from", "noon"], "--from: no time of day: 'noon'"),
        (["--date", "20260321", "--from", "9:00"], "nothing moves in this window; the day's trips last from 08"),
        (["--date", "20260321", "--layover", "5"], "--layover: expected a duration with its unit"),
        (["--date", "20260321", "--max-layover", "-5s"], "--max-layover: expected a duration of zero or more"),
        (["--date", "20260321", "-o", "no/where.parquet"], "where.parquet: cannot write: No such file"),
        (["--date", "20260321", "-o", "out.txt"], "out.txt does not tell a format"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(gtfs, town, tmp_path, options, words):
    done = gtfs("town.zip", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_fault_in_a_table_names_its_line(gtfs, town, tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as file:
        for name, text in TABLES.items():
            file.writestr(f"{name}.txt", text.replace("08:20:00,08:20:00", "8.20,8.20"))
    done = gtfs("bad.zip", "--date", "20260321")
    assert done.returncode == 2
    assert done.stderr.startswith("error: bad.zip/stop_times.txt:4: arrival_time: no time of day: '8.20'")


def test_a_file_that_exists_is_kept_unless_told(gtfs, town, tmp_path):
    (tmp_path / "town-2026-03-21.parquet").write_text("mine")
    done = gtfs(town, "--date", "20260321")
    assert done.returncode == 2 and "exists already; --force writes over it" in done.stderr
    assert (tmp_path / "town-2026-03-21.parquet").read_text() == "mine"
    assert gtfs(town, "--date", "20260321", "--force").returncode == 0
    assert read(tmp_path / "town-2026-03-21.parquet").nodes == 2
