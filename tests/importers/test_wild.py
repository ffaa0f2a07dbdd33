"""Logs as programs in use write them, with what the documentation of a format leaves out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sound_logs import SPANS, TRACES, otlp, put, shifted

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
    with pytest.raises(InputError, match=r":\d+: Resource is 5, where an array is expected"):
        antecast.audit(put(tmp_path, go.replace('"Resource":', '"Resource": 5, "x":', 1)))
    python = TRACES["otel-console"](SPANS)
    with pytest.raises(InputError, match=r":\d+: links is 7, where an array is expected"):
        antecast.audit(put(tmp_path, python.replace('"links": []', '"links": 7', 1)))
    jaeger = json.loads(TRACES["jaeger"](SPANS))
    jaeger["data"][0]["spans"][0]["tags"] = [{"key": ["odd"], "value": 1}]
    assert antecast.audit(put(tmp_path, json.dumps(jaeger))).outcome == "sound"
    with pytest.raises(InputError, match=":1: not JSON: half of a surrogate pair"):
        antecast.audit(put(tmp_path, '{"node": 1, "\\ud800": 2}\n', "log.jsonl"))


@pytest.mark.parametrize("kind", [["CHILD_OF"], "PARENT", None, 0])
def test_a_reference_of_no_known_kind_is_not_taken_for_a_link(kind: Any, tmp_path: Path) -> None:
    """A child may start before what it only links to: an early one passed as sound."""
    text = TRACES["jaeger"](shifted(SPANS, "c3", -150_000))
    file = put(tmp_path, text.replace('"CHILD_OF"', json.dumps(kind)))
    with pytest.raises(InputError, match=r":\d+: refType is .*, where CHILD_OF or FOLLOWS_FROM is expected"):
        antecast.audit(file)


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


ODD = [True, 5, 1.5, "x", [], [7], {}, {"a": 1}]


@pytest.mark.parametrize("form", ["otlp", "otlp-bare", "jaeger", "zipkin", "otel-console", "otel-console-go"])
def test_a_value_of_another_type_anywhere_is_judged_or_refused(form: str, tmp_path: Path) -> None:
    """Found by mutation: resources, references and processes of other types were tracebacks."""
    text = TRACES[form](SPANS)
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = [json.loads(line) for line in text.splitlines()] if text.startswith('{"') else None
    if found is None:
        decoder, found, at = json.JSONDecoder(), [], 0
        while at < len(text.rstrip()):
            value, at = decoder.raw_decode(text, len(text) - len(text[at:].lstrip()))
            found.append(value)

    def places(value: Any) -> Iterator[tuple[Any, Any]]:
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, each in list(inside):
            yield value, key
            yield from places(each)

    for number, (holder, key) in enumerate(list(places(found))[:60]):
        kept, holder[key] = holder[key], ODD[number % len(ODD)]
        file = put(tmp_path, json.dumps(found))
        try:
            antecast.audit(file, format=form.removesuffix("-go").removesuffix("-bare"))
        except InputError as error:
            assert "\n" not in str(error)
        holder[key] = kept


def spans_csv(*rows: str) -> str:
    return "\n".join(
        ["TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano", *rows, ""]
    )


def test_times_at_the_edges_of_64_bits_do_not_wrap(tmp_path: Path) -> None:
    least, most = -(2**63), 2**63 - 1
    early = spans_csv(f"t,a,root,p,x,{most},{most}", f"t,b,a,q,x,{least},{most}")
    verdict = antecast.audit(put(tmp_path, early, "log.csv"))
    assert verdict.found["child before parent"] == 1 and verdict.outcome == "violated"
    late = spans_csv(f"t,a,root,p,x,{least},{most}", f"t,b,a,q,x,{most},{most}")
    assert antecast.audit(put(tmp_path, late, "log.csv")).outcome == "sound"


def test_a_link_to_a_span_that_is_not_there_leaves_the_verdict_open(tmp_path: Path) -> None:
    span = {"traceId": "t", "spanId": "a", "name": "x", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    file = put(tmp_path, json.dumps({**span, "links": [{"traceId": "u", "spanId": "gone"}]}) + "\n")
    verdict = antecast.audit(file)
    assert verdict.outcome == "inconclusive" and "links to gone, which is not in the log" in str(verdict)


def test_what_a_server_calls_under_a_shared_id_is_its_own_and_not_the_clients(tmp_path: Path) -> None:
    def span(name: str, service: str, start: int, **more: object) -> dict[str, object]:
        ends = {"timestamp": start, "duration": 100, "localEndpoint": {"serviceName": service}}
        return {"traceId": "t", "id": name, **ends, **more}

    halves = [span("b", "shop", 1000, kind="CLIENT"), span("b", "ads", 1040, kind="SERVER", shared=True)]
    for start, outcome in ((1050, "sound"), (1020, "violated")):
        file = put(tmp_path, json.dumps([*halves, span("c", "ads", start, parentId="b")]), "log.json")
        assert antecast.audit(file).outcome == outcome


def test_a_long_value_is_part_of_a_table(tmp_path: Path) -> None:
    rows = [f"t,a,root,p,{'x' * 300_000},1,9", "t,b,a,p,x,0,5"]
    assert antecast.audit(put(tmp_path, spans_csv(*rows), "spans.csv")).violations["line"].to_pylist() == [3]
    table = f"node,pos,kind,origin,seq,body\na,0,broadcast,a,1,{'x' * 300_000}\nb,0,deliver,a,1,\n"
    assert antecast.audit(put(tmp_path, table, "log.csv")).outcome == "causal"


def test_events_may_have_braces_of_their_own(tmp_path: Path) -> None:
    pairs = [('a {"a":1}', "sends"), ('b {"b":1, "a":1}', 'recv {"x":1}'), ('b {"b":2, "a":1}', 'json {"y": 2} z')]
    for turn in (1, -1):
        lines = [line for pair in pairs for line in pair[::turn]]
        assert str(antecast.audit(put(tmp_path, "\n".join([*lines, ""])))).startswith("sound: 3 events of 2 hosts")
        with pytest.raises(InputError, match=r":\d: (a second clock|a clock without an event|expected HOST)"):
            antecast.audit(put(tmp_path, "\n".join([*lines[:2], *lines[3:], ""])))


@pytest.mark.parametrize("form", ["otlp", "otlp-bare", "jaeger", "zipkin"])
def test_a_span_may_have_an_id_of_zeros(form: str, tmp_path: Path) -> None:
    """Not by the book, and no reason to refuse a log: only a parent of zeros means that there is none."""
    text = TRACES[form](SPANS)
    assert antecast.audit(put(tmp_path, text.replace('"e5"', '"0000"'))).outcome == "sound"


@pytest.mark.parametrize("span", ["a1", "c3"])
@pytest.mark.parametrize("name", ["startTimeUnixNano", "endTimeUnixNano"])
def test_a_time_that_was_never_set_is_refused_where_others_are_of_our_days(
    name: str, span: str, tmp_path: Path
) -> None:
    """A parent that starts in 1970 is before all of its children: nothing could be wrong with them."""
    texts = otlp(SPANS).splitlines()
    number = next(at for at, text in enumerate(texts) if f'"spanId": "{span}"' in text)
    texts[number] = re.sub(rf'("spanId": "{span}".*?"{name}": )"\d+"', r'\1"0"', texts[number])
    with pytest.raises(InputError, match=f":{number + 1}: {name} is 0, which means that it was never set"):
        antecast.audit(put(tmp_path, "\n".join(texts)))


def test_spans_under_the_old_and_the_new_name_of_their_group_are_all_read(tmp_path: Path) -> None:
    value = json.loads(otlp(SPANS).splitlines()[0])
    first = value["resourceSpans"][0]
    first["instrumentationLibrarySpans"] = first["scopeSpans"]
    for none in ([], [{"spans": []}]):
        first["scopeSpans"] = none
        assert antecast.audit(put(tmp_path, json.dumps(value))).counts["spans"] == 1


@pytest.mark.parametrize("word", ["0", "000", "root", "None", "-1"])
def test_a_word_for_no_parent_names_a_span_that_is_called_so(word: str, tmp_path: Path) -> None:
    header = "trace,span,parent,service,start,end\n"
    early = header + f"t,{word},{word},s,50,90\nt,b,{word},s,49,60\n"
    verdict = antecast.audit(put(tmp_path, early, "spans.csv"))
    assert dict(verdict.found)["child before parent"] == 1 and verdict.violations["line"].to_pylist() == [3]
    apart = header + f"t,{word},,s,50,90\nu,b,{word},s,49,60\n"
    assert antecast.audit(put(tmp_path, apart, "spans.csv")).outcome == "sound"


def test_traces_of_two_runs_are_two_traces(tmp_path: Path) -> None:
    rows = ["run,trace,span,parent,service,start,end", "1,t,a,,s,10,20", "1,t,b,a,s,11,12", "2,t,a,,s,1,9"]
    assert antecast.audit(put(tmp_path, "\n".join([*rows, "2,t,b,a,s,2,3", ""]), "s.csv")).outcome == "sound"
    wrong = antecast.audit(put(tmp_path, "\n".join([*rows, "1,t,c,a,s,2,3", ""]), "s.csv"))
    assert wrong.violations["line"].to_pylist() == [5]


RAW = """commit aaaaaaa
tree ccccccc
parent bbbbbbb
author A <a@b> 20 +0000
committer A <a@b> 20 +0000

    text

commit bbbbbbb
tree ccccccc
author A <a@b> 10 +0000
committer A <a@b> 10 +0000

    text
"""


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        ("parent bbbbbbb", "parent bbb", 3),
        ("parent bbbbbbb", "parent", 3),
        ("commit bbbbbbb", "commit b", 9),
        ("commit bbbbbbb", "bbbbbbb", 12),
    ],
)
def test_a_commit_or_a_parent_that_cannot_be_read_is_no_part_of_another(
    was: str, now: str, line: int, tmp_path: Path
) -> None:
    assert antecast.audit(put(tmp_path, RAW)).outcome == "sound"
    with pytest.raises(InputError) as told:
        antecast.audit(put(tmp_path, RAW.replace(was, now)))
    assert told.value.line == line
