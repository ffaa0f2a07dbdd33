"""`antecast node`: a live node whose application is the terminal, or a pipe."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from antecast.cli.console import Json, Quiet, note
from antecast.cli.terminal import Output, as_row, as_text, broadcast_lines, end_on_signals, watch_keys
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.live import Node, Security

Durable = Annotated[
    Literal["full", "normal", "none"],
    typer.Option(
        help="What the journal survives. full: anything; normal: the end of the process, not of the machine; "
        "none: nothing but a clean stop."
    ),
]


def node(
    number: Annotated[
        int | None,
        typer.Option("--number", "-n", min=0, help="The node's number in the group. Never reuse one."),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal", "-j", metavar="FILE", help="The node's journal. A node without one cannot come back."
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", "-k", metavar="FILE", help="The node's file from antecast group invite."),
    ] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="A name or an import path. Default: vector.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="A setting of the protocol. Repeatable."),
    ] = None,
    members: Annotated[
        int | None, typer.Option(min=1, help="How many members there are at the start, for protocols that ask.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="HOST:PORT", help="Take connections here; port 0: any.")
    ] = None,
    peers: Annotated[
        list[str] | None, typer.Option("--peer", metavar="HOST:PORT", help="A node to connect to. Repeatable.")
    ] = None,
    lan: Annotated[
        bool, typer.Option("--lan", help="Find members on the local network, and be found by them.")
    ] = False,
    overlay: Annotated[
        bool,
        typer.Option("--overlay", help="Choose neighbours by Spray; --peer names members to begin with."),
    ] = False,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="HOST:PORT",
            help="In an overlay: where others reach this node. Default: --listen.",
        ),
    ] = None,
    medium: Annotated[
        str | None,
        typer.Option("--medium", metavar="GROUP:PORT", help="A multicast group as the air between cells."),
    ] = None,
    role: Annotated[
        Literal["host", "station"], typer.Option(help="In protocols for cells: a host, or a station.")
    ] = "host",
    durability: Durable = "full",
    events: Annotated[
        Path | None, typer.Option("--events", metavar="FOLDER", help="Write the event log here, for audit.")
    ] = None,
    until: Annotated[
        int | None, typer.Option("--until", min=1, metavar="N", help="Stop after N deliveries have been printed.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, metavar="SECONDS", help="Stop after this time.")
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Replay the journal, write a snapshot, and stop: before an upgrade.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log links and refusals.")] = False,
    log_format: Annotated[
        Literal["text", "json"], typer.Option("--log", help="How to write the log, on standard error.")
    ] = "text",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a live node: lines from standard input are broadcast, deliveries are printed.

    A delivery is acknowledged once it is printed. At the end of its input the node goes on, until it is
    interrupted or has done what --until and --for say.
    """
    from antecast.live import faults

    level = logging.INFO if verbose else logging.ERROR if quiet else logging.WARNING
    log_to_standard_error(level, log_format)
    made = make_node(
        number=number,
        journal=journal,
        keys=keys,
        protocol=protocol,
        overrides=overrides,
        members=members,
        listen=None if compact else listen,
        peers=() if compact else peers or (),
        lan=lan and not compact,
        overlay=overlay and not compact,
        advertise=advertise,
        medium=None if compact else medium,
        role=role,
        durability=durability,
        events=events,
    )
    faults.arm_from_environment()
    if compact:
        if journal is None:
            raise ConfigurationError("--compact needs the journal to compact", field="--journal")
        asyncio.run(_compact(made))
        return
    if not quiet and keys is None and (listen or peers):
        note("this node has no keys: it stays on this machine, and trusts anyone who connects")
    terminal = _Terminal(made, journal, keys, as_json=as_json, quiet=quiet)
    with named_by_options():
        code = asyncio.run(terminal.run(until, seconds))
    if code:
        raise typer.Exit(code)


def log_to_standard_error(level: int, form: str = "text") -> None:
    from antecast.live.logs import JsonFormatter, TextFormatter

    handler = logging.StreamHandler(sys.stderr)
    text = TextFormatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logging.basicConfig(level=level, handlers=[handler])


@contextmanager
def named_by_options() -> Iterator[None]:
    """Errors of a node name its settings; here they name the options that set them."""
    try:
        yield
    except ConfigurationError as error:
        option = _option(error.field or "")
        if option is None:
            raise
        raise ConfigurationError(error.problem, field=option, source=error.source) from None


def _option(field: str) -> str | None:
    if field in ("listen", "peer", "advertise", "medium", "lan", "role", "number", "members"):
        return f"--{field}"
    first, _, rest = field.partition(".")
    if first != "protocol":
        return None
    return "--protocol" if rest == "name" else f"--set {rest}".rstrip()


@named_by_options()
def make_node(
    *,
    number: int | None,
    journal: Path | None,
    keys: Path | None,
    protocol: str | None,
    overrides: list[str] | None,
    members: int | None,
    listen: str | None,
    peers: Any,
    durability: str,
    events: Path | None,
    lan: bool = False,
    overlay: bool = False,
    advertise: str | None = None,
    medium: str | None = None,
    role: str = "host",
) -> Node:
    """A node as options describe it. What a journal knows need not be said again."""
    from antecast.live import Node
    from antecast.live.journal import Journal
    from antecast.live.links.link import Transport
    from antecast.live.links.tcp import Tcp

    settings: dict[str, object] = read_pairs(overrides or [])
    said = number
    if journal is not None and journal.exists() and journal.stat().st_size:
        begun = Journal.look(journal)
        known = begun.identity()
        begun.close()
        number = known.number if number is None else number
        protocol = known.protocol if protocol is None else protocol
        if protocol == known.protocol:  # else the journal is refused, and its settings mean nothing to the other
            settings = {**known.settings, **settings}
        members, role = None, known.role
    security: Security | None = None
    if keys is not None:
        from antecast.live.groups import GroupSecurity

        mine = GroupSecurity.load(keys, protocol or "vector")
        if said not in (None, mine.number):
            problem = f"expected {mine.number}, the number in {keys}, got {said}"
            raise ConfigurationError(problem, field="--number")
        number, security = mine.number, mine
    if number is None:
        raise ConfigurationError("a new node needs a number that was never used", field="--number")
    transports: list[Transport] = []
    if listen or peers or lan or overlay:
        tcp = Tcp(listen=listen, peers=[] if overlay else list(peers))
        transports.append(tcp)
        if overlay:
            from antecast.live.overlay.transport import Spray

            transports.append(Spray(tcp, contacts=list(peers), advertise=advertise))
        if lan:
            from antecast.live.links.lan import Lan

            transports.append(Lan(tcp))
    if medium is not None:
        from antecast.live.links.medium import Medium

        transports.append(Medium(medium))
    return Node(
        number,
        protocol or "vector",
        settings=settings,
        members=members,
        role=role,
        journal=journal,
        durability=durability,
        security=security,
        transports=transports,
        events=events,
    )


def read_pairs(pairs: list[str]) -> dict[str, object]:
    """Settings from `FIELD=VALUE`: numbers and true or false as they are in TOML, anything else as text."""
    import tomllib

    found: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"expected FIELD=VALUE, got {pair!r}", field="--set")
        try:
            found[name.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = text
    return found


async def _compact(made: Node) -> None:
    await made.start()
    await made.stop()
    calls = made.status()["journal"]["calls"]
    print(f"{made.status()['journal']['path']}: compacted; {calls} calls so far")


class _Terminal:
    """Standard input is broadcast, deliveries go to standard output."""

    def __init__(self, made: Node, journal: Path | None, keys: Path | None, *, as_json: bool, quiet: bool) -> None:
        self._node, self._journal, self._keys = made, journal, keys
        self._as_json, self._quiet = as_json, quiet
        self._refused = 0
        """Lines that could not be broadcast."""

    async def run(self, until: int | None, seconds: float | None) -> int:
        """Until it is interrupted, or has done what was asked for; returns the exit code."""
        from antecast.live.control import Control, socket_of

        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        end_on_signals(loop, ended)
        node = self._node
        await node.start()
        control = None if self._journal is None else Control(node, socket_of(self._journal))
        if control is not None:
            await control.start()
        if not self._quiet:
            for each in node.transports:
                if (place := each.describe().get("listen")) is not None:
                    print(f"node {node.number} listens on {place}", file=sys.stderr, flush=True)
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        tasks = [loop.create_task(self._print(until)), loop.create_task(ended.wait())]
        if self._keys is not None:
            tasks.append(loop.create_task(watch_keys(node, self._keys)))
        if seconds is not None:
            tasks.append(loop.create_task(asyncio.sleep(seconds)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            if control is not None:
                await control.stop()
            await node.stop()
        return 2 if self._refused else 0

    async def _print(self, until: int | None) -> None:
        printed = 0
        output, words = Output(), as_row if self._as_json else as_text
        async for each in self._node.deliveries():
            await output.print(words(each))
            self._node.acknowledge(each.number)
            printed += 1
            if printed == until:
                return

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """One line at a time: the next is taken when this one is in the journal."""

        def take(line: bytes) -> None:
            asyncio.run_coroutine_threadsafe(self._node.broadcast(line), loop).result()

        self._refused = broadcast_lines(take)
