"""A group of fifty processes on one machine, ten of which are killed and come back: with `--soak`."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import processes
import pytest
from processes import Process

from antecast.history.log_audit import audit_log
from antecast.history.log_files import open_log
from antecast.live.control import ask_status
from antecast.live.groups import new_group
from antecast.live.replay import write_event_log

PROCESSES = 50
KILLED = range(5, 15)
SECONDS = 240.0


@pytest.mark.parametrize("secured", [False, True], ids=["open", "keys"])
@pytest.mark.parametrize("kind", ["mesh", "overlay"])
def test_fifty_processes_hear_each_other_in_order(tmp_path, request, monkeypatch, kind, secured):
    if not request.config.getoption("--soak"):
        pytest.skip("with --soak")
    monkeypatch.setattr(processes, "LIMIT", SECONDS)
    options = ["--protocol", "vector" if kind == "mesh" else "pc-broadcast", "--durability", "normal"]
    options += ["--overlay"] if kind == "overlay" else []
    if secured:
        authority = new_group(tmp_path / "fifty.group", "fifty")
        for number in range(PROCESSES):
            authority.invite(f"n{number}", tmp_path / f"{number}.node")
    nodes: list[Process] = []

    def start(number: int, listen: str) -> Process:
        peers = nodes[:number] if kind == "mesh" else nodes[: min(number, 1)]
        dialled = [word for peer in peers for word in ("--peer", peer.address())]
        keys = ["--keys", str(tmp_path / f"{number}.node")] if secured else []
        return Process(tmp_path, number, *options, *keys, "--listen", listen, *dialled)

    with ExitStack() as stack:
        stack.callback(lambda: [node.kill() for node in nodes])
        for number in range(PROCESSES):
            nodes.append(start(number, "127.0.0.1:0"))
        everyone = set(range(PROCESSES))
        say(nodes, everyone, "first")
        until(lambda: heard_by_all(nodes, everyone, {"first": everyone}), nodes)

        places = {number: nodes[number].address() for number in KILLED}
        earlier = {number: nodes[number].delivered for number in KILLED}
        for number in KILLED:
            nodes[number].kill()
        awake = everyone - set(KILLED)
        say(nodes, awake, "second")
        until(lambda: heard_by_all(nodes, awake, {"first": everyone, "second": awake}), nodes)
        for number, place in places.items():
            nodes[number] = start(number, place)
        say(nodes, everyone, "third")
        said = {"first": everyone, "second": awake, "third": everyone}
        until(lambda: heard_by_all(nodes, everyone, said, earlier), nodes)
        for node in nodes:  # what was printed and not acknowledged when it was killed, it prints again
            numbers = {row["number"] for row in (*earlier.get(node.number, []), *node.delivered)}
            assert numbers == set(range(1, 3 * PROCESSES - len(KILLED) + 1))

        if kind == "mesh":
            until(lambda: min(links(tmp_path)) == PROCESSES - 1, nodes)
        else:
            assert sum(links(tmp_path)) / PROCESSES < PROCESSES / 2
        for node in nodes:
            node.process.terminate()
        assert [node.process.wait(60) for node in nodes] == [0] * PROCESSES
    assert_causal(tmp_path)


def say(nodes: list[Process], speakers: set[int], turn: str) -> None:
    for number in speakers:
        nodes[number].address()
        nodes[number].say(f"{number} says {turn}")


def heard_by_all(
    nodes: list[Process],
    listeners: set[int],
    said: dict[str, set[int]],
    earlier: dict[int, list[dict[str, Any]]] | None = None,
) -> bool:
    """Whether all have everything, together with what they printed before they were killed."""
    wanted = {f"{number} says {turn}" for turn, speakers in said.items() for number in speakers}
    rows = {number: [*(earlier or {}).get(number, []), *nodes[number].delivered] for number in listeners}
    return all(wanted <= {row["payload"] for row in rows[number]} for number in listeners)


def links(folder: Path) -> list[int]:
    """How many each has."""
    return [len(ask_status(folder / f"{number}.journal", SECONDS)["links"]) for number in range(PROCESSES)]


def until(condition: Callable[[], bool], nodes: list[Process]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, [len(node.payloads) for node in nodes]
        time.sleep(0.2)


def assert_causal(folder: Path) -> None:
    logs = []
    for number in range(PROCESSES):
        logs.append(folder / f"{number}.parquet")
        write_event_log(folder / f"{number}.journal", logs[-1])
    verdict = audit_log(open_log(logs))
    assert verdict.outcome == "causal"
    assert verdict.messages == 3 * PROCESSES - len(KILLED)
