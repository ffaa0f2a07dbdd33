"""`docs/commands.md` names every key that a command prints with `--json`, and no other."""

import json
import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from antecast.cli import observe, reproduce
from antecast.spark.observe_run import Tally

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
SCENARIO = """
name = "small"
nodes = 4
duration = "1s"
[network]
delay = { kind = "uniform", low = "1ms", high = "300ms" }
[[workload]]
kind = "poisson"
rate = 8.0
"""
STUDY = 'scenario = "small.toml"\n[grid]\nprotocol.name = ["vector"]\n'
LOG = "node,pos,kind,origin,seq\na,1,send,a,1\nb,1,deliver,a,1\nb,2,send,b,1\nc,1,deliver,b,1\nc,2,deliver,a,1\n"
FEED = {
    "agency": "agency_name,agency_url,agency_timezone\nLines,http://x,Europe/Paris\n",
    "routes": "route_id,route_short_name,route_type\nR,1,3\n",
    "calendar_dates": "service_id,date,exception_type\nS,20260321,1\n",
    "stops": "stop_id,stop_lat,stop_lon\nA,48.00,7.0\nC,48.02,7.0\n",
    "trips": "route_id,service_id,trip_id,block_id\nR,S,out,7\n",
    "stop_times": "trip_id,stop_sequence,stop_id,arrival_time,departure_time\n"
    "out,1,A,08:00:00,08:00:00\nout,2,C,08:10:00,08:10:00\n",
}
ANY = r"[^\[\]]+"
"""What a word in capitals stands for: a name, which may have dots in it."""


def documented(section):
    """The keys of a section's table, as patterns."""
    text = re.search(rf"^### {re.escape(section)}\n(.*?)(?=^### |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)[
        1
    ]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [key for cell in cells for key in re.findall(r"`([^`]+)`", cell)]


def pattern(key):
    return re.sub(r"(?<![a-z_])[A-Z]+(?![a-z_])", lambda _: ANY, re.escape(key))


def printed(value, path=""):
    """The keys of what was printed, down to values that are no objects."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from printed(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for each in value:
            yield from printed(each, f"{path}[]")
    else:
        yield path


def assert_documented(section, *results, objects=()):
    """All keys printed are documented, and all that are documented are printed by one of the results.

    `objects` are keys whose value is an object in some calls, and null or empty in others.
    """
    keys = documented(section)
    found = {key for result in results for key in printed(result)} - set(objects)
    unknown = [key for key in found if not any(re.fullmatch(pattern(each), key) for each in keys)]
    assert unknown == [], f"printed and not in {PAGE.name}"
    silent = [each for each in keys if not any(re.fullmatch(pattern(each), key) for key in found)]
    assert silent == [], f"in {PAGE.name} and never printed"


@pytest.fixture
def printing(antecast):
    """What a command prints, in a folder with a scenario, a study, a log and a feed."""
    Path("small.toml").write_text(SCENARIO)
    Path("study.toml").write_text(STUDY)
    Path("log.csv").write_text(LOG)
    with zipfile.ZipFile("town.zip", "w") as file:
        for name, text in FEED.items():
            file.writestr(f"{name}.txt", text)

    def call(*arguments):
        code, out, err = antecast(*arguments, "--json")
        assert code in (0, 1), err
        return json.loads(out)

    return call


def test_run(printing):
    assert_documented("run", printing("run", "small.toml"))


def test_sweep(printing):
    planned = printing("sweep", "study.toml", "--dry-run")
    assert_documented("sweep", printing("sweep", "study.toml", "--no-spark"))
    assert_documented("sweep --dry-run", planned)


def test_compare(printing):
    names = ("--protocol", "vector", "--protocol", "r-broadcast")
    common = ("compare", "small.toml", "--no-spark", "--seeds", 1, *names)
    assert_documented("compare", printing(*common, "--max-latency", "1s"))


def test_audit(printing):
    violated = printing("audit", "log.csv", "--kinds", "broadcast=send")
    assert violated["witness"] is not None
    header, *rows = LOG.splitlines()
    runs = [f"run,{header}", *(f"{run},{row}" for run in "12" for row in rows)]
    Path("runs.csv").write_text("\n".join(runs) + "\n")
    several = printing("audit", "runs.csv", "--kinds", "broadcast=send")
    assert_documented("audit", violated, several, objects=("runs",))


def test_audit_of_clocks(printing):
    Path("clocks.log").write_text('a {"a":1}\nx\na {"a":1}\ny\n')
    assert_documented("audit of clocks and spans", printing("audit", "clocks.log"))


def test_audit_of_key_value_histories(printing):
    history = Path(__file__).parents[2] / "examples" / "logs" / "album.edn"
    assert_documented("audit of key-value histories", printing("audit", history))


def test_audit_of_a_log_that_grows(printing):
    Path("clocks.log").write_text('a {"a":1}\nx\na {"a":1}\ny\n')
    violated = printing("audit", "clocks.log", "--follow", "--until-idle", 0.01)
    assert violated["verdict"] == "violated"
    assert_documented("audit --follow", violated)


def test_check(printing):
    violated = printing("check", "fifo", "--promise", "causal")
    assert violated["steps"]
    assert_documented("check", violated)
    assert_documented("check --replay", printing("check", "--replay", "fifo.counterexample.json"))


def test_observe(capsys):
    tally = Tally(refused=Counter({"not JSON": 1}), allowed=0.1)
    observe._report(tally, Path("out"), as_json=True, quiet=False)
    assert_documented("observe", json.loads(capsys.readouterr().out))


def test_reproduce():
    from antecast.papers.findings import Finding, Mark, Results

    found = Finding(
        item="Table I", quantity="latency", setting="50 nodes", unit="s", paper=1.0, ours=1.1, mark=Mark.AGREES
    )
    results = Results(study="vcube", findings=[found], figures={}, notes=["so and so"])
    assert_documented("reproduce", {"vcube": reproduce._as_json(results, Path("here"))})


def test_traces(printing):
    made = printing("generate", "pedestrians", "--duration", "2min", "--walkers", 5, "-o", "walk.parquet")
    assert_documented("generate city-bus, generate pedestrians", made)
    met = printing("contacts", "walk.parquet", "--range", 50, "-o", "met.csv")
    assert_documented("contacts", met)
    one = printing("convert", "walk.parquet", "walk.csv"), printing("convert", "met.csv", "met.one", "--to", "one")
    assert_documented("convert", *one)
    assert_documented("mobility gtfs", printing("mobility", "gtfs", "town.zip", "--date", "2026-03-21"))


def test_group_list(printing, antecast):
    antecast("group", "new", "friends")
    antecast("group", "invite", "ada")
    assert_documented("group list", printing("group", "list"))


def test_live_nodes(tmp_path, antecast):
    """What nodes print needs no process: these are the functions behind the commands."""
    import asyncio

    from antecast.cli import terminal as command
    from antecast.live import Delivery, Node

    kinds = (Delivery(1, 0, 1, 5, b"text"), Delivery(2, 0, 2, 5, b"\xff"), Delivery(3, 0, 3, 5, b"", "no key"))
    text, binary, unreadable = (json.loads(command.as_row(each)) for each in kinds)
    assert_documented("node", text)
    assert (binary["payload_base64"], unreadable["problem"]) == ("/w==", "no key")

    async def main():
        async with Node(0, journal=tmp_path / "a") as live:
            await live.broadcast(b"x")
            return live.status()

    found = asyncio.run(main())
    assert_documented("status", found | {"links": [], "transports": []})
    replayed = antecast("replay", tmp_path / "a", "--json")[1]
    assert_documented("replay", *map(json.loads, replayed.splitlines()))


def test_torture():
    from antecast.torture.campaign import Standing, Summary, plain

    standing = Standing("code", 9, {"faults": [0]}, {"kill": 1}, {"group begin": 1}, refused={"damaged": 1})
    standing.audits = {"causal": 1}
    assert_documented("torture", plain(Summary(0, 3, None, {"vector": standing})))


def test_emulate(printing):
    assert_documented("emulate", printing("emulate", "small.toml", "--speed", 2))


def test_the_rest(printing, antecast):
    assert_documented("demonstrate", printing("demonstrate", "observer"))
    assert_documented("protocols", printing("protocols"))
    assert_documented("doctor", json.loads(antecast("doctor", "--json")[1]))


def test_every_command_that_speaks_json_has_a_section(antecast):
    names = re.findall(r"^  ([a-z]+) ", antecast("--help")[1], re.MULTILINE)
    sections = re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE)
    for name in names:
        text = antecast(name, "--help")[1]
        if "--json" in text:
            assert name in sections, f"antecast {name} --json"


def test_every_exit_code_is_explained():
    from antecast.cli.console import Exit

    codes = re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(map(int, codes)) == sorted(Exit)
