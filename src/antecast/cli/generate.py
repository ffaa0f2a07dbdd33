"""`antecast generate`: movement where there is no data.

Its commands are loaded when one is asked for: their options are the settings of the generators, and those stand on
the simulator, which takes a second to load.
"""

from __future__ import annotations

from typing import Any

import typer

from antecast.cli.usage import Group


class _Generators(Group):
    """The commands of `generators`, whatever else is asked of the command line."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_loaded().commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _loaded().commands.get(cmd_name)


def _loaded() -> Any:
    from antecast.cli.generators import app as generators

    return typer.main.get_command(generators)


app = typer.Typer(
    name="generate",
    cls=_Generators,
    rich_markup_mode=None,
    help="Make movement where there is no data.",
    no_args_is_help=True,
)
