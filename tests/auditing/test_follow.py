"""Logs that grow: a violation is said once, at once, and over restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sound_logs import CHAT, SPANS, chat, clock_events, govector, otlp, put, shifted

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


def test_memory_is_bounded_by_a_window_that_the_verdict_states(tmp_path: Path) -> None:
    file = put(tmp_path, "")
    follower = Follower([file], Request(), window=20)
    for event in EVENTS:
        append(file, govector([event]))
        assert follower.poll() == []
        assert sum(len(tail.lines) for tail in follower._tails.values()) <= 20
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


def test_what_cannot_be_followed_is_said(tmp_path: Path) -> None:
    follower = Follower([put(tmp_path, "w(1,1,1,1)\nr(1,1,2,2)\n")], Request())
    with pytest.raises(ConfigurationError, match="cannot be followed"):
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
