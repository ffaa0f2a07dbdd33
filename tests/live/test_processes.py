"""Real processes on loopback, killed at fault points: nothing acknowledged is lost, nothing comes twice."""

import json
import signal
from pathlib import Path

import pytest
from processes import Process

from antecast.history.log_audit import audit_log
from antecast.history.log_files import open_log
from antecast.live.replay import write_event_log


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(number, *options, **more):
        process = Process(tmp_path, number, "--listen", "127.0.0.1:0", *options, **more)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.process.poll() is None:
            process.kill()


def trace(tmp_path: Path) -> Path:
    return tmp_path / "points"


def test_killed_at_fault_points_everything_that_was_acknowledged_survives(tmp_path, start):
    """A dose of what `antecast torture` does at length: at a journal write, at the end and in the middle of a
    frame."""
    options = ("--protocol", "pc-broadcast", "--durability", "normal")
    steady = start(1, *options)
    place = steady.address()
    acknowledged = set()
    for life, fault in enumerate((3, 9, 14, None)):
        node = start(0, "--peer", place, *options, fault=fault)
        node.say(f"life {life}")
        if fault is None:
            node.until(lambda node=node: "life 3" in node.payloads)
        else:
            node.say("more")
            assert node.ended() == -signal.SIGKILL
        acknowledged |= {(row["origin"], row["seq"], row["payload"]) for row in node.delivered}
    steady.until(lambda: {(row["origin"], row["seq"], row["payload"]) for row in steady.delivered} >= acknowledged)
    assert node.stop() == 0
    assert steady.stop() == 0
    names = [(row["origin"], row["seq"]) for row in steady.delivered]
    assert len(names) == len(set(names))
    logs = []
    for number in (0, 1):
        logs.append(tmp_path / f"{number}.parquet")
        write_event_log(tmp_path / f"{number}.journal", logs[-1])
    verdict = audit_log(open_log(logs))
    assert verdict.outcome == "causal"
    assert verdict.messages == len(names)


def test_a_trace_names_every_point_that_a_node_passes(tmp_path, start):
    node = start(0, ANTECAST_FAULT_TRACE=str(trace(tmp_path)))
    node.say("hello")
    node.until(lambda: node.payloads == ["hello"])
    node.stop()
    points = [line.split(" ", 1) for line in trace(tmp_path).read_text().splitlines()]
    assert [int(number) for number, _ in points] == list(range(1, len(points) + 1))
    names = [name for _, name in points]
    steps = ["begin", "calls written", "deliveries written", "committed", "marked"]
    assert names[:4] == ["journal schema written", "journal meta written", "journal created", "journal opened"]
    assert names[4:9] == [f"group {step}" for step in steps]
    assert "snapshot committed" in names
    assert names[-1] == "journal closed"


def test_what_was_broken_off_is_delivered_again_and_printed_lines_are_acknowledged(start):
    node = start(0)
    node.say("one")
    node.until(lambda: node.payloads == ["one"])
    node.stop()
    again = start(0)
    again.say("two")
    again.until(lambda: again.payloads == ["two"])
    again.stop()
    assert again.delivered[0]["number"] == 2


def test_a_node_whose_terminal_is_closed_stops_cleanly(start):
    for _ in range(2):  # without a clean stop, the second is refused
        node = start(0, "--durability", "none")
        node.address()
        node.process.send_signal(signal.SIGHUP)
        assert node.ended() == 0


def test_the_log_is_one_object_per_line(start):
    node = start(0, "--verbose", "--log", "json")
    node.address()
    node.stop()
    rows = [json.loads(line) for line in node.said if line.startswith("{")]
    assert "node %d listens on %s" in [row["event"] for row in rows]
