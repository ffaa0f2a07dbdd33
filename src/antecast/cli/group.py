"""`antecast group`: groups with keys, for live nodes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from antecast.cli.console import Json, Quiet, out
from antecast.cli.tables import Column, show_columns, show_pairs
from antecast.cli.usage import Command, Group
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.live.groups.authority import Authority, Entry

app = typer.Typer(
    name="group",
    cls=Group,
    rich_markup_mode=None,
    help="Groups with keys: invite nodes, revoke them, rotate the group's key.",
    no_args_is_help=True,
)

_SUFFIX = ".group"

Folder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--group",
        "-g",
        metavar="FOLDER",
        help="The group's folder. Default: the one *.group folder here.",
    ),
]
Who: TypeAlias = Annotated[str, typer.Argument(metavar="NODE", help="The node's name or number.")]
Days: TypeAlias = Annotated[
    int, typer.Option(min=1, max=36500, help="How long its certificate is valid, in days.")
]


@app.command(cls=Command)
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the group; its folder is NAME.group.")],
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help="Encrypt payloads with a group key, end to end.")
    ] = False,
    days: Days = 7300,
    quiet: Quiet = False,
) -> None:
    """Make a new group: its authority's key, and an empty register of nodes.

    Whoever has the folder can invite nodes. It is needed for nothing else, and can be kept offline.
    """
    from antecast.live.groups.authority import new_group

    authority = new_group(Path(f"{name}{_SUFFIX}"), name, encrypt=encrypt, days=days)
    if not quiet:
        _say(f"{authority.folder}: group {name}, {authority.group_id.hex()[:16]}")
        _say(f"{'payloads are encrypted with group key 1' if encrypt else 'payloads are not encrypted'}")
        _say("next: antecast group invite NODE")


@app.command(cls=Command)
def invite(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node's name.")],
    group: Folder = None,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The file to write. Default: NAME.node.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="Whether it may read what was encrypted before.")
    ] = True,
    days: Days = 3650,
    quiet: Quiet = False,
) -> None:
    """Invite a node: a number that was never used, a key and a certificate, in one file for that node.

    Give the file to the node by a private channel, and keep no copy: anyone who has it can act as that node.
    """
    from antecast.live.groups.authority import check_name, open_group

    check_name(name, "a node")
    with open_group(_folder(group)) as authority:
        identity = authority.invite(name, to or Path(f"{name}.node"), days=days, history=history)
    if not quiet:
        _say(f"{identity.path}: {identity.member} of {identity.group}")


@app.command(cls=Command)
def revoke(who: Who, group: Folder = None, quiet: Quiet = False) -> None:
    """Revoke a node: the others refuse its connections once they have the new bulletin.

    Its number stays taken. In a group that encrypts, the others get a new group key, and it does not.
    """
    from antecast.live.groups.authority import open_group

    with open_group(_folder(group)) as authority:
        entry = authority.revoke(who)
    if not quiet:
        _say(f"node {entry.number} ({entry.name}) of {authority.register.group} is revoked")
        if authority.current:
            _say(f"group key {authority.current} is the one to write with")
        _say_bulletin(authority)


@app.command(cls=Command)
def renew(who: Who, group: Folder = None, days: Days = 3650, quiet: Quiet = False) -> None:
    """Give a node a new certificate, for the same number, name and key. It comes with the bulletin."""
    from antecast.live.groups.authority import open_group

    with open_group(_folder(group)) as authority:
        entry = authority.renew(who, days=days)
    if not quiet:
        _say(f"node {entry.number} ({entry.name}) of {authority.register.group} has a new certificate")
        _say_bulletin(authority)


@app.command(cls=Command)
def rotate(group: Folder = None, quiet: Quiet = False) -> None:
    """Make a new group key: payloads are encrypted with it from now on, older ones stay readable.

    In a group that did not encrypt, this begins it.
    """
    from antecast.live.groups.authority import open_group

    with open_group(_folder(group)) as authority:
        number = authority.rotate()
    if not quiet:
        _say(f"group key {number} of {authority.register.group} is the one to write with")
        _say_bulletin(authority)


@app.command(cls=Command)
def update(
    node: Annotated[Path, typer.Argument(metavar="FILE", help="The node's file.")],
    bulletin: Annotated[Path, typer.Argument(metavar="BULLETIN", help="The group's bulletin.pem.")],
    quiet: Quiet = False,
) -> None:
    """Take a bulletin into a node's file: revocations, renewed certificates, group keys.

    Nodes that run hand bulletins to each other. This is for a node that does not run.
    """
    from antecast.live.groups.authority import read_bulletin_file
    from antecast.live.groups.certificates import Refused
    from antecast.live.groups.identity import load_identity

    before = load_identity(node)
    try:
        after = before.updated(read_bulletin_file(bulletin))
    except Refused as fault:
        raise ConfigurationError(str(fault), source=str(bulletin)) from None
    if after is not before:
        after.save()
    if not quiet:
        serial = after.bulletin.serial
        _say(f"{node}: has bulletin {serial} already" if after is before else f"{node}: now has bulletin {serial}")


@app.command("list", cls=Command)
def list_nodes(group: Folder = None, as_json: Json = False) -> None:
    """List the nodes of a group: numbers, names, and whether they may connect."""
    from antecast.live.groups.authority import open_group

    with open_group(_folder(group)) as authority:
        rows = [_row(entry) for entry in authority.register.nodes]
    if as_json:
        found = {
            "group": authority.register.group,
            "id": authority.group_id.hex(),
            "bulletin": authority.register.serial,
            "key": authority.current or None,
            "nodes": rows,
        }
        print(json.dumps(found, indent=2))
        return
    register, keys = authority.register, f"group key {authority.current}" if authority.current else "not encrypted"
    _say(f"{register.group} ({authority.group_id.hex()[:16]}), {keys}, bulletin {register.serial}")
    columns = [
        Column("node", right=True),
        Column("name"),
        Column("invited"),
        Column("valid until"),
        Column("state"),
    ]
    shown = [
        [str(row["node"]), str(row["name"]), str(row["invited"]), str(row["valid_until"]), _state(row)]
        for row in rows
    ]
    if shown:
        show_columns(columns, shown)


@app.command(cls=Command)
def show(node: Annotated[Path, typer.Argument(metavar="FILE", help="A node's file.")]) -> None:
    """Show what a node's file says, without its secrets, and whether the node could start."""
    from antecast.core import InputError
    from antecast.live.groups.identity import load_identity

    identity = load_identity(node)
    bulletin = identity.bulletin
    keys = ", ".join(map(str, sorted(identity.group_keys))) or "none"
    try:
        identity.check()
        state = "can start"
    except InputError as error:
        state = error.problem
    show_pairs(
        [
            ("node", f"{identity.number} ({identity.name})"),
            ("group", f"{identity.group} ({identity.group_id.hex()[:16]})"),
            ("valid", f"{_day(identity.certificate.not_valid_before_utc)} to"
             f" {_day(identity.certificate.not_valid_after_utc)}"),
            ("bulletin", f"{bulletin.serial}, of {_day(datetime.fromtimestamp(bulletin.issued, UTC))}"),
            ("group keys", keys if bulletin.current else "none: payloads are not encrypted"),
            ("state", state),
        ]
    )  # fmt: skip


def _folder(given: Path | None) -> Path:
    if given is not None:
        return given
    found = sorted(path for path in Path().glob(f"*{_SUFFIX}") if path.is_dir())
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigurationError("there is no *.group folder here; antecast group new makes one", field="--group")
    raise ConfigurationError(f"choose one of {', '.join(map(str, found))}", field="--group")


def _row(entry: Entry) -> dict[str, object]:
    from cryptography import x509

    certificate = x509.load_der_x509_certificate(entry.certificate)
    revoked = None if entry.revoked is None else _day(datetime.fromtimestamp(entry.revoked, UTC))
    return {
        "node": entry.number,
        "name": entry.name,
        "invited": _day(datetime.fromtimestamp(entry.invited, UTC)),
        "valid_until": _day(certificate.not_valid_after_utc),
        "revoked": revoked,
    }


def _state(row: dict[str, object]) -> str:
    return "member" if row["revoked"] is None else f"revoked on {row['revoked']}"


def _day(when: datetime) -> str:
    return f"{when:%Y-%m-%d}"


def _say_bulletin(authority: Authority) -> None:
    _say(f"{authority.bulletin_path}: bulletin {authority.register.serial}, for the other nodes")


def _say(text: str) -> None:
    out.print(text, soft_wrap=True)
