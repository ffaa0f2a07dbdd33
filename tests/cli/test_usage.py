"""The command line as such: help at any width, mistakes in one line, output for pipes, completion, interrupts."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import antecast as antecast_package
from antecast.cli.app import app
from antecast.cli.tables import Column, show_columns
from antecast.cli.usage import explain_usage
from antecast.core.settings import read_settings


def _paths(command, path=""):
    yield path.strip()
    for name, each in getattr(command, "commands", {}).items():
        yield from _paths(each, f"{path} {name}")


COMMANDS = list(_paths(typer.main.get_command(app)))
"""Every command, as it is called; the first is `antecast` itself."""


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_the_window_and_cuts_nothing(antecast, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, err = antecast(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= columns
    assert not re.search(r"[a-z,]\.\.\.$", out, re.MULTILINE), "a sentence was cut"
    assert not re.search(r" <[a-z]|x[<>]=", out), "a value is named as the parser names it"
    if not command:
        for name in filter(None, COMMANDS):
            assert re.search(rf"^  {name.split()[0]} ", out, re.MULTILINE)


def test_the_help_of_observe_begins_with_what_matters_and_groups_the_rest(antecast):
    _, out, _ = antecast("observe", "--help")
    headings = re.findall(r"^(\w[\w ]+):$", out, re.MULTILINE)
    assert headings == [
        *("Arguments", "Options", "How long rows wait", "What rows carry", "Late and silent"),
        *("Where rows come from", "Spark", "Output"),
    ]
    first = out.partition("Options:")[2].partition("How long rows wait:")[0]
    names = re.findall(r"^  (?:-\w, )?(--\w+)", first, re.MULTILINE)
    assert names == ["--epsilon", "--delta", "--batch", "--checkpoint", "--follow", "--key", "--help"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "error: missing argument SCENARIO.toml; see antecast run --help"),
        (["fly"], "error: no such command fly; see antecast --help"),
        (["rnu"], "error: no such command rnu (did you mean 'run'?); see antecast --help"),
        (
            ["run", "x", "--engin", "y"],
            "error: no such option: --engin (did you mean --engine?); see antecast run",
        ),
        (["generate", "city-bus"], "error: missing option --out; see antecast generate city-bus --help"),
        (["run", "x.toml", "--sideways"], "error: no such option: --sideways; see antecast run --help"),
        (["run", "x.toml", "y.toml"], "error: got unexpected extra argument(s) (y.toml); see antecast run --help"),
        (["run", "x.toml", "--seed"], "error: option --seed requires an argument"),
        (["run", "x.toml", "--seed", "x"], "error: --seed: expected a whole number, got 'x'"),
        (["compare", "x.toml", "--seeds", "0"], "error: --seeds: expected at least 1, got '0'"),
        (["audit", "x", "--master", ""], "error: --master: is empty; name a master, such as local[*]"),
        (["check", "vector", "--master", " "], "error: --master: is empty; name a master, such as local[*]"),
        (["audit", "x", "--engine", "foo"], "error: --engine: 'foo' is not one of 'auto', 'spark', 'local'"),
    ],
)
def test_wrong_usage_is_one_line(antecast, arguments, words):
    code, out, err = antecast(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(words) and err.count("\n") == 1


def test_no_command_shows_what_there_is(antecast):
    code, out, err = antecast()
    assert (code, out) == (2, "") and "Choose a protocol:" in err


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"network": {"loss": 50}}, "expected a share from 0 to 1, got 50"),
        ({"nodes": 0}, "expected a whole number from 1 to 10,000,000, got 0"),
        ({"nodes": "many"}, "expected a whole number, got text 'many'"),
        (
            {"workload": [{"kind": "poisson", "rate": -1}]},
            "expected a number above 0 and up to 1,000,000,000, got -1",
        ),
        (
            {"workload": [{"kind": "poisson", "rate": float("inf")}]},
            "workload[0].rate: expected a finite number, got inf",
        ),
        (
            {"workload": [{"kind": "periodic", "every": 0}]},
            "every is 0s; expected some time between two broadcasts",
        ),
        (
            {"faults": [{"kind": "churn", "uptime": 0, "downtime": 0}]},
            "uptime and downtime are both 0s; time would stand still",
        ),
        (
            {"faults": [{"kind": "leave", "at": "1s", "node": 10**9}]},
            "expected a whole number from 0 to 9,999,999",
        ),
        ({"duration": "1e30s"}, "'1e30s' is too large"),
        ({"duration": "1e999999999s"}, "'1e999999999s' is too large"),
        ({"duration": "1e99999999999999999999s"}, "'1e99999999999999999999s' is too large"),
        ({"network": {"bandwidth": "1e400b/s"}}, "'1e400b/s' is too large"),
        ({"network": {"fifo": 3}}, "expected true or false, got a whole number 3"),
    ],
)
def test_a_wrong_value_is_shown_with_what_would_be_right(values, words):
    from antecast.sim.scenario import Scenario

    with pytest.raises(Exception, match=re.escape(words)):
        read_settings(values, Scenario)


def test_lines_are_not_wrapped_for_a_pipe_and_not_padded(antecast, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    _, out, _ = antecast("protocols")
    lines = out.splitlines()
    assert max(map(len, lines)) > 100, "nothing here was long enough to be wrapped"
    assert [line for line in lines if line != line.rstrip()] == []
    assert all(re.match(r"[a-z-]+: |  (promises|needs|control|memory|work) |N is", line) for line in lines)


def test_a_protocol_is_shown_with_its_settings_gauges_and_reference(antecast):
    code, out, _ = antecast("protocols", "vector", "cellular")
    assert code == 0 and re.findall(r"^([a-z-]+): ", out, re.MULTILINE) == ["vector", "cellular"]
    assert 'retain = 10000, repair = none, patience = "10s"' in out
    assert re.search(r"gauges +clock, .*pending", out) and "station_hosts" in out
    assert "Birman, Schiper and Stephenson" in out
    code, out, err = antecast("protocols", "vektor")
    assert (code, out) == (2, "") and err.startswith("error: NAME: unknown protocol 'vektor'")


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_protocols_are_shown_whole_in_a_narrow_window(antecast, monkeypatch, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    words = sorted(antecast("protocols")[1].split())
    monkeypatch.setenv("COLUMNS", str(columns))
    _, out, _ = antecast("protocols")
    assert max(len(line.rstrip()) for line in out.splitlines()) <= columns
    assert sorted(out.split()) == words


@pytest.mark.parametrize("columns", [30, 45, 60, 200])
def test_a_table_that_is_too_wide_becomes_several_and_loses_no_figure(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    titles = ["name", *(f"figure {number}" for number in range(6)), "remark"]
    rows = [(f"row {i}", *(f"{i}{j}.125 ± 0.5" for j in range(6)), "some words that may wrap") for i in range(3)]
    show_columns([Column(title, right=0 < i < 7, wraps=i == 7) for i, title in enumerate(titles)], rows)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= columns
    for row in rows:
        for cell in row[:7]:
            assert cell in out, "a figure was cut or wrapped"
    parts = out.count("name")
    assert parts == out.count("row 1") and (parts == 1) == (columns == 200)


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_a_story_fits_the_window_and_its_diagram_becomes_a_list(antecast, monkeypatch, columns):
    log = Path(__file__).parents[2] / "examples" / "logs" / "album.edn"
    shutil.copy(log, "album.edn")
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = antecast("audit", "album.edn")[1]
    assert "\nT2 write album=friends @5    |  " in wide
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = antecast("audit", "album.edn")
    assert code == 1
    assert max(map(len, out.splitlines())) <= columns
    assert "\nsession 0: T2 write album=friends @5\nsession 1: T3 read album=friends @8\n" in out
    shown = {word.rstrip(":") for word in out.split()}
    assert {word.rstrip(":") for word in wide.split()} - {"|"} <= shown


def test_brackets_and_colons_are_shown_as_they_are(antecast, monkeypatch):
    """A console that takes them for colours or pictures shows "pip install 'antecast'"."""
    monkeypatch.setattr("antecast.cli.doctor._version", lambda name: None)
    assert antecast("doctor")[1].count("pip install 'antecast[spark]'") == 2
    rows = ["[red],0,broadcast,[red],1", "b,0,deliver,[red],1", "b,1,broadcast,b,1"]
    rows += [":cat:,0,deliver,b,1", ":cat:,1,deliver,[red],1"]
    Path("log.csv").write_text("\n".join(["node,pos,kind,origin,seq", *rows, ""]))
    assert "node :cat: delivered b:1 (position 0) before [red]:1 (position 1)" in antecast("audit", "log.csv")[1]


def test_every_command_that_takes_a_master_takes_settings_of_spark(antecast):
    for command in filter(None, COMMANDS):
        _, out, _ = antecast(*command.split(), "--help")
        assert ("\n  --master" in out) == ("\n  --conf" in out), command


@pytest.mark.parametrize("arguments", [["protocols"], ["audit", "log.csv"]])
def test_a_reader_that_goes_early_gives_no_verdict(tmp_path, arguments):
    """`antecast audit … | head -1` must not end with 1, which means a violation, nor with 0."""
    (tmp_path / "log.csv").write_text("node,pos,kind,origin,seq\na,1,broadcast,a,1\n")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "antecast", *arguments], stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_one_line(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "antecast", "protocols"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (2, "error: output: cannot write: No space left on device\n")


@pytest.mark.parametrize("arguments", [["torture", "vector"], ["reproduce", "vcube"]])
def test_a_folder_that_cannot_be_made_is_one_line(antecast, arguments):
    Path("file").touch()
    code, out, err = antecast(*arguments, "--out", "file/folder")
    assert (code, out) == (2, "")
    assert err == "error: file/folder: cannot create the folder: Not a directory\n"


@pytest.mark.parametrize("command", [("status",), ("replay",), ("audit",), ("node", "-n", "0", "--journal")])
def test_a_name_that_no_file_can_have_is_one_line(antecast, command):
    code, _, said = antecast(*command, "x" * 300)
    assert code == 2
    assert said == f"error: {'x' * 300}: File name too long\n"


@pytest.mark.parametrize("command", [("status",), ("replay",), ("audit",), ("node", "-n", "0", "--journal")])
def test_a_file_in_a_folder_of_somebody_else_is_one_line(antecast, monkeypatch, command):
    """The folder lets nobody look for names in it. Those who run these tests may be let in everywhere."""
    look = os.stat

    def refuse(path, *arguments, **more):
        if str(path) == "theirs/it":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return look(path, *arguments, **more)

    monkeypatch.setattr(os, "stat", refuse)
    code, _, said = antecast(*command, "theirs/it")
    assert code == 2
    assert said.startswith("error: ")
    assert "theirs/it: " in said
    assert said.count("\n") == 1


def test_the_name_of_an_argument_is_spelt_as_in_the_help():
    text = "Invalid value for 'JOURNAL': Path 'it' is not readable."
    assert explain_usage(SimpleNamespace(format_message=lambda: text, __cause__=None)).startswith("JOURNAL: ")


def test_the_status_of_a_folder_is_one_line(antecast):
    assert antecast("status", ".") == (2, "", "error: .: is a folder; name a journal\n")
    Path("ada.chat").mkdir()
    Path("ada.chat/journal").touch()
    assert (
        antecast("status", "ada.chat")[2]
        == "error: ada.chat: is a folder; name a journal, such as ada.chat/journal\n"
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(antecast, shell):
    code, out, _ = antecast("completion", shell)
    assert code == 0 and f"_ANTECAST_COMPLETE=complete_{shell}" in out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("antecast re", ["replay", "report", "reproduce"]),
        ("antecast compare --protocol vector", ["vector", "vector-changes"]),
        ("antecast check vector", ["vector", "vector-changes"]),
        ("antecast torture vector", ["vector", "vector-changes"]),
        ("antecast protocols vector", ["vector", "vector-changes"]),
        ("antecast reproduce v", ["vcube"]),
        ("antecast generate ci", ["city-bus"]),
        ("antecast sweep --no", ["--no-spark", "--no-report"]),
    ],
)
def test_shells_complete_commands_options_and_values(antecast, monkeypatch, line, expected):
    monkeypatch.setenv("_ANTECAST_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    _, out, _ = antecast()
    assert sorted(out.split()) == sorted(expected)


def test_completion_and_help_load_nothing_heavy():
    """A shell asks at every press of a key."""
    code = "import antecast.cli.app, sys; print([m for m in ('numpy', 'pyarrow', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert app.info.name == "antecast"


def test_an_interrupt_while_modules_are_loaded_is_quiet():
    code = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "antecast.cli.run":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
from antecast.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code, "protocols"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_next_to_nothing_is_loaded_before_interrupts_are_quiet():
    code = """
import sys
before = set(sys.modules)
import antecast.cli
print(*sorted(sys.modules.keys() - before))
"""
    found = {"PYTHONPATH": str(Path(antecast_package.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=found)
    assert done.stdout.split() == ["antecast", "antecast.cli", "antecast.version"], done.stderr


def test_an_interrupt_ends_a_check_of_all_protocols_and_its_workers(tmp_path):
    """It waited for every search that had begun, however long."""
    scope = ["--jobs", "2", "--nodes", "3", "--broadcasts", "3", "--crashes", "2"]
    command = [sys.executable, "-m", "antecast", "check", "all", *scope]
    running = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a background job ignores
    )
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    while len(workers := children.read_text().split()) < 2:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    assert (running.communicate(timeout=30)[1], running.returncode) == ("interrupted\n", 130)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_an_interrupt_in_a_command_is_quiet(antecast, monkeypatch):
    from antecast import protocols

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(protocols, "specifications", interrupted)
    assert antecast("protocols") == (130, "", "interrupted\n")
