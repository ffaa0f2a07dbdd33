"""A group of fifty processes on one machine: with `--soak`."""

import time
from contextlib import ExitStack

import processes
import pytest
from processes import Process

from antecast.history.log_audit import audit_log
from antecast.history.log_files import open_log
from antecast.live.control import ask_status
from antecast.live.replay import write_event_log

PROCESSES = 50
SECONDS = 240.0


@pytest.mark.parametrize("kind", ["mesh", "overlay"])
def test_fifty_processes_hear_each_other_in_order(tmp_path, request, monkeypatch, kind):
    if not request.config.getoption("--soak"):
        pytest.skip("with --soak")
    monkeypatch.setattr(processes, "LIMIT", SECONDS)
    protocol = ["--protocol", "vector" if kind == "mesh" else "pc-broadcast", "--durability", "normal"]
    options = [*protocol, "--listen", "127.0.0.1:0", *(["--overlay"] if kind == "overlay" else [])]
    with ExitStack() as stack:
        nodes: list[Process] = []
        for number in range(PROCESSES):
            peers = nodes if kind == "mesh" else nodes[:1]
            dialled = [word for peer in peers for word in ("--peer", peer.address())]
            nodes.append(node := Process(tmp_path, number, *options, *dialled))
            stack.callback(node.kill)
            if number == 0:
                node.address()
        for node in nodes:
            node.address()
        for turn in range(3):
            for node in nodes:
                node.say(f"{node.number} says {turn}")
        wanted = {f"{node.number} says {turn}" for node in nodes for turn in range(3)}
        end = time.monotonic() + SECONDS
        while not all(wanted == set(node.payloads) for node in nodes):
            assert time.monotonic() < end, [len(node.payloads) for node in nodes]
            time.sleep(0.2)
        assert all(len(node.payloads) == len(wanted) for node in nodes)
        links = [len(ask_status(tmp_path / f"{node.number}.journal")["links"]) for node in nodes]
        if kind == "mesh":
            assert min(links) == PROCESSES - 1
        else:
            assert sum(links) / PROCESSES < PROCESSES / 2, links
        for node in nodes:
            node.process.terminate()
        assert [node.process.wait(60) for node in nodes] == [0] * PROCESSES
    logs = []
    for number in range(PROCESSES):
        logs.append(tmp_path / f"{number}.parquet")
        write_event_log(tmp_path / f"{number}.journal", logs[-1])
    verdict = audit_log(open_log(logs))
    assert verdict.outcome == "causal"
    assert verdict.messages == 3 * PROCESSES
