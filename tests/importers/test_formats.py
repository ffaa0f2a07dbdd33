"""Every format is recognised by what the file holds and read with the place of each event."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pyarrow as pa
import pytest
from sound_logs import SPANS, TRACES, clock_events, govector, otlp_proto, put

import antecast
from antecast.core.errors import ConfigurationError, InputError
from antecast.core.log_files import find_files
from antecast.importers.registry import importer, recognise
from antecast.importers.source import Options, Source

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="the real logs are not here")


@real
@pytest.mark.parametrize(
    "name,events,hosts",
    [
        ("chord", 1235, 8),
        ("simpledb", 509, 5),
        ("reliable-broadcast", 116, 4),
        ("simple-reliable-broadcast", 39, 3),
    ],
)
def test_real_logs_with_vector_clocks_are_read_and_sound(name: str, events: int, hosts: int) -> None:
    from antecast.models.clocks import judge

    source = Source((DATA / "govector" / f"{name}.log",))
    found = recognise(source)
    assert found is not None
    log = found.read(source)
    assert (found.NAME, len(log), len(set(log.host.tolist()))) == ("govector", events, hosts)
    assert judge(log).outcome == "sound"


@real
def test_real_spans_have_14_children_before_their_parents_which_skew_explains() -> None:
    from antecast.models.spans import judge

    source = Source((DATA / "spans" / "onlineboutique.csv.gz",))
    found = recognise(source)
    assert found is not None
    log = found.read(source)
    assert (len(log), len(log.traces), len(log.services)) == (23397, 517, 10)
    verdict = judge(log)
    assert dict(verdict.found) == dict.fromkeys(verdict.found, 0) | {"child before parent": 14}
    assert any("342 µs" in note and "adservice" in note for note in verdict.notes)
    assert any("explains all" in note for note in verdict.notes)
    assert judge(log, skew=342_000).outcome == "sound"
    assert judge(log, skew=341_000).outcome == "violated"


@pytest.mark.parametrize("form", TRACES)
def test_a_trace_is_the_same_in_every_format(form: str, tmp_path: Path) -> None:
    text = TRACES[form](SPANS)
    source = Source((put(tmp_path, text),))
    found = recognise(source)
    assert found is not None and form.startswith(found.NAME.split("-")[0])
    log = found.read(source)
    order = SPANS[::-1] if form.startswith("git") else SPANS
    assert [each.removesuffix(each[2:]) for each in log.ids] == [span.span for span in order]
    assert [log.services[code] for code in log.service] == [span.service for span in order]
    parents = {int(child): int(parent) for parent, child in zip(log.parent, log.child, strict=True)}
    names = [span.span for span in order]
    assert {names[child]: names[parent] for child, parent in parents.items()} == {
        span.span: span.parent for span in SPANS if span.parent
    }
    if not form.startswith("git"):
        assert [(int(log.start[each]), int(log.end[each])) for each in range(5)] == [
            (span.start, span.end) for span in order
        ]
        unkinded = form == "spans-csv"
        assert [log.kind_of(each) for each in range(5)] == ["" if unkinded else span.kind for span in order]
    lines = text.splitlines()
    for span, name in enumerate(names):  # the place leads to the span, whatever the layout
        start = log.place(span).line - 1
        record = "\n".join(lines[start : start + 24])
        assert min(record.find(other.span) for other in SPANS if other.span in record) >= 0
        assert name in record.split(f"work {name}")[0] + f"work {name}"


def test_otlp_in_protobuf_is_recognised_alone_and_behind_lengths(tmp_path: Path) -> None:
    one = otlp_proto(SPANS)
    framed = b"".join(len(each).to_bytes(4) + each for each in (one, otlp_proto(SPANS[:0]), one))
    for name, data in {"plain": one, "framed": framed}.items():
        source = Source((put(tmp_path, data, name),))
        found = recognise(source)
        assert found is not None and found.NAME == "otlp-proto"
        log = found.read(source)
        assert len(log) == 5 * (1 + (name == "framed"))
        assert (log.start[2], log.kind_of(2), log.services[log.service[3]]) == (SPANS[2].start, "server", "store")
    with pytest.raises(InputError, match="cut short"):
        importer("otlp-proto").read(Source((put(tmp_path, one[:-3], "cut"),)))


def test_a_server_that_shares_its_id_with_the_client_is_its_child(tmp_path: Path) -> None:
    half = '{{"traceId":"t","id":"a","kind":"{}","timestamp":{},"duration":5,'
    half += '"localEndpoint":{{"serviceName":"{}"}}{}}}'
    server = half.format("SERVER", 9, "y", ',"shared":true')
    text = f"[{half.format('CLIENT', 10, 'x', '')},\n{server}]"
    from antecast.models.spans import judge

    verdict = judge(importer("zipkin").read(Source((put(tmp_path, text),))))
    assert verdict.found["child before parent"] == 1 and verdict.found["same id twice"] == 0
    assert verdict.violations.to_pylist()[0]["line"] == 2


@pytest.mark.parametrize("layout", ["clock first", "event first", "one line"])
def test_layouts_of_vector_clocks_give_the_same_events(layout: str, tmp_path: Path) -> None:
    events = clock_events()
    source = Source((put(tmp_path, govector(events, layout)),))
    found = recognise(source)
    assert found is not None and found.NAME == "govector"
    log = found.read(source)
    assert [(log.hosts[log.host[each]], log.clock(each), log.texts[each]) for each in range(len(log))] == events
    line = {"clock first": 1, "event first": 2, "one line": 1}[layout]
    assert log.place(0).line == line
    assert log.place(3).line == line + 3 * (1 if layout == "one line" else 2)


def test_any_other_layout_takes_a_regular_expression_and_a_delimiter(tmp_path: Path) -> None:
    text = '=== first ===\nclock={"a":1} who=a\nwhat: x\n=== second ===\nclock={"a":1} who=a\nwhat: y\n'
    options = Options(
        regex=r"clock=(?<clock>.*) who=(?<host>\S+)\nwhat: (?<event>.*)", delimiter="^=== (?<trace>.*) ===$"
    )
    log = importer("govector").read(Source((put(tmp_path, text),), options))
    assert (len(log), log.executions, log.texts) == (2, ("first", "second"), ("x", "y"))
    assert [log.place(each).line for each in range(2)] == [2, 5]
    assert log.host_name(int(log.host[1])) == "second/a"
    strict = Source((put(tmp_path, text + "garbage\n"),), options)
    with pytest.raises(InputError, match=r":7: the line does not match --regex"):
        importer("govector").read(strict)
    lenient = Source(strict.files, Options(regex=options.regex, delimiter=options.delimiter, skip_unmatched=True))
    assert [place.line for place in importer("govector").read(lenient).unmatched] == [7]
    with pytest.raises(ConfigurationError, match="no group 'host'"):
        importer("govector").read(Source(strict.files, Options(regex="(?<clock>.*)(?<event>.*)")))


def test_executions_apart_by_a_delimiter_or_by_files_do_not_mix(tmp_path: Path) -> None:
    one = govector(clock_events(10))
    files = tuple(put(tmp_path, one, name) for name in ("a.log", "b.log"))
    log = importer("govector").read(Source(files, Options(delimiter="@file")))
    assert (len(log), len(log.executions)) == (20, 2)
    text = f"--- \n{one}--- \n{one}"
    log = importer("govector").read(Source((put(tmp_path, text),), Options(delimiter="^--- $")))
    assert (len(log), len(log.executions)) == (20, 2)


def test_compressed_files_are_known_by_their_first_bytes_and_many_are_one_log(tmp_path: Path) -> None:
    events = clock_events(30)
    parts = [govector(events[start : start + 6]).encode() for start in range(0, 30, 6)]
    put(tmp_path, parts[0], "part-1")
    put(tmp_path, gzip.compress(parts[1]), "part-2")
    put(tmp_path, bz2.compress(parts[2]), "part-3")
    put(tmp_path, lzma.compress(parts[3]), "part-9")
    with pa.CompressedOutputStream(pa.OSFile(str(tmp_path / "part-10"), "wb"), "zstd") as stream:
        stream.write(parts[4])
    source = Source(tuple(find_files([tmp_path])))
    found = recognise(source)
    assert found is not None
    log = found.read(source)
    assert [log.texts[each] for each in range(30)] == [text for _, _, text in events]
    assert log.place(29).file.endswith("part-10") and log.place(29).line == 11


def test_git_log_without_parents_is_refused_and_dates_of_authors_are_not_used(tmp_path: Path) -> None:
    commit = "commit {}\nAuthor:     a <a@b>\nAuthorDate: 2024-05-01T12:00:00+02:00\n"
    commit += "Commit:     a <a@b>\nCommitDate: {}\n\n    x\n\n"
    text = commit.format("b" * 40 + " " + "a" * 40, "Wed May 1 12:00:00 2024 +0200")
    text += commit.format("a" * 40, "2024-05-01T10:00:00Z")
    log = importer("git-log").read(Source((put(tmp_path, text),)))
    assert log.start[0] == log.start[1] == 1714557600 * 10**9
    with pytest.raises(InputError, match="--parents"):
        importer("git-log").read(Source((put(tmp_path, text.replace(" " + "a" * 40, "", 1)),)))
    with pytest.raises(InputError, match=":1: the commit has no CommitDate"):
        importer("git-log").read(Source((put(tmp_path, text.replace("CommitDate", "Date")),)))


@pytest.mark.parametrize("layout", ["clock first", "event first", "one line"])
@pytest.mark.parametrize(
    "host", ["app/h1", "<0.1.0>", "[::1]:80", "http://h/", "h:", '"q"', "two words", "h\u00a0x"]
)
def test_a_host_may_have_any_name_that_its_clocks_count(host: str, layout: str, tmp_path: Path) -> None:
    events = [(host, {host: 1}, "sends"), ("b", {host: 1, "b": 1}, "gets"), (host, {host: 2}, "ends")]
    verdict = antecast.audit(put(tmp_path, govector(events, layout).replace(f"[app/{host}]", host)))
    assert verdict.outcome == "sound" and verdict.counts["hosts"] == 2
