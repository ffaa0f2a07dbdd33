"""The example of docs/app.md keeps the contract where it is easiest to break it: around crashes.

The chat itself runs as a console block of that page.
"""

from __future__ import annotations

import runpy
import time
from pathlib import Path
from typing import Any

import pytest

from antecast.core import RemoteFault

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def chat() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "app" / "chat.py"))


def ignore(node: Any, author: int, text: str) -> None:
    pass


class Crash(BaseException):
    """The process is gone."""


def crash(*arguments: object) -> None:
    raise Crash


def test_a_number_is_not_used_twice_when_a_broadcast_was_saved_and_not_sent(chat, tmp_path):
    node = chat["Node"](0, tmp_path / "a.db", crash)
    with pytest.raises(Crash):  # after the save, before any effect has left
        node.broadcast("first")
    again = chat["Node"](0, tmp_path / "a.db", ignore)
    again.broadcast("second")
    assert again.protocol.snapshot() != node.protocol.snapshot()
    assert again.store.lines() == [(0, "first"), (0, "second")]


def test_a_delivery_that_was_saved_is_handed_on_after_the_crash_and_answered_after_resume(chat, tmp_path):
    node = chat["Node"](1, tmp_path / "a.db", crash)
    with pytest.raises(Crash):
        node.broadcast("anyone?")
    assert node.store.lines() == []
    again = chat["Node"](1, tmp_path / "a.db", chat["answer"])
    assert again.store.lines() == [(1, "anyone?"), (1, "I have it.")]


def test_time_never_goes_back_over_a_restart(chat, tmp_path, monkeypatch):
    node = chat["Node"](0, tmp_path / "a.db", ignore)
    node.broadcast("now")
    late = node.latest
    monkeypatch.setattr(time, "time_ns", lambda: late - 3600 * 10**9)  # the clock was set back an hour
    assert chat["Node"](0, tmp_path / "a.db", ignore).now() > late


def test_a_file_belongs_to_one_number(chat, tmp_path):
    chat["Node"](0, tmp_path / "a.db", ignore)
    with pytest.raises(ValueError, match="belongs to node 0, not to 7"):
        chat["Node"](7, tmp_path / "a.db", ignore)


def test_a_refused_frame_changes_nothing_and_is_counted(chat, tmp_path):
    node = chat["Node"](0, tmp_path / "a.db", ignore)
    node.broadcast("one")
    before = node.protocol.snapshot()

    def refuse(now: int) -> list[Any]:
        raise RemoteFault("no")

    node.call(refuse)
    node.call(lambda now: node._receive(b"\x01rubbish", 5, now))
    assert (node.refused, node.protocol.snapshot()) == (2, before)
