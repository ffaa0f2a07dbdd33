"""Logs as programs in use write them, with what the documentation of a format leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sound_logs import SPANS, TRACES, otlp, put

import antecast
from antecast.core.errors import InputError

NODE = """{
  resource: {
    attributes: {
      'service.name': 'shop',
      'process.command_args': [ '/usr/bin/node', '/srv/main.js' ],
      'process.pid': 12
    }
  },
  instrumentationScope: { name: 'example', version: undefined, schemaUrl: undefined },
  traceId: 'd4cda95b652f4a1592b449d5929fda1b',
  PARENT,
  traceState: undefined,
  name: "it's a \\"call\\"",
  id: 'ID',
  kind: 1,
  timestamp: TIME,
  duration: 52.291,
  attributes: { deep: [Object], ok: true },
  status: { code: 0 },
  events: [],
  links: []
}
"""


def node(name: str, parent: str, time: str) -> str:
    return NODE.replace("ID", name).replace("PARENT", parent).replace("TIME", time)


def test_spans_of_javascript_are_read_as_node_prints_them(tmp_path: Path) -> None:
    old, new = "parentId: '6e0c63257de34c92'", "parentSpanContext: {\n    spanId: '6e0c63257de34c92'\n  }"
    root = node("6e0c63257de34c92", "parentId: undefined", "1714557600000000.5")
    file = put(tmp_path, root + node("aa", old, "1714557600000001") + node("bb", new, "1714557600000000.25"))
    verdict = antecast.audit(file)
    (row,) = verdict.violations.to_pylist()
    assert (row["kind"], row["line"]) == ("child before parent", 2 * root.count("\n") + 1)
    assert "starts 250 ns before" in row["words"] and 'a "call"' in row["words"]
    for broken, line in ((root[:-3], 1), (root.replace("kind: 1", "kind 1"), 15), (root + "listening\n", 23)):
        with pytest.raises(InputError, match=f":{line}: "):
            antecast.audit(put(tmp_path, broken, "broken"))


def test_spans_of_python_have_events_and_are_no_history(tmp_path: Path) -> None:
    context = {"trace_id": "0x0a", "span_id": "0x01", "trace_state": "[]"}
    times = {"start_time": "2024-05-01T12:00:00.000001Z", "end_time": "2024-05-01T12:00:01Z"}
    span = {"name": "GET", "context": context, "kind": "SpanKind.SERVER", "parent_id": None, **times}
    text = json.dumps({**span, "attributes": {"success": True}, "events": [], "links": []}, indent=4)
    assert str(antecast.audit(put(tmp_path, f"{text}\n"))).startswith("sound: 1 span")


def test_a_key_that_is_there_twice_is_refused_in_lines_of_json(tmp_path: Path) -> None:
    lines = otlp(SPANS).splitlines(keepends=True)
    lines[1] = lines[1].replace('"spanId"', '"spanId" : "ff", "spanId"', 1)
    with pytest.raises(InputError, match=":2: not JSON: the key 'spanId' is there twice"):
        antecast.audit(put(tmp_path, "".join(lines)))


def test_a_comparison_with_a_write_is_both_and_other_operations_of_clients_are_refused(tmp_path: Path) -> None:
    def line(kind: str, f: str, value: str, process: object = 0) -> str:
        return f"{{:type :{kind}, :f :{f}, :value {value}, :process {process}}}\n"

    history = line("ok", "write", "1") + line("fail", "cas", "[7 9]") + line("ok", "cas", "[1 2]", 1)
    kept = history + line("ok", "read", "2", 2) + line("info", "kill", "nil", ":nemesis")
    assert antecast.audit(put(tmp_path, kept)).outcome == "kept"
    stale = antecast.audit(put(tmp_path, kept + line("ok", "read", "1", 2)))
    assert stale.outcome == "violated" and stale.violations["line"].to_pylist() == [6]
    aborted = antecast.audit(put(tmp_path, history + line("ok", "read", "9", 2)))
    assert aborted.counts == {"aborted-read": 1}
    with pytest.raises(InputError, match=":6: an operation :add of a client is not known"):
        antecast.audit(put(tmp_path, kept + line("ok", "add", "3")))


@pytest.mark.parametrize("date", ["Wed, 1 May 2024 12:00:0{} +0200", "171455760{}", "171455760{} +0200"])
def test_dates_of_commits_come_in_every_form_that_git_has(date: str, tmp_path: Path) -> None:
    def commit(name: str, parents: str, second: int) -> str:
        person = (
            f"Author: A <a@b>\nAuthorDate: {date.format(0)}\nCommit: A <a@b>\nCommitDate: {date.format(second)}"
        )
        return f"commit {name * 7}{parents}\n{person}\n\n    text\n\n"

    verdict = antecast.audit(put(tmp_path, commit("b", " aaaaaaa", 1) + commit("a", "", 2)))
    assert [row["kind"] for row in verdict.violations.to_pylist()] == ["child before parent"]


def test_what_is_no_list_or_no_text_where_one_is_expected_is_refused_at_its_line(tmp_path: Path) -> None:
    """Found by mutation: each of these was a traceback."""
    go = TRACES["otel-console-go"](SPANS)
    with pytest.raises(InputError, match=r":\d+: Resource is no array"):
        antecast.audit(put(tmp_path, go.replace('"Resource":', '"Resource": 5, "x":', 1)))
    python = TRACES["otel-console"](SPANS)
    with pytest.raises(InputError, match=r":\d+: links is no array"):
        antecast.audit(put(tmp_path, python.replace('"links": []', '"links": 7', 1)))
    jaeger = json.loads(TRACES["jaeger"](SPANS))
    jaeger["data"][0]["spans"][0]["tags"] = [{"key": ["odd"], "value": 1}]
    assert antecast.audit(put(tmp_path, json.dumps(jaeger))).outcome == "sound"
    with pytest.raises(InputError, match=":1: not JSON: half of a surrogate pair"):
        antecast.audit(put(tmp_path, '{"node": 1, "\\ud800": 2}\n', "log.jsonl"))


@pytest.mark.parametrize("name", ["node", "kind", "origin", "pos", "seq", "run"])
def test_a_value_that_is_missing_is_refused_before_anything_is_counted(name: str, tmp_path: Path) -> None:
    row = {"run": 1, "node": "a", "pos": 0, "kind": "broadcast", "origin": "a", "seq": 1}
    rows = [row, {**row, "pos": 1, "kind": "deliver"}, {**row, "pos": 2, "seq": 2, name: None}]
    text = "".join(f"{json.dumps(each)}\n" for each in rows)
    with pytest.raises(InputError, match=f":3: .*{name} is null"):
        antecast.audit(put(tmp_path, text, "log.jsonl"))


def test_half_of_a_surrogate_pair_is_refused_at_its_line(tmp_path: Path) -> None:
    for odd in (r"\ud800", r"\ude00", r"\ud83dx\ude00", r"\\\ud83d"):
        history = f'[[{{"events": [{{"write": true, "variable": "x{odd}",\n "version": 1}}], "success": true}}]]'
        with pytest.raises(InputError, match=":1: not JSON: half of a surrogate pair"):
            antecast.audit(put(tmp_path, history), format="dbcop")
        zipkin = TRACES["zipkin"](SPANS).replace("work c3", f"work {odd}")
        with pytest.raises(InputError, match=r":\d+: not JSON: "):
            antecast.audit(put(tmp_path, zipkin))
    for fine in (r"\ud83d\ude00", r"\\ud800", r"\u00e9"):
        assert antecast.audit(put(tmp_path, TRACES["zipkin"](SPANS).replace("work c3", fine))).outcome == "sound"
