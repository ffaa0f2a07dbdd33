"""Logs that grow: a violation is said once, at once, and over restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sound_logs import CHAT, SPANS, chat, clock_events, govector, otlp, put, shifted, spans_csv

from antecast.auditing.follow import Follower
from antecast.auditing.foreign import Request
from antecast.core.errors import ConfigurationError, InputError

EVENTS = clock_events()


def append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text)


@pytest.mark.parametrize("layout", ["clock first", "event first", "one line"])
def test_a_sound_log_stays_so_whatever_the_pieces_it_comes_in(layout: str, tmp_path: Path) -> None:
    text, file = govector(EVENTS, layout), put(tmp_path, "", "log")
    follower = Follower([file], Request())
    for start in range(0, len(text), 97):  # lines and records are cut anywhere
        append(file, text[start : start + 97])
        assert follower.poll() == []
    assert follower.result().outcome == "sound" and follower.result().seen == text.count("\n")


def test_a_violation_is_said_when_it_is_certain_and_once(tmp_path: Path) -> None:
    file = put(tmp_path, "", "log.jsonl")
    rows: list[dict[str, Any]] = [
        *CHAT[:4],
        {**CHAT[5], "pos": 0},
        {**CHAT[4], "pos": 1},
        {**CHAT[0], "pos": 9, "seq": 1},
    ]
    follower = Follower([file], Request())
    said = []
    for row in rows:
        append(file, chat([row]))
        said.append([finding.kind for finding in follower.poll()])
    assert said == [[], [], [], [], [], ["early", "late"], []]
    assert follower.result().outcome == "violated"


def test_spans_may_come_after_their_header(tmp_path: Path) -> None:
    header, *rows = spans_csv(shifted(SPANS, "c3", 100_000)).splitlines(keepends=True)
    file = put(tmp_path, header, "spans.csv")
    follower = Follower([file], Request())
    assert follower.poll() == [] and follower.result().outcome == "inconclusive"
    assert f"waiting for the rest of {file}:1" in str(follower.result())
    append(file, "".join(rows))
    assert [finding.kind for finding in follower.poll()] == ["child before parent"]


def test_what_may_still_come_is_no_violation(tmp_path: Path) -> None:
    """A clock ahead of another file, a child before its parent's span is written."""
    one, two = put(tmp_path, 'a {"a": 1, "b": 1}\ngot it\n', "a.log"), tmp_path / "b.log"
    follower = Follower([tmp_path], Request())
    assert follower.poll() == [] and follower.result().outcome == "inconclusive"
    put(tmp_path, 'b {"b": 1}\nsent it\n', two.name)
    assert follower.poll() == [] and follower.result().outcome == "sound"
    one.unlink()
    two.unlink()
    file = put(tmp_path, otlp(SPANS[::-1][:2]), "trace.json")
    traces = Follower([file], Request())
    assert traces.poll() == [] and traces.result().outcome == "inconclusive"
    append(file, otlp(shifted(SPANS, "c3", 100_000)[::-1][2:]))
    (found,) = traces.poll()
    assert (found.kind, found.line) == ("child before parent", 2)


def test_a_restart_goes_on_where_it_was_and_repeats_nothing(tmp_path: Path) -> None:
    file, state = put(tmp_path, govector(EVENTS[:20])), tmp_path / "state.json"
    first = Follower([file], Request(), state=state)
    assert first.poll() == []
    append(file, govector([EVENTS[3]]))
    assert [finding.kind for finding in first.poll()] == ["counted twice"]
    again = Follower([file], Request(), state=state)
    assert again.poll() == []
    append(file, govector([EVENTS[4]]))
    assert [(finding.kind, finding.line) for finding in again.poll()] == [("counted twice", 43)]
    assert (again.result().seen, again.result().violations) == (44, 2)
    state.write_text("{}")
    with pytest.raises(InputError, match="not the state of --follow"):
        Follower([file], Request(), state=state)


def test_a_file_that_was_truncated_before_a_restart_leaves_the_verdict_open(tmp_path: Path) -> None:
    """Its lines cannot be read again: what came later was never compared with them."""
    file, state = put(tmp_path, otlp(SPANS), "trace.json"), tmp_path / "state"
    assert Follower([file], Request(), state=state).poll() == []
    text = otlp(SPANS[:1])
    for again in (text, text * 2, text * 9):
        file.write_text(again)
        follower = Follower([file], Request(), state=state)
        follower.poll()
        result = follower.result()
        assert result.dropped >= 5 and result.outcome == ("inconclusive" if again == text else "violated")


def test_memory_is_bounded_by_a_window_that_the_verdict_states(tmp_path: Path) -> None:
    file = put(tmp_path, "")
    follower = Follower([file], Request(), window=20)
    for event in EVENTS:
        append(file, govector([event]))
        assert follower.poll() == []
        assert sum(len(tail.lines) for tail in follower.tails.all) <= 20
    result = follower.result()
    assert result.outcome == "inconclusive" and result.dropped == 60
    assert "window of 20 lines; 60 lines have left it" in str(result)
    append(file, govector([EVENTS[-1]]))
    assert [(finding.kind, finding.line) for finding in follower.poll()] == [("counted twice", 81)]


def test_a_table_keeps_its_header_and_its_lines_when_the_window_moves_on(tmp_path: Path) -> None:
    rows = [f"a,{number},broadcast,a,{number}\n" for number in range(30)]
    file = put(tmp_path, "node,pos,kind,origin,seq\n", "log.csv")
    follower = Follower([file], Request(), window=10)
    for row in rows:
        append(file, row)
        assert follower.poll() == []
    append(file, "b,0,deliver,a,29\nb,1,deliver,a,28\n")
    assert {(finding.kind, finding.line) for finding in follower.poll()} == {("early", 32), ("late", 33)}


def test_a_file_that_was_rotated_is_a_new_file(tmp_path: Path) -> None:
    file = put(tmp_path, govector(EVENTS[:20]))
    follower = Follower([file], Request())
    follower.poll()
    file.rename(tmp_path / "old")
    put(tmp_path, govector(EVENTS[20:]))
    assert follower.poll() == []
    assert follower.result().seen == 80


@pytest.mark.parametrize("whole_folder", [True, False])
def test_rotation_reads_the_old_file_to_its_end_and_judges_both_together(
    whole_folder: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    file, state = put(folder, govector(EVENTS[:20]), "app.log"), tmp_path / "state"
    follower = Follower([folder if whole_folder else file], Request(), state=state)
    follower.poll()
    append(file, govector(EVENTS[20:22]))
    file.rename(folder / "app.log.1")
    put(folder, govector(EVENTS[22:]), "app.log")
    assert follower.poll() == [] and follower.result().seen == 2 * len(EVENTS)
    put(folder, "", "app.log.2.gz").write_bytes(b"\x1f\x8b\x08 what was rotated before")
    append(file, govector([EVENTS[3]]))
    (found,) = follower.poll()
    assert found.kind == "counted twice" and "app.log.1:7" in found.words
    assert Follower([folder if whole_folder else file], Request(), state=state).poll() == []


@pytest.mark.parametrize("renamed", [True, False])
@pytest.mark.parametrize("look", range(1, 16))
def test_a_file_may_go_at_any_moment_of_a_look(
    look: int, renamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is renamed, or removed, just before its nth use: nothing fails, and what is lost is said."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in "abc":
        put(logs, govector([(name, {name: 1}, "starts")]), f"{name}.log")
    follower, file, uses = Follower([logs], Request(format="govector")), logs / "b.log", iter(range(1, 99))

    def watched(name: str) -> None:
        real = getattr(Path, name)

        def used(self: Path, *args: Any, **options: Any) -> Any:
            if self == file and next(uses) == look:
                file.rename(logs / "b.old") if renamed else file.unlink()
            return real(self, *args, **options)

        monkeypatch.setattr(Path, name, used)

    watched("stat")
    watched("open")
    follower.poll()
    follower.poll()
    lines, outcome = follower.result().seen, follower.result().outcome
    assert lines == 6 if renamed else lines in (4, 6)
    assert outcome == "sound" or "b.log is gone, and 18 bytes of it were not read" in str(follower.result())
    assert look != 8 or outcome == ("sound" if renamed else "inconclusive")


def test_a_file_that_was_truncated_begins_anew_even_if_it_has_grown_past_its_place(tmp_path: Path) -> None:
    file = put(tmp_path, govector(EVENTS[:10]))
    follower = Follower([file], Request())
    follower.poll()
    file.write_text(govector(EVENTS[10:30]), encoding="utf-8")  # the same file, other lines, and more of them
    assert follower.poll() == [] and follower.result().seen == 60
    file.write_text(govector([EVENTS[29]]), encoding="utf-8")
    assert [(finding.kind, finding.line) for finding in follower.poll()] == [("counted twice", 1)]


def test_a_long_file_is_read_in_steps_of_the_window(tmp_path: Path) -> None:
    follower = Follower([put(tmp_path, govector(EVENTS))], Request(), window=10)
    assert follower.tails.grow(10) == 10
    assert sum(len(tail.lines) for tail in follower.tails.all) == 10
    assert follower.judge(10) == [] and follower.poll() == []
    assert follower.result().seen == 2 * len(EVENTS) and follower.result().dropped == 2 * len(EVENTS) - 10


def test_a_record_that_is_not_whole_in_one_file_leaves_the_others_alone(tmp_path: Path) -> None:
    one, two = put(tmp_path, 'a {"a": 1}\nx\n', "a.log"), put(tmp_path, 'b {"b": 1}\nx\n', "b.log")
    follower = Follower([one, two], Request())
    follower.poll()
    append(one, 'a {"a": 2}\n')
    append(two, 'b {"b": 2, "a": 2}\ny\n')
    assert follower.poll() == [] and "waiting for the rest of" in follower.result().waiting
    append(one, "y\n")
    assert follower.poll() == [] and follower.result().outcome == "sound"


def console(number: int) -> str:
    """A span as Python's console exporter prints it."""
    context = {"trace_id": f"0x{number // 2 + 1:032x}", "span_id": f"0x{number + 1:016x}", "trace_state": "[]"}
    parent = None if number % 2 == 0 else f"0x{number:016x}"
    times = {"start_time": f"2024-05-01T12:00:{number:02}.5Z", "end_time": f"2024-05-01T12:00:{number:02}.6Z"}
    span = {"name": "call", "context": context, "kind": "SpanKind.INTERNAL", "parent_id": parent, **times}
    return json.dumps({**span, "attributes": {}, "events": [], "links": []}, indent=4) + "\n"


def test_records_of_many_lines_may_be_cut_by_both_edges_of_the_window(tmp_path: Path) -> None:
    text, file = "".join(map(console, range(20))), put(tmp_path, "")
    follower = Follower([file], Request(), window=50)
    for start in range(0, len(text), 333):
        append(file, text[start : start + 333])
        assert follower.poll() == []
    append(file, console(19).replace("12:00:19.5", "12:00:01.5").replace(f"{20:016x}", f"{99:016x}"))
    (found,) = follower.poll()
    assert found.kind == "child before parent" and found.line == text.count("\n") + 1


def test_a_table_of_spans_keeps_its_header_over_a_restart(tmp_path: Path) -> None:
    file, state = put(tmp_path, "TraceID,SpanID,ParentID,PodName,StartTime,EndTime\n", "s.csv"), tmp_path / "state"
    for number in range(12):
        append(file, f"t,{number},{number - 1 if number else 'root'},a,{number},{number + 1}\n")
        assert Follower([file], Request(), window=4, state=state).poll() == []
    append(file, "t,99,11,a,3,4\n")
    found = Follower([file], Request(), window=4, state=state).poll()
    assert [(each.kind, each.line) for each in found] == [("child before parent", 14)]


@pytest.mark.parametrize("form", ["plume", "elle"])
def test_key_value_histories_are_followed_and_old_writes_are_not_from_nowhere(form: str, tmp_path: Path) -> None:
    def line(write: bool, value: int, session: int, txn: int) -> str:
        if form == "plume":
            return f"{'w' if write else 'r'}(1,{value},{session},{txn})\n"
        name = "w" if write else "r"
        return f"{{:type :ok, :f :txn, :process {session}, :value [[:{name} 1 {value}]]}}\n"

    file = put(tmp_path, "", "history.txt")
    follower = Follower([file], Request(), window=10)
    for number in range(1, 21):
        append(file, line(True, number, 1, number) + line(False, max(1, number - 8), 2, 100 + number))
        assert follower.poll() == []
    assert follower.result().outcome == "inconclusive"
    append(file, line(False, 20, 2, 200) + line(False, 19, 2, 201))
    found = follower.poll()
    assert {each.kind for each in found} == {"conflict-CO"} and {each.line for each in found} == {42}


def test_what_cannot_be_followed_is_said(tmp_path: Path) -> None:
    history = '[[{"events": [{"Write": {"variable": 0, "version": 1}}], "committed": true}]]\n'
    for content, name in ((history, "history.json"), ("PAR1", "log.parquet")):
        follower = Follower([put(tmp_path, content, name)], Request())
        with pytest.raises(ConfigurationError, match="not grow by lines"):
            follower.poll()
    broken = Follower(
        [put(tmp_path, govector(EVENTS[:4]) + 'h0 {"h0": x}\nwhat\nh0 {"h0": 9}\nmore\n', "b")], Request()
    )
    with pytest.raises(InputError, match=":9: "):
        broken.poll()


def test_the_command_follows_until_nothing_comes(tmp_path: Path, antecast: Any) -> None:
    file = put(tmp_path, govector([*EVENTS, EVENTS[-1]]), "log")
    code, out, _ = antecast("audit", str(file), "--follow", "--until-idle", "0.05")
    assert code == 1
    assert out.startswith("counted twice: ") and "violated: 82 lines, 1 violation, in a window of 50,000" in out


ROWS = ["node,pos,kind,origin,seq", "a,0,broadcast,a,1", "b,0,deliver,a,1", "b,2,broadcast,b,1", "c,0,deliver,b,1"]


def test_a_table_that_lacks_rows_is_not_sound(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("\n".join([*ROWS, ""]))
    follower = Follower([file], Request())
    assert follower.poll() == [] and follower.result().outcome == "inconclusive"
    assert "node b has no 1" in str(follower.result())
    told = Follower([file], Request(), dense=())
    assert told.poll() == [] and told.result().outcome == "sound"


def test_a_table_that_only_begins_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(f"{ROWS[0]}\n")
    follower = Follower([file], Request(), dense=())
    for row, outcome in zip(["a,0,send,a,1", *ROWS[1:3]], ["inconclusive", "inconclusive", "sound"], strict=True):
        assert follower.poll() == [] and follower.result().outcome == "inconclusive"
        with file.open("a") as stream:
            stream.write(f"{row}\n".replace("a,0,send", "d,0,send"))
        assert follower.poll() == [] and follower.result().outcome == outcome


def test_a_table_goes_on_where_the_window_holds_headers_or_rows_of_other_kinds_alone(tmp_path: Path) -> None:
    """The rows that count were there before, or have not come yet: the log is none the worse for it."""
    files, state = [tmp_path / f"{name}.csv" for name in "abc"], tmp_path / "state"
    for file in files:
        file.write_text(f"{ROWS[0]}\n")
    assert Follower(files, Request(), window=2, dense=()).poll() == []
    append(files[0], f"{ROWS[1]}\n{ROWS[2]}\n")
    for count in range(6):
        follower = Follower(files, Request(), window=4, dense=(), state=state)
        assert follower.poll() == []
        append(files[0], "".join(f"d,{3 * count + each},send,a,1\n" for each in range(3)))
    follower.poll()
    assert follower.result().outcome == "inconclusive" and "lines have left it" in str(follower.result())


def test_values_in_the_names_of_folders_are_columns_of_a_table_that_grows(tmp_path: Path) -> None:
    for name, kind in {"a": "broadcast", "b": "deliver"}.items():
        (tmp_path / f"node={name}").mkdir()
        row = {"pos": 0, "kind": kind, "origin": "a", "seq": 0}
        put(tmp_path / f"node={name}", chat([row]), "log.jsonl")
    follower = Follower([tmp_path], Request())
    assert follower.poll() == [] and follower.result().outcome == "sound"
    append(tmp_path / "node=b" / "log.jsonl", chat([{**row, "pos": 1}]))
    (found,) = follower.poll()
    assert (found.kind, found.file, found.line) == ("duplicate", str(tmp_path / "node=b" / "log.jsonl"), 2)


def test_a_last_line_without_its_end_leaves_the_verdict_open(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("\n".join([*ROWS[:3], "b,1,broadcast"]))
    follower = Follower([file], Request())
    assert follower.poll() == [] and follower.result().outcome == "inconclusive"
    assert f"line 4 of {file} has no end yet" in str(follower.result())
    with file.open("a") as stream:
        stream.write(",b,1\n")
    assert follower.poll() == [] and follower.result().outcome == "sound"


def test_a_violation_is_said_before_it_counts_as_said(tmp_path: Path) -> None:
    """A process that is killed while it speaks speaks again."""
    file, state = tmp_path / "log.csv", tmp_path / "state"
    file.write_text("\n".join([*ROWS[:3], "b,1,broadcast,b,1", "c,0,deliver,b,1", "c,1,deliver,a,1", ""]))

    def killed(found: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Follower([file], Request(), state=state, say=killed).poll()
    said: list[str] = []
    for _ in range(2):
        Follower([file], Request(), state=state, say=lambda found: said.extend(each.kind for each in found)).poll()
    assert said == ["early", "late"]
