"""Every console block of the README and the documentation works as printed, in an empty folder.

A block is a list of commands, each behind `$ `, and what they print. Lines are compared one by one. `…` stands for
any text within a line, a line that is only `…` for any number of lines. A command ends with exit code 0, unless
`$ echo $?` follows and shows another one. The blocks of a page run in their order, in a folder of the page's own
that is empty before. Blocks marked `sh` are shown and not run, since they take minutes or need a cluster; their
commands and options must exist.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHARED = {"examples", "runs", "sweeps", "comparisons"}
"""Folders that commands fill with folders of their own; anything else belongs to one page."""


@dataclass
class Step:
    line: int
    command: str
    expected: list[str] = field(default_factory=list)
    code: int = 0


@dataclass
class Block:
    page: Path
    steps: list[Step]

    @property
    def needs_spark(self) -> bool:
        return any(
            re.match(r"antecast (sweep(?!.*(--no-spark|--dry-run))|observe)", s.command) for s in self.steps
        )


def console_blocks(page: Path, language: str = "console") -> list[Block]:
    found: list[Block] = []
    steps: list[Step] | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line == f"```{language}":
            steps = []
        elif line == "```" and steps is not None:
            found.append(Block(page, steps))
            steps = None
        elif steps is not None:
            _add(steps, number, line, prompt="$ " if language == "console" else "")
    return found


def _add(steps: list[Step], number: int, line: str, prompt: str) -> None:
    if steps and steps[-1].command.endswith("\\"):
        steps[-1].command = f"{steps[-1].command[:-1]} {line.strip()}"
    elif line == "$ echo $?":
        steps.append(Step(number, "echo"))
    elif steps and steps[-1].command == "echo":
        steps.pop()
        steps[-1].code = int(line)
    elif line.startswith(prompt):
        steps.append(Step(number, line.removeprefix(prompt)))
    else:
        assert steps, f"line {number}: a console block begins with a command behind '$ '"
        steps[-1].expected.append(line)


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether a text with elisions stands for what was printed; spaces at the end of lines do not count."""
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ ]*\n"
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed)) is not None


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (["a", "b"], ["a  ", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "…"], ["a", "b", "c"], True),
        (["…", "c"], ["a", "b", "c"], True),
        (["took … s, all well"], ["took 3 s, all well"], True),
        (["took … s"], ["took 3 s", "took 4 s"], False),
        (["a.b"], ["axb"], False),
        ([], ["a"], False),
    ],
)
def test_elisions_stand_for_what_they_say(expected: list[str], printed: list[str], same: bool) -> None:
    assert matches(expected, printed) is same


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Callable[[str], tuple[int, str]]:
    """Runs a command in an empty folder: exit code, and what a terminal would show that is wide enough."""
    from antecast.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")

    def run(command: str) -> tuple[int, str]:
        words = shlex.split(command)
        if words[0] != "antecast":
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
            return done.returncode, done.stderr + done.stdout
        monkeypatch.setattr(sys, "argv", words)
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said, code = capfd.readouterr(), ended.value.code
        return code if isinstance(code, int) else 0, said.err + said.out

    return run


def play(block: Block, console: Callable[[str], tuple[int, str]]) -> None:
    for step in block.steps:
        code, printed = console(step.command)
        where = f"{block.page.name}:{step.line}: {step.command}"
        assert code == step.code, f"{where}\nended with {code}, not {step.code}\n{printed}"
        assert "Traceback" not in printed, where
        shown = matches(step.expected, printed.splitlines()) or (not step.expected and not printed)
        assert shown, f"{where}\nprinted:\n{printed}\nexpected:\n" + "\n".join(step.expected)


def of_page(path: Path) -> str:
    return path.name


with_console = pytest.mark.parametrize(
    "page", [page for page in PAGES if any(not b.needs_spark for b in console_blocks(page))], ids=of_page
)
with_spark = pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.needs_spark for b in console_blocks(page))], ids=of_page
)


@with_console
def test_its_console_blocks_work_as_printed(page: Path, console: Callable[[str], tuple[int, str]]) -> None:
    for block in console_blocks(page):
        if not block.needs_spark:
            play(block, console)
    assert_no_collision(page)


@pytest.mark.spark
@with_spark
def test_its_blocks_on_spark_work_as_printed(
    page: Path, console: Callable[[str], tuple[int, str]], spark: Any
) -> None:
    if any("examples/" in step.command for block in console_blocks(page) for step in block.steps):
        console("antecast examples")
    for block in console_blocks(page):
        if block.needs_spark:
            play(block, console)
    assert_no_collision(page)


def assert_no_collision(page: Path) -> None:
    """What a page has written is named in no command of another page: the pages can share a folder."""
    for name in {path.name for path in Path().iterdir()} - SHARED:
        for other in PAGES:
            commands = [step.command for block in console_blocks(other) for step in block.steps]
            words = {word.split("/")[0] for command in commands for word in shlex.split(command)}
            assert other == page or name not in words, (
                f"{name} is written by {page.name}, and {other.name} names it"
            )


def shown_commands() -> Iterator[tuple[Path, int, list[str]]]:
    for page in PAGES:
        for block in console_blocks(page, "sh"):
            for step in block.steps:
                lexer = shlex.shlex(step.command, posix=True, punctuation_chars="|;&")
                lexer.whitespace_split = True
                words = [*lexer, ";"]
                while words:
                    end = next(n for n, word in enumerate(words) if set(word) <= set("|;&"))
                    if "antecast" in words[:end]:
                        yield page, step.line, words[words.index("antecast") + 1 : end]
                    words = words[end + 1 :]


def test_commands_that_are_shown_and_not_run_exist() -> None:
    import typer

    from antecast.cli.app import app

    for page, line, words in shown_commands():
        command: Any = typer.main.get_command(app)
        rest = list(words)
        while hasattr(command, "commands"):
            assert rest, f"{page.name}:{line}"
            assert rest[0] in command.commands, f"{page.name}:{line}: no command {rest[0]}"
            command = command.commands[rest.pop(0)]
        options = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        for word in rest:
            assert not word.startswith("-") or word == "-" or word.split("=")[0] in options, (
                f"{page.name}:{line}: {word}"
            )


def test_commands_behind_a_prompt_stand_in_console_blocks() -> None:
    """Anything else would be shown and never run."""
    for page in PAGES:
        fences = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for language, text in fences:
            assert language == "console" or not re.search(r"^\$ antecast", text, re.MULTILINE), (
                f"{page.name}: {text}"
            )


def test_make_targets_that_are_shown_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for block in console_blocks(page, "sh"):
            for step in block.steps:
                if step.command.startswith("make "):
                    assert step.command.split()[1] in targets, f"{page.name}:{step.line}: {step.command}"
