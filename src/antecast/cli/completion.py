"""`antecast completion`: what a shell needs to complete commands, options and values."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")]) -> None:
    """Print a script that lets your shell complete antecast's commands, options and values.

    bash: add eval "$(antecast completion bash)" to ~/.bashrc. zsh: the same with zsh to ~/.zshrc, after compinit.
    fish: antecast completion fish > ~/.config/fish/completions/antecast.fish
    """
    script = get_completion_script(prog_name="antecast", complete_var="_ANTECAST_COMPLETE", shell=shell.value)
    print(script)


def answer_shells() -> None:
    """Let the command answer when such a script asks."""
    completion_init()


def protocol_names(incomplete: str) -> list[str]:
    from antecast.protocols import specifications

    return [each.name for each in specifications() if each.name.startswith(incomplete)]


def study_names(incomplete: str) -> list[str]:
    from antecast.papers import STUDIES

    return [name for name in (*STUDIES, "all") if name.startswith(incomplete)]


def demonstration_names(incomplete: str) -> list[str]:
    from antecast.papers.left_open import demonstrations

    known = dict.fromkeys(name for each in demonstrations() for name in (each.study, each.name))
    return [name for name in (*known, "all") if name.startswith(incomplete)]
