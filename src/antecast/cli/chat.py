"""`antecast chat`: a group chat in the terminal. Its source is an example: `examples/live/group_chat.py`."""

from __future__ import annotations

import asyncio
import logging
import runpy
import sqlite3
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from antecast.cli.console import Quiet, note, out
from antecast.cli.examples import source_folder
from antecast.cli.node import Durable, log_to_standard_error, make_node, named_by_options
from antecast.cli.terminal import broadcast_lines, end_on_signals, watch_keys
from antecast.core import ConfigurationError, InputError, OutputError


def chat(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Your name, and that of the folder that is kept.")],
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=0, help="The number of a new node without keys.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", "-k", metavar="FILE", help="The node's file from antecast group invite."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Take connections here.")
    ] = None,
    peers: Annotated[
        list[str] | None, typer.Option("--peer", metavar="HOST:PORT", help="Somebody to connect to. Repeatable.")
    ] = None,
    durability: Durable = "full",
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, metavar="SECONDS", help="Leave after this time.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Chat with a group: what you type reaches everyone, and nobody sees an answer before its question.

    The conversation is kept in the folder NAME.chat and shown again when you come back, with what you have missed.
    """
    log_to_standard_error(logging.ERROR)
    folder = Path(f"{name}.chat")
    if folder.name != str(folder) or not name:
        raise ConfigurationError(f"expected a name that can be that of a folder, got {name!r}", field="NAME")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", path=folder) from None
    node = make_node(
        number=number,
        journal=folder / "journal",
        keys=keys,
        protocol=None,
        overrides=None,
        members=None,
        listen=listen,
        peers=peers or (),
        durability=durability,
        events=None,
    )
    if not quiet and keys is None and (listen or peers):
        note("this chat has no keys: it stays on this machine, and trusts anyone who connects")
    with named_by_options():
        try:
            asyncio.run(_talk(node, folder, name, keys, seconds))
        except sqlite3.Error as error:  # the journal's are told by the node
            raise InputError(f"the conversation cannot be kept here: {error}", path=folder / "history") from None


async def _talk(node: Any, folder: Path, name: str, keys: Path | None, seconds: float | None) -> None:
    from antecast.live.control import Control, socket_of

    chat_class = runpy.run_path(str(source_folder() / "live" / "group_chat.py"))["Chat"]
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    end_on_signals(loop, ended)

    def show(line: str) -> None:
        out.print(line, soft_wrap=True)

    async with node, Control(node, socket_of(folder / "journal")):
        talk = chat_class(node, folder / "history", name, show)
        for line in talk.lines():
            show(line)
        following = loop.create_task(talk.follow())

        def say(line: bytes) -> None:
            words = line.decode(errors="replace").strip()
            if words:
                asyncio.run_coroutine_threadsafe(talk.say(words), loop).result()

        threading.Thread(target=broadcast_lines, args=(say,), daemon=True).start()
        tasks = [following, loop.create_task(ended.wait())]
        if keys is not None:
            tasks.append(loop.create_task(watch_keys(node, keys)))
        if seconds is not None:
            tasks.append(loop.create_task(asyncio.sleep(seconds)))
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in done:
            task.result()
    talk.close()
