"""The public interface from Python: what people hand to it, what they get, what they are told."""

import importlib
import json
import re
from pathlib import Path

import pytest

import antecast
from antecast.cli.app import app
from antecast.papers.findings import Results

SCENARIO = {
    "nodes": 6,
    "duration": "2s",
    "network": {"delay": {"kind": "exponential", "mean": "80ms"}},
    "workload": [{"kind": "poisson", "rate": 3.0}],
}


@pytest.fixture(scope="module")
def result():
    return antecast.run(SCENARIO | {"protocol": "r-broadcast"})


def test_every_name_of_the_interface_is_there():
    for name in antecast.__all__:
        assert getattr(antecast, name) is not None
    assert set(antecast.__all__) <= set(dir(antecast))


def test_every_command_has_its_name_in_python():
    rows = re.findall(
        r"^\| (`antecast .*?) \| (.*?) \|",
        (Path(__file__).parents[1] / "docs" / "python.md").read_text(),
        re.MULTILINE,
    )
    told = {name for commands, _ in rows for name in re.findall(r"`antecast (\w+)", commands)}
    commands = {each.name or each.callback.__name__ for each in app.registered_commands}
    groups = {each.typer_instance.info.name for each in app.registered_groups}
    assert told | {"completion"} == {name.replace("_", "-") for name in commands | groups}
    for name in {name for _, python in rows for name in re.findall(r"`(antecast[\w.]+)", python)}:
        assert callable(found(name)), name


def found(name):
    """What a dotted name means: as much of it as can be is a module."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            value = getattr(value, attribute)
        return value
    return None


def test_a_scenario_is_a_file_plain_values_or_an_object(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('nodes = 6\nduration = "2s"\n[[workload]]\nkind = "poisson"\nrate = 3.0\n')
    by_path = antecast.run(file, overrides=["network.delay=30ms"], seed=7)
    values = {"nodes": 6, "duration": "2s", "workload": [{"kind": "poisson", "rate": 3.0}]}
    by_values = antecast.run(values | {"network": {"delay": "30ms"}}, seed=7)
    by_object = antecast.run(antecast.load_scenario(file, ["network.delay=30ms"]), seed=7)
    assert by_path.run == by_values.run == by_object.run


def test_results_are_short_to_read_and_long_to_ask(result):
    assert repr(result).startswith("RunResult('scenario', r-broadcast, 6 nodes, seed 1: complete, ")
    summary = result.summary()
    assert summary["verdict"] == "violated" and summary["broken_promises"] == []
    json.dumps(summary)
    assert len(result.to_pandas()) == result.logged
    assert set(result.to_pandas("samples").columns) >= {"node", "gauge", "value"}
    assert "causal order violated" in result._repr_html_()


def test_a_verdict_is_short_to_read_and_long_to_ask(result):
    verdict = antecast.audit(result)
    assert repr(verdict).startswith("Verdict(violated: ")
    assert verdict.summary()["counts"]["early"] == verdict.tally.early > 0
    assert len(verdict.to_pandas()) == len(verdict.violations)
    assert "→" in verdict._repr_html_()


def test_a_comparison_from_python(tmp_path):
    found = antecast.compare(
        antecast.make_scenario(SCENARIO),
        protocols=["vector", "fifo"],
        settings={"vector": {"retain": 50}},
        seeds=1,
        max_latency="2s",
        local=True,
        out=tmp_path / "comparison",
    )
    assert found.recommended == "vector"
    assert repr(found) == "Comparison('scenario', 2 protocols, 1 seeds, recommended='vector')"
    assert found.report.is_file()
    assert list(found.to_pandas()["name"]) == ["vector", "fifo"]
    assert found.summary()["recommended"] == "vector"


def test_a_report_from_python(tmp_path):
    result = antecast.run(SCENARIO, out=tmp_path / "run")
    assert antecast.report(result) == tmp_path / "run" / "report.html"
    assert antecast.report(tmp_path / "run", out=tmp_path / "page.html", message="0.1").is_file()
    with pytest.raises(antecast.LocalMisuse, match="kept in memory"):
        antecast.report(antecast.run(SCENARIO))


def test_results_of_a_reproduction_are_short_to_read():
    empty = Results(study="vcube", findings=[])
    assert repr(empty).startswith("Results(vcube: ")
    assert empty.summary()["study"] == "vcube"
    assert len(empty.to_pandas()) == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: antecast.run(5), "scenario: expected a Scenario, the path of a TOML file, or a mapping"),
        (
            lambda: antecast.audit(5),
            "events: expected a RunResult, a table (Arrow, pandas, Spark, Polars), or the path",
        ),
        (lambda: antecast.audit(""), "the name of the log is empty"),
        (lambda: antecast.audit("x", dense="none"), "dense: expected a list of texts, such as ['pos'], got str"),
        (lambda: antecast.audit("x", require="CC"), "require: expected a list of texts, such as ['CC'], got str"),
        (lambda: antecast.audit("x", complete="bob"), "complete: expected a list of nodes, got str"),
        (lambda: antecast.audit("x", limit=-1), "limit: expected a whole number from 0 on, got -1"),
        (lambda: antecast.audit("x", columns=["host"]), "columns: expected a mapping"),
        (lambda: antecast.compare(5), "scenario: expected a Scenario, the path of a TOML file, or a mapping"),
        (lambda: antecast.sweep(5), "study: expected a Study, the path of a TOML file, or a mapping"),
        (lambda: antecast.compare(SCENARIO, max_latency="2"), "max_latency: expected a duration with its unit"),
        (lambda: antecast.reproduce("vcub"), "unknown study 'vcub'"),
        (lambda: antecast.run(SCENARIO).to_pandas("event"), "table: expected 'events' or 'samples', got 'event'"),
        (lambda: antecast.run(antecast.make_scenario(SCENARIO), overrides=["nodes=3"]), "overrides go into"),
        (
            lambda: antecast.run(antecast.make_scenario(SCENARIO), seed="x"),
            "seed: expected a whole number from 0 on",
        ),
        (
            lambda: antecast.run(antecast.make_scenario(SCENARIO), seed=True),
            "seed: expected a whole number from 0",
        ),
        (lambda: antecast.run(antecast.make_scenario(SCENARIO), seed=-1), "from 0 on, got -1"),
        (lambda: antecast.run(SCENARIO, overrides="nodes=3"), "overrides: expected a list of texts, such as"),
        (lambda: antecast.run(SCENARIO, overrides=[3]), "overrides: expected texts, such as 'network.loss=0.1'"),
        (lambda: antecast.run(SCENARIO, out=3), "out: expected a path, got int"),
        (lambda: antecast.make_scenario("x.toml"), "values: expected a mapping of a scenario's values"),
        (lambda: antecast.make_scenario(None), "values: expected a mapping of a scenario's values"),
        (lambda: antecast.load_scenario(None), "path: expected the path of a TOML file, got NoneType"),
        (lambda: antecast.compare(SCENARIO, protocols="vector"), "protocols: expected a list of texts, such as"),
        (
            lambda: antecast.compare(SCENARIO, protocols=[3]),
            "protocols: expected texts, such as 'vector', got int",
        ),
        (lambda: antecast.compare(SCENARIO, seeds=0), "seeds: expected a whole number from 1 on, got 0"),
        (lambda: antecast.compare(SCENARIO, seeds="x"), "seeds: expected a whole number from 1 on, got str"),
        (lambda: antecast.sweep({}, seeds=1.5), "seeds: expected a whole number from 1 on, got float"),
        (lambda: antecast.reproduce("vcube", seeds=0), "seeds: expected a whole number from 1 on, got 0"),
        (lambda: antecast.report("x", out=3), "out: expected a path, got int"),
        (lambda: antecast.run("a\0b"), "scenario: a path cannot hold the character NUL"),
        (lambda: antecast.run(SCENARIO, out="a\0b"), "out: a path cannot hold the character NUL"),
        (lambda: antecast.run(SCENARIO, replace="no"), "replace: expected True or False, got str"),
        (lambda: antecast.run(SCENARIO, on_progress=3), "on_progress: expected a function, got int"),
        (lambda: antecast.audit("a\0b"), "events: a path cannot hold the character NUL"),
        (lambda: antecast.audit("x", limit=None), "limit: expected a whole number from 0 on, got NoneType"),
        (lambda: antecast.audit("x", complete=3), "complete: expected a list of nodes, got int"),
        (lambda: antecast.audit("x", complete=b"3"), "complete: expected a list of nodes, got bytes"),
        (lambda: antecast.audit("x", clock="wall"), "clock: expected 'global' or 'local', got 'wall'"),
        (lambda: antecast.audit("x", regex=3), "regex: expected a text, got int"),
        (lambda: antecast.audit("x", master=3), "master: expected a text, got int"),
        (lambda: antecast.audit("x", ordered="no"), "ordered: expected True or False, got str"),
        (lambda: antecast.audit("x", max_line="9"), "max_line: expected a whole number from 1 on, got str"),
        (lambda: antecast.audit("x", memory=[1]), "memory: expected a number of bytes, or a text such as"),
        (lambda: antecast.audit("x", skew=1.5), "skew: expected a number of nanoseconds, or a text such as"),
        (lambda: antecast.load_scenario("a\0b"), "path: a path cannot hold the character NUL"),
        (lambda: antecast.compare("a\0b"), "scenario: a path cannot hold the character NUL"),
        (lambda: antecast.compare(SCENARIO, seeds=None), "seeds: expected a whole number from 1 on, got NoneType"),
        (lambda: antecast.compare(SCENARIO, settings=3), "settings: expected a list of texts, such as"),
        (lambda: antecast.compare(SCENARIO, settings=[3]), "settings: expected texts, such as"),
        (lambda: antecast.compare(SCENARIO, settings={"delta": 3}), "settings: expected those of each protocol"),
        (lambda: antecast.compare(SCENARIO, max_bytes="64"), "max_bytes: expected a number from 0 on, got str"),
        (
            lambda: antecast.compare(SCENARIO, max_bytes=float("nan")),
            "max_bytes: expected a number from 0",
        ),
        (lambda: antecast.compare(SCENARIO, local="no"), "local: expected True or False, got str"),
        (lambda: antecast.compare(SCENARIO, on_progress="x"), "on_progress: expected a function, got str"),
        (lambda: antecast.compare(SCENARIO, on_note=3), "on_note: expected a function, got int"),
        (lambda: antecast.sweep({}, out="a\0b"), "out: a path cannot hold the character NUL"),
        (lambda: antecast.sweep({}, local="no"), "local: expected True or False, got str"),
        (lambda: antecast.sweep({}, limits=5), "limits: expected Limits, got int"),
        (lambda: antecast.sweep({}, on_note=5), "on_note: expected a function, got int"),
        (lambda: antecast.reproduce(["vcube"]), "study: expected a text, got list"),
        (lambda: antecast.reproduce("vcube", quick="no"), "quick: expected True or False, got str"),
        (lambda: antecast.reproduce("vcube", options=["trace"]), "options: expected a mapping, such as"),
        (lambda: antecast.report("a\0b"), "folder: a path cannot hold the character NUL"),
        (lambda: antecast.report("x", message=3), "message: expected a text, got int"),
        (lambda: antecast.specification(5), "name: expected the name of a protocol or its import path, got int"),
        (lambda: antecast.register("vector"), "specification: expected a Specification, got str"),
    ],
)
def test_a_wrong_argument_is_one_clear_error(call, words):
    with pytest.raises(antecast.AntecastError) as error:
        call()
    assert words in str(error.value)


def test_an_audit_takes_whatever_holds_columns(tmp_path):
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    events = {
        "node": [1, 1, 2, 2],
        "pos": [0, 1, 0, 1],
        "kind": ["broadcast", "broadcast", "deliver", "deliver"],
        "origin": [1, 1, 1, 1],
        "seq": [1, 2, 2, 1],
    }
    table = pa.table(events)

    class Stream:
        """What other libraries' tables offer to Arrow."""

        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    pq.write_table(table, tmp_path / "log.parquet")
    held = (
        table,
        table.to_batches()[0],
        table.to_reader(),
        Stream(),
        table.to_batches(),
        (batch for batch in table.to_batches()),
        pd.DataFrame(events),
        tmp_path / "log.parquet",
        (file for file in [tmp_path / "log.parquet"]),
    )
    for each in held:
        assert antecast.audit(each).outcome == "violated"
    for memory in (1, "1kB", None):
        assert antecast.audit(tmp_path / "log.parquet", memory=memory).outcome == "violated"
        assert antecast.audit(table, memory=memory).outcome == "violated"
    for memory, problem in ((0, "at least one byte"), ("lots", "expected a size")):
        with pytest.raises(antecast.ConfigurationError, match=problem):
            antecast.audit(table, memory=memory)
    numbered = pd.DataFrame(events).rename(columns={"node": 7})
    assert antecast.audit(numbered, columns={"node": 7}).outcome == "violated"
    with pytest.raises(antecast.AntecastError, match="Duplicate column names found"):
        antecast.audit(pd.concat([numbered, numbered], axis=1))
    with pytest.raises(antecast.AntecastError, match=r"expected a RunResult, a table .* got Series"):
        antecast.audit(numbered["pos"])
    with pytest.raises(antecast.AntecastError, match="column node with type object: Could not convert '2'"):
        antecast.audit(pd.DataFrame(events | {"node": [1, 1, "2", 2]}))
