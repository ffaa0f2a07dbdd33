"""`antecast check`: what it prints, what it writes, how it ends."""

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ENDING = """
from dataclasses import replace

from antecast.protocols import specification


def ends(*arguments):
    raise SystemExit(0)


def make(node, settings):
    made = RELIABLE.make(node, settings)
    made.receive = ends
    return made


RELIABLE = specification("r-broadcast")
SPEC = replace(RELIABLE, name="ending", make=make)
"""


def test_all_that_can_happen_is_seen(antecast):
    code, said, _ = antecast("check", "vector")
    assert code == 0
    assert "exhausted: every promise holds" in said
    assert "probability that a state was missed" in said


def test_a_violation_is_told_drawn_written_and_played_again(antecast, tmp_path):
    code, said, _ = antecast("check", "fifo", "--promise", "causal", "--save-test", "test_it.py")
    assert code == 1
    assert "violated: causal" in said
    assert "deliver 0:1 @2" in said
    file = tmp_path / "fifo.counterexample.json"
    values = json.loads(file.read_text())
    assert (values["property"], len(values["steps"])) == ("causal", 4)
    code, again, _ = antecast("check", "--replay", file)
    assert code == 1
    assert again.splitlines()[-1] == said.splitlines()[-3]
    namespace: dict[str, object] = {}
    exec((tmp_path / "test_it.py").read_text(), namespace)
    with pytest.raises(AssertionError, match="node 2 delivered"):
        namespace["test_fifo_keeps_causal"]()  # type: ignore[operator]


def test_a_counterexample_of_another_version_is_refused(antecast, tmp_path):
    antecast("check", "fifo", "--promise", "causal", "--out", "it.json")
    file = tmp_path / "it.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"version": "another"}))
    code, _, said = antecast("check", "--replay", file)
    assert code == 2
    assert "found in another version of fifo" in said
    assert "--any-code" in said
    assert antecast("check", "--replay", file, "--any-code")[0] == 1
    assert antecast("check", "--replay", file, "--any-version")[0] == 1  # its old name


def test_a_step_to_stop_at_is_one_of_those_that_there_are(antecast):
    antecast("check", "fifo", "--promise", "causal", "--out", "it.json")
    code, _, said = antecast("check", "--replay", "it.json", "--break-at", "5")
    assert (code, "--break-at: expected a step from 1 to 4, got 5" in said) == (2, True)


def test_what_is_no_longer_possible_is_said(antecast, tmp_path):
    antecast("check", "fifo", "--promise", "causal", "--out", "it.json")
    file = tmp_path / "it.json"
    values = json.loads(file.read_text())
    values["actions"][1] = ["receive", 1, 2, 0, 0, -1]
    file.write_text(json.dumps(values))
    code, said, _ = antecast("check", "--replay", file)
    assert (code, "Step 2 is no longer possible" in said) == (0, True)


@pytest.mark.parametrize("code", ["1 / 0\n", "def f(:\n", "import sys; sys.exit(0)\n", "import nowhere\n"])
def test_a_property_whose_module_fails_to_load_is_bad_input(antecast, tmp_path, monkeypatch, code):
    """Not exit code 1, which says that a promise is broken, nor 0."""
    (tmp_path / "failing.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "failing", raising=False)
    exit_code, _, err = antecast("check", "vector", "--property", "failing:f")
    assert exit_code == 2
    assert "--property: unknown property 'failing:f'" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["vectr"], "did you mean 'vector'?"),
        (["cellular", "--breaks", "1"], "wires between stations stay"),
        (["vector", "--promise", "orderly"], "unknown promise 'orderly'"),
        (["vector", "--property", "nowhere:at_all"], "unknown property"),
        (["vector", "--nodes", "1"], "nodes: one node alone keeps every order"),
        (["vector", "--broadcasts", "0"], "broadcasts: nobody would ever say anything"),
        (["vector", "--losses", "1"], "losses: vector needs links that lose nothing"),
        (["vector", "--strategy", "deep"], "unknown strategy 'deep'"),
        (["vector", "--memory", "much"], "--memory: expected a size"),
        (["vector", "--scope", "tickk=1s"], "unknown key 'tickk'"),
        (["vector", "--scope", "unsteady=[[2,0]]"], "unsteady: expected two nodes, the lower number first"),
        (["vector", "--limit", "postbox=1"], "limits: vector has no gauge 'postbox'; it has clock,"),
        (["vector", "--limit", "pending=some"], "--limit: pending: expected a whole number, got 'some'"),
        (["vector", "--limit", "pending=-1"], "limits: pending: -1 is less than nothing; 0 at least"),
        (["vector", "--master", "local[2]", "--strategy", "walk"], "--master: Spark searches breadth first"),
        (["vector", "--master", "local[2]", "--exact"], "--master: Spark remembers fingerprints"),
        (["vector", "--time=-1s"], "--time: expected a duration of zero or more, got '-1s'"),
        (["vector", "--break-at", "1"], "--break-at: is about a counterexample; name one with --replay"),
        (["vector", "--any-code"], "--any-code: is about a counterexample; name one with --replay"),
        (["vector", "--replay", "it.json"], "--replay: the file names its protocol; leave NAME out"),
        (["vector", "--out", "nowhere/it.json"], "--out: nowhere/it.json: there is no folder nowhere"),
        (["vector", "--save-test", "."], "--save-test: .: is a folder"),
        (["vector", "--out", "it", "--save-test", "it"], "--save-test: it is the file of the counterexample"),
        (["vector", "fifo", "--out", "it.json"], "--out: is one file, and there are several protocols"),
        (["--replay", "nothing.json"], "nothing.json: cannot be read"),
        ([], "which protocol?"),
    ],
)
def test_a_mistake_is_one_line(antecast, arguments, said):
    code, _, told = antecast("check", *arguments)
    assert code == 2
    assert said in told
    assert len(told.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"actions": [[]]}, "length >= 1"),
        ({"actions": [["receive", 1, {}]]}, "Expected `int | str`"),
        ({"promises": ["haste"]}, "Invalid enum value 'haste'"),
        ({"calm": -1}, ">= 0"),
        ({"protocol": "none"}, "unknown protocol 'none'"),
        ({"settings": {"speed": 1}}, "unknown key 'speed'"),
        ({"scope": {"nodes": 3, "stations": 2}}, "stations: fifo does not support cells"),
    ],
    ids=str,
)
def test_a_counterexample_that_means_nothing_is_one_line_that_names_the_file(antecast, tmp_path, change, said):
    antecast("check", "fifo", "--promise", "causal", "--out", "it.json")
    file = tmp_path / "it.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    code, _, error = antecast("check", "--replay", file)
    assert (code, len(error.splitlines())) == (2, 1)
    assert "it.json: " in error
    assert said in error


@pytest.mark.parametrize("content", [b"{}", b'{"protocol": "\xff"}'])
def test_what_is_not_a_counterexample_is_named(antecast, tmp_path, content):
    (tmp_path / "it.json").write_bytes(content)
    code, _, said = antecast("check", "--replay", "it.json")
    assert code == 2
    assert "it.json: not a counterexample" in said


def test_a_protocol_and_a_property_of_one_s_own(antecast, tmp_path):
    shutil.copytree(ROOT / "examples" / "checking", tmp_path / "examples" / "checking")
    code, said, _ = antecast("check", "examples.checking.counting:COUNTING", "--broadcasts", "2", "--json")
    assert (code, json.loads(said)["property"]) == (1, "causal")
    assert antecast("check", "examples.checking.counting:NAMING", "--broadcasts", "2")[0] == 0
    waits = "next((f'node {n} waits' for n, p in view.nodes.items() if p.gauges()['pending']), None)"
    (tmp_path / "mine.py").write_text(f"def nobody_waits(view):\n    return {waits}\n")
    code, said, _ = antecast("check", "vector", "--property", "mine:nobody_waits")
    assert code == 1
    assert "violated: nobody_waits: node" in said
    code, said, _ = antecast("check", "--replay", "vector.counterexample.json", "--json")
    assert (code, json.loads(said)["property"]) == (1, "nobody_waits")


def test_buffers_that_grow_beyond_a_limit_are_found_and_played_again(antecast):
    scope = ["--nodes", "2", "--broadcasts", "3", "--answers", "0", "--scope", "fifo=false"]
    assert antecast("check", "vector", *scope, "--limit", "pending=2")[0] == 0
    code, said, _ = antecast("check", "vector", *scope, "--limit", "pending=1")
    assert code == 1
    assert "violated: bounded buffers: node" in said
    code, said, _ = antecast("check", "--replay", "vector.counterexample.json", "--json")
    assert (code, json.loads(said)["property"]) == (1, "bounded buffers")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
@pytest.mark.parametrize(
    ("how", "told"), [([], "violated: causal"), (["--json"], '"violated"'), (["-q"], "causal")]
)
def test_a_violation_is_told_even_if_its_file_cannot_be_written(antecast, how, told):
    code, said, error = antecast("check", "fifo", "--promise", "causal", "--out", "/dev/full", *how)
    assert told in said
    assert "Play it again" not in said
    assert (code, "/dev/full: cannot write: No space left on device" in error) == (2, True)


def test_a_protocol_that_ends_the_program_is_a_violation(antecast, tmp_path):
    """Not exit code 0 without a word, which says that every promise holds."""
    (tmp_path / "ending.py").write_text(ENDING)
    code, said, _ = antecast("check", "ending:SPEC", "--nodes", "2")
    assert (code, "receive raised SystemExit: 0" in said) == (1, True)


def test_a_counterexample_becomes_a_page(antecast, tmp_path):
    assert antecast("check", "fifo", "--promise", "causal", "--report", "--quiet")[0] == 1
    page = (tmp_path / "fifo.counterexample.html").read_text()
    assert page.count('class="step"') == 4
    assert "node 2 delivered 0:1 after a message that depends on it" in page
    code, said, _ = antecast("report", "fifo.counterexample.json", "--out", "page.html")
    assert (code, said.strip()) == (0, "report: page.html")
    assert (tmp_path / "page.html").read_text().count('class="step"') == 4
    code, _, told = antecast("report", "fifo.counterexample.json", "--message", "0.1")
    assert (code, "--message: does not apply to a counterexample" in told) == (2, True)
    (tmp_path / "other.json").write_text("{}")
    code, _, told = antecast("report", "other.json")
    assert (code, "other.json: not a counterexample" in told) == (2, True)


def test_several_protocols_are_checked_each_for_what_it_bears(antecast):
    scope = ["--crashes", "1", "--nodes", "2", "--answers", "0"]
    code, said, _ = antecast("check", "vector", "tcp-flooding", *scope, "--json")
    assert code == 0
    crashes = {each["protocol"]: each["scope"]["crashes"] for each in json.loads(said)}
    assert crashes == {"vector": 1, "tcp-flooding": 0}
    code, said, _ = antecast("check", "fifo", "r-broadcast", "--nodes", "2")
    named = [line.split()[0] for line in said.splitlines() if not line.startswith(" ")]
    assert (code, named) == (0, ["protocol", "fifo", "r-broadcast"])


def test_what_was_not_seen_is_said(antecast):
    code, said, _ = antecast("check", "vector", "--broadcasts", "3", "--time", "1ms", "--json")
    values = json.loads(said)
    assert (code, values["verdict"]) == (3, "not exhausted")
    assert values["frontier"] > 0


@pytest.mark.parametrize("how", [["--no-reduce"], ["--strategy", "walk"], ["--memory", "1MB"]])
def test_an_interrupt_ends_with_what_is_known(antecast, tmp_path, how):
    once = "import os, signal\n\nasked = []\n\n\ndef interrupts(view):\n    if not asked:\n"
    name = f"asking_{how[0].strip('-').replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(f"{once}        asked.append(os.kill(os.getpid(), signal.SIGINT))\n")
    scope = ["--nodes", "2", "--broadcasts", "6", "--answers", "0", *how]
    code, said, _ = antecast("check", "vector", *scope, "--property", f"{name}:interrupts")
    assert (code, "interrupted" in said) == (130, True)
