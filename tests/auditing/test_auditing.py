"""What is made of a verdict: exports that can be read again, gates, reports, and one call from Python for all."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sound_logs import CHAT, SPANS, TRACES, chat, clock_events, govector, otlp, put, shifted, spans_csv

import antecast
from antecast.api import audit_files
from antecast.auditing import gate
from antecast.auditing.findings import Finding
from antecast.auditing.follow import Follower
from antecast.auditing.foreign import Request
from antecast.auditing.gate import exit_code
from antecast.core.errors import ConfigurationError, InputError

Call = Callable[..., tuple[int, str, str]]
EVENTS = clock_events()
EARLY = shifted(SPANS, "c3", -150_000)
SWAPPED: list[dict[str, Any]] = [*CHAT[:4], {**CHAT[5], "pos": 0}, {**CHAT[4], "pos": 1}]
BACK = [*EVENTS[:39], (EVENTS[39][0], {EVENTS[39][0]: EVENTS[39][1][EVENTS[39][0]]}, "forgot all")]
VIOLATED = {"log.log": govector(BACK), "trace.json": otlp(EARLY), "chat.jsonl": chat(SWAPPED)}


@pytest.mark.parametrize("name", VIOLATED)
def test_what_is_exported_to_shiviz_is_read_again_with_clocks_that_are_sound(name: str, tmp_path: Path) -> None:
    """But for a log whose own clocks are wrong: these are written as they are."""
    done = audit_files([put(tmp_path, VIOLATED[name], name)])
    whole = audit_files([done.export("shiviz", tmp_path / "all.log")])
    assert whole.log.importer.NAME == "govector"
    assert whole.verdict.outcome == ("violated" if name == "log.log" else "sound")
    events = {"log.log": 40, "trace.json": 5, "chat.jsonl": 6}[name]
    assert len(whole.data) == events
    cut = audit_files([done.export("shiviz", tmp_path / "cut.log", witness_only=True)])
    told = {"log.log": 2, "trace.json": 2, "chat.jsonl": 5}[name]
    assert len(cut.data) == told


def test_hosts_of_any_name_are_words_of_their_own_for_shiviz(tmp_path: Path) -> None:
    hosts = ["a b", "a\tb", "a_b", '{"a":1}', "h{", " ", "", "ä"]
    rows = [{"host": host, "clock": dict.fromkeys(hosts[: at + 1], 1)} for at, host in enumerate(hosts)]
    file = put(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows), "log.jsonl")
    done = audit_files([file], Request(model="clocks"))
    again = audit_files([done.export("shiviz", tmp_path / "all.log")])
    assert again.verdict.outcome == done.verdict.outcome == "sound"
    assert again.verdict.counts["hosts"] == len(hosts)


@pytest.mark.parametrize("form,suffix", [("otlp", "json"), ("csv", "csv")])
def test_spans_are_exported_and_read_again_the_same(form: Any, suffix: str, tmp_path: Path) -> None:
    done = audit_files([put(tmp_path, otlp(EARLY), "trace.json")])
    again = audit_files([done.export(form, tmp_path / f"again.{suffix}")])
    assert again.verdict.found == done.verdict.found and len(again.data) == 5
    assert again.data.ids and sorted(again.data.ids) == sorted(done.data.ids)
    cut = audit_files([done.export(form, tmp_path / f"cut.{suffix}", witness_only=True)])
    assert sorted(cut.data.ids) == ["b2", "c3"] and cut.verdict.found["child before parent"] == 1


@pytest.mark.parametrize("name", VIOLATED)
def test_tables_and_traces_can_be_made_of_every_log(name: str, tmp_path: Path) -> None:
    done = audit_files([put(tmp_path, VIOLATED[name], name)])
    table = pa.parquet.read_table(done.export("parquet", tmp_path / "all.parquet"))
    assert len(table) == {"log.log": 40, "trace.json": 5, "chat.jsonl": 6}[name]
    if name == "chat.jsonl":
        assert antecast.audit(tmp_path / "all.parquet").outcome == "violated"
    trace = audit_files([done.export("otlp", tmp_path / "trace.out.json")])
    assert trace.log.importer.NAME == "otlp"


def test_there_is_nothing_to_cut_a_sound_log_to(tmp_path: Path) -> None:
    done = audit_files([put(tmp_path, govector(EVENTS))])
    with pytest.raises(ConfigurationError, match="no witness"):
        done.export("shiviz", tmp_path / "x.log", witness_only=True)


@pytest.mark.parametrize("name", VIOLATED)
def test_gates_name_the_file_and_the_line_of_every_violation(name: str, tmp_path: Path) -> None:
    file = put(tmp_path, VIOLATED[name], name)
    done = audit_files([file])
    suite = ElementTree.fromstring(done.junit())
    assert int(suite.attrib["failures"]) == len(suite.findall(".//failure")) > 0
    assert all(case.attrib["file"] == str(file) for case in suite.findall(".//testcase"))
    results = json.loads(done.sarif())["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert {place["artifactLocation"]["uri"] for place in places} == {file.as_uri()}
    assert [place["region"]["startLine"] for place in places] == [each.line for each in done.findings]
    first, *rest = done.annotations()
    assert first.startswith("::error title=antecast audit::violated")
    assert all(line.startswith(f"::error file={file},line=") for line in rest)
    lines = file.read_text().splitlines()
    if name == "trace.json":
        assert '"spanId": "c3"' in lines[places[0]["region"]["startLine"] - 1]


def test_texts_from_logs_do_no_harm_in_gates(tmp_path: Path) -> None:
    events = [("a", {"a": 1}, "x"), ("a", {"a": 1}, "<b>&\x01 100% ]]>::error")]
    done = audit_files([put(tmp_path, govector(events), "a,b:c.log")])
    assert len(ElementTree.fromstring(done.junit()).findall(".//failure")) == 1
    (line,) = done.annotations()[1:]
    assert "a%2Cb%3Ac.log" in line and "100%25" in line


def test_the_exit_code_says_what_a_gate_asks_for(tmp_path: Path, antecast: Call) -> None:
    assert [exit_code(each, None) for each in ("sound", "violated", "inconclusive")] == [0, 1, 3]
    assert [exit_code(each, "violated") for each in ("causal", "violated", "inconclusive")] == [0, 1, 0]
    assert [exit_code(each, "inconclusive") for each in ("kept", "violated", "inconclusive")] == [0, 1, 1]
    file = put(tmp_path, otlp(tuple(span for span in SPANS if span.span != "b2")), "trace.json")
    for fail_on, code in ((None, 3), ("violated", 0), ("inconclusive", 1)):
        arguments = [] if fail_on is None else ["--fail-on", fail_on]
        report = tmp_path / "junit.xml"
        assert antecast("audit", str(file), "--quiet", "--junit", str(report), *arguments)[0] == code
        suite = ElementTree.parse(report).getroot()
        assert suite.attrib["failures"] == ("0" if fail_on == "violated" else "1")


def test_no_file_of_the_log_is_written_over(tmp_path: Path, antecast: Call) -> None:
    text = otlp(EARLY)
    file, table = put(tmp_path, text, "trace.json"), tmp_path / "violations.parquet"
    pq.write_table(pa.csv.read_csv(put(tmp_path, spans_csv(EARLY), "spans.csv")), table)
    held = table.read_bytes()
    for options in (["--junit"], ["--sarif"], ["--export", "csv", "--export-file"], ["--follow", "--state"]):
        code, _, err = antecast("audit", str(file), "--until-idle", "0", *options, str(file))
        assert code == 2 and "trace.json: is a file of the log" in err and file.read_text() == text
    code, _, err = antecast("audit", str(table), "--model", "spans", "--out", str(tmp_path))
    assert code == 2 and "is a file of the log" in err and table.read_bytes() == held


@pytest.mark.parametrize("name", ["\x01", "]]>", "a\nb", "100%", "::error::", "\ufffe", '"&<', "😀\x7f\u2028"])
def test_odd_names_make_no_report_invalid(name: str, tmp_path: Path, antecast: Call) -> None:
    rows = [row if row["node"] != "c" else row | {"node": name} for row in SWAPPED]
    file = put(tmp_path, chat(rows), f"{name.replace('/', '')}.jsonl")
    done = audit_files([file])
    assert done.verdict.outcome == "violated"
    ElementTree.fromstring(done.junit())
    places = [each["locations"][0]["physicalLocation"] for each in json.loads(done.sarif())["runs"][0]["results"]]
    assert {unquote(each["artifactLocation"]["uri"]) for each in places} == {f"file://{file}"}
    for line in done.annotations():
        assert re.fullmatch(r"::(error|warning|notice) [^\r\n:]*::[^\r\n]*", line)


def test_a_file_whose_name_is_not_text_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff.jsonl")).write_text(chat())
    with pytest.raises(InputError, match="the name of the file is not UTF-8"):
        audit_files([tmp_path])


def test_the_command_tells_the_model_the_story_and_the_report(tmp_path: Path, antecast: Call) -> None:
    file = put(tmp_path, otlp(EARLY), "trace.json")
    out = tmp_path / "out"
    code, said, _ = antecast(
        "audit", str(file), "--out", str(out), "--sarif", str(tmp_path / "s.sarif"), "--github"
    )
    assert code == 1 and said.startswith("violated: 5 spans of 1 trace by 3 services\n  child before parent: 1\n")
    assert "::error file=" in said and "report:" in said
    page = (out / "report.html").read_text()
    assert "child before parent" in page and "<svg" in page and "Clock skew" in page
    code, said, _ = antecast("audit", str(file), "--json", "--skew", "1ms")
    assert code == 0 and json.loads(said)["verdict"] == "sound" and json.loads(said)["format"] == "otlp"
    assert antecast("audit", str(file), "--format", "zipkin")[0] == 2
    code, _, err = antecast("audit", str(file), "--model", "clocks")
    assert code == 2 and "otlp is judged by spans" in err
    code, _, err = antecast("audit", str(file), "--format", "zip")
    assert code == 2 and "no such format 'zip'" in err


def test_python_takes_tables_of_spans_and_clocks_as_it_takes_files(tmp_path: Path) -> None:
    table = pa.csv.read_csv(put(tmp_path, spans_csv(EARLY), "spans.csv"))
    verdict = antecast.audit(table, model="spans")
    assert verdict.found["child before parent"] == 1 and verdict.violations["line"].to_pylist() == [3]
    renamed = table.rename_columns([f"x_{name}" for name in table.column_names])
    with pytest.raises(ConfigurationError, match="no column for trace, span, parent, start, end"):
        antecast.audit(renamed, model="spans")
    columns = {"trace": "x_TraceID", "span": "x_SpanID", "parent": "x_ParentID", "service": "x_PodName"}
    columns |= {"start": "x_StartTimeUnixNano", "end": "x_EndTimeUnixNano"}
    assert antecast.audit(renamed, model="spans", columns=columns).found["child before parent"] == 1
    hosts = pa.table({"host": ["a", "b"], "clock": ['{"a": 1}', '{"b": 1, "a": 2}'], "event": ["x", "y"]})
    assert antecast.audit(hosts, model="clocks").found["clock from nowhere"] == 1
    maps = hosts.set_column(1, "clock", pa.array([[("a", 1)], [("b", 1)]], pa.map_(pa.string(), pa.int64())))
    assert antecast.audit(maps, model="clocks").outcome == "sound"
    with pytest.raises(InputError, match="table:1: the clock is not"):
        antecast.audit(hosts.set_column(1, "clock", pa.array(["x", "y"])), model="clocks")
    with pytest.raises(ConfigurationError, match="no such model"):
        antecast.audit(hosts, model="paxos")


def test_python_takes_pandas_and_lists_of_paths_and_shows_verdicts_as_html(tmp_path: Path) -> None:
    frame = pa.Table.from_pylist(SWAPPED).to_pandas()
    verdict = antecast.audit(frame)
    assert verdict.outcome == "violated" and len(verdict.to_pandas()) == len(verdict.violations) > 0
    files = [put(tmp_path, govector(EVENTS[:20]), "a.log"), put(tmp_path, govector(EVENTS[20:]), "b.log")]
    both = antecast.audit(files)
    assert both.counts["events"] == 40 and both.witness is None
    assert "<b>sound: 40 events of 3 hosts</b>" in both._repr_html_()


def test_requests_that_contradict_the_log_are_refused(tmp_path: Path) -> None:
    file = put(tmp_path, otlp(SPANS), "t.json")
    with pytest.raises(ConfigurationError, match="no column for trace, span, parent, start, end"):
        audit_files([file], Request(format="jsonl", model="spans"))
    with pytest.raises(ConfigurationError, match="spans are judged in this process"):
        audit_files([file], engine="spark")
    with pytest.raises(ConfigurationError, match="no such engine"):
        audit_files([file], engine="quantum")
    with pytest.raises(InputError, match="not recognised"):
        audit_files([put(tmp_path, "hello\nworld\n", "x.txt")])
    with pytest.raises(InputError, match="no such file"):
        audit_files([tmp_path / "nowhere"])
    with pytest.raises(ConfigurationError, match="no such level"):
        antecast.audit(put(tmp_path, "w(1,1,1,1)\nr(1,1,2,2)\n", "p.txt"), require=["serial"])


TABLE = "node,pos,kind,origin,seq\na,0,broadcast,a,1\nb,0,deliver,a,1\n"
HISTORY = "w(1,1,1,1)\nr(1,1,2,2)\nw(1,2,1,3)\nr(1,2,2,4)\nr(1,1,2,5)\n"
LOGS = {
    "broadcast": ("a.csv", TABLE),
    "clocks": ("a.log", govector(EVENTS)),
    "spans": ("a.json", otlp(SPANS)),
    "kv": ("a.txt", HISTORY),
}
GIVEN: dict[str, tuple[list[str], dict[str, Any], set[str]]] = {
    "complete": (["--complete", "a,b"], {"complete": ["a", "b"]}, {"spans"}),
    "ordered": (["--ordered"], {"ordered": True}, {"broadcast", "kv"}),
    "skew": (["--skew", "5ms"], {"skew": "5ms"}, {"broadcast", "clocks", "kv"}),
    "require": (["--require", "CC"], {"require": ["CC"]}, {"broadcast", "clocks", "spans"}),
    "clock": (["--clock", "local"], {"clock": "local"}, {"clocks", "spans", "kv"}),
    "dense": (["--dense", "pos"], {"dense": ["pos"]}, {"clocks", "spans", "kv"}),
    "pairs": (["--pairs"], {"pairs": True}, {"clocks", "spans", "kv"}),
    "memory": (["--memory", "1GB"], {"memory": "1GB"}, {"clocks", "spans", "kv"}),
    "delimiter": (["--delimiter", "=="], {"delimiter": "=="}, {"broadcast", "spans", "kv"}),
    "skip-unmatched": (["--skip-unmatched"], {"skip_unmatched": True}, {"broadcast", "spans", "kv"}),
    "max-line": (["--max-line", "1MB"], {"max_line": 10**6}, {"broadcast"}),
    "map": (["--map", "session=x"], {"columns": {"session": "x"}}, set(LOGS)),
    "regex": (["--regex", "x", "--format", "csv"], {"regex": "x", "format": "csv"}, {"broadcast"}),
}


@pytest.mark.parametrize("option", GIVEN)
def test_an_option_that_does_not_go_with_the_model_of_a_log_is_refused(
    option: str, tmp_path: Path, antecast: Call
) -> None:
    import antecast as library

    words, values, without = GIVEN[option]
    for model in LOGS if len(without) > 1 else sorted(without):
        name, text = LOGS[model]
        file = put(tmp_path, text, name)
        code, _, err = antecast("audit", file, *words)
        assert (code == 2 and f"--{option}" in err and err.count("\n") == 1) == (model in without), (model, err)
        if model not in without:
            assert code in (0, 1, 3)
            continue
        with pytest.raises(ConfigurationError):
            library.audit(file, **values)
        if option not in ("pairs", "memory", "clock", "complete", "map", "regex"):
            code, _, err = antecast("audit", file, *words, "--follow", "--until-idle", "0.01")
            assert code == 2 and f"--{option}" in err, (model, err)


@pytest.mark.parametrize(
    "words",
    [
        ("--export-file", "x.csv"),
        ("--witness-only",),
        ("--state", "place"),
        ("--until-idle", "1"),
        ("--window", "5"),
        ("--master", "local[1]", "--engine", "local"),
    ],
)
def test_an_option_that_needs_another_one_is_refused_without_it(
    words: tuple[str, ...], tmp_path: Path, antecast: Call
) -> None:
    code, _, err = antecast("audit", put(tmp_path, TABLE, "a.csv"), *words)
    assert code == 2 and err.startswith(f"error: {words[0]}: ")


def test_a_node_without_a_row_is_named_where_it_is_said_to_be_complete(tmp_path: Path) -> None:
    verdict = antecast.audit(put(tmp_path, TABLE, "a.csv"), complete=["a", "b", "bob"])
    assert verdict.outcome == "causal" and "complete: a, b, bob; no row of bob" in str(verdict)
    assert "there is no host bob" in str(
        antecast.audit(put(tmp_path, govector(EVENTS), "a.log"), complete=["bob"])
    )


def test_the_window_of_the_command_is_that_of_the_follower() -> None:
    from antecast.auditing import follow
    from antecast.cli import audit_follow

    assert audit_follow.WINDOW == follow.WINDOW


def test_what_is_held_in_memory_takes_no_options_of_files(tmp_path: Path) -> None:
    rows = [
        dict(zip(TABLE.split("\n", 1)[0].split(","), each, strict=True))
        for each in (("a", 0, "broadcast", "a", 1),)
    ]
    table = pa.Table.from_pylist(rows)
    for options in ({"engine": "quantum"}, {"engine": "spark"}, {"master": "local[1]"}, {"format": "csv"}):
        with pytest.raises(ConfigurationError, match=r"no such engine|is an option for files"):
            antecast.audit(table, **options)
    with pytest.raises(ConfigurationError, match="this is judged as broadcast"):
        antecast.audit(table, skew=5)


@pytest.mark.parametrize("require", ["XX", "none", ""])
def test_levels_that_are_none_are_refused_whatever_the_log(require: str, tmp_path: Path, antecast: Call) -> None:
    """A history that is violated passed where no level was required."""
    for name, text in LOGS.values():
        code, _, err = antecast("audit", put(tmp_path, text, name), "--require", require)
        assert code == 2 and "--require: " in err and "monotonic-reads" in err


def test_a_result_without_a_place_is_located_in_the_log(tmp_path: Path) -> None:
    file = put(tmp_path, "node,pos,kind,origin,seq\nb,0,deliver,a,1\na,0,broadcast,a,2\n", "log.csv")
    (result,) = json.loads(audit_files([file]).sarif())["runs"][0]["results"]
    assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": file.as_uri()}}}]


def test_levels_that_are_not_required_do_not_count(tmp_path: Path) -> None:
    text = "w(1,1,1,1)\nr(1,1,2,2)\nw(1,2,1,3)\nr(1,2,2,4)\nr(1,1,2,5)\n"
    file = put(tmp_path, text, "p.txt")
    assert antecast.audit(file).outcome == "violated"
    assert antecast.audit(file, require=["read-atomic"]).outcome == "kept"
    done = audit_files([file], Request(require=["read-atomic"]))
    assert [each.level for each in done.findings] == ["note"]
    assert 'failures="0"' in done.junit() and "<failure" not in done.junit("inconclusive")
    assert json.loads(done.sarif())["runs"][0]["results"][0]["level"] == "note"
    assert [line.split()[0] for line in done.annotations()] == ["::notice", "::notice"]
    follower = Follower([file], Request(require=["read-atomic"]))
    assert follower.poll() == [] and follower.result().outcome == "sound"
    done = audit_files([file])
    assert {(each.file, each.line) for each in done.findings} == {(str(file), 5)}


@pytest.mark.parametrize("form", TRACES)
def test_every_trace_has_a_report(form: str, tmp_path: Path) -> None:
    done = audit_files([put(tmp_path, TRACES[form](EARLY))])
    done.write(tmp_path / "out")
    assert "Witnesses" in antecast.report(tmp_path / "out").read_text()


def test_a_folder_of_tables_may_hold_other_files_and_a_folder_of_foreign_logs_may_not(tmp_path: Path) -> None:
    """Tables are chosen by their suffixes; of foreign logs nothing is left out silently."""
    put(tmp_path, "about this log", "README.md")
    put(tmp_path, "", "empty.txt")
    table = put(tmp_path, chat(), "chat.jsonl")
    assert antecast.audit(tmp_path).outcome == "causal"
    table.unlink()
    put(tmp_path, govector(EVENTS), "a.log")
    with pytest.raises(InputError, match=r"README\.md: this file is of no format that is known"):
        antecast.audit(tmp_path)
    (tmp_path / "README.md").unlink()
    with pytest.raises(InputError, match=r"empty\.txt: the file is empty"):
        antecast.audit(tmp_path)


def test_results_for_code_scanning_name_files_as_addresses() -> None:
    (result,) = json.loads(gate.sarif([Finding("early", "words", "my log#1.txt", 3)]))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20log%231.txt"


ODD = "x\x1b[2J\nsound: all is well\u202e"
"""A name that clears the screen, and has a line of its own, on a terminal that obeys it."""
SPOKEN = {
    "log.jsonl": chat(
        [
            {**row, "node": ODD + str(row["node"]), "origin": ODD + str(row["origin"])}
            for row in (*CHAT, {**CHAT[5], "pos": 2})
        ]
    ),
    "spans.json": "".join(
        json.dumps({"traceId": "t", "spanId": ODD + name, "serviceName": ODD, "name": ODD} | more) + "\n"
        for name, more in {
            "a": {"startTimeUnixNano": "10", "endTimeUnixNano": "20"},
            "b": {"startTimeUnixNano": "7", "endTimeUnixNano": "9", "parentSpanId": ODD + "a"},
        }.items()
    ),
    "log.edn": f'{{:type :ok, :process 0, :f :txn, :value [[:r "{ODD}" "{ODD}"]]}}\n',
}


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("name", SPOKEN)
def test_names_of_a_log_are_shown_and_not_obeyed(name: str, follow: bool, tmp_path: Path, antecast: Call) -> None:
    file = put(tmp_path, SPOKEN[name], name)
    more = ["--follow", "--until-idle", "0.05"] if follow else []
    code, said, _ = antecast("audit", str(file), *more)
    assert code == (3 if follow and name == "log.edn" else 1)
    told = str(audit_files([file]).verdict)
    for text in (said, told):
        assert "\x1b" not in text and "\u202e" not in text and "\nsound" not in text
    assert "x\\x1b[2J\\nsound: all is well\\u202e" in told


def test_names_in_an_error_are_shown_and_not_obeyed(tmp_path: Path, antecast: Call) -> None:
    file = put(tmp_path, "node,pos,kind,\x1b[2Jorigin,seq\n", "log.csv")
    code, _, problem = antecast("audit", str(file))
    assert code == 2 and "\x1b" not in problem and "\\x1b[2Jorigin" in problem
