"""Files beside a log that say what it is and how it came about. Each is there whole or not at all."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from antecast.core.errors import OutputError


def write_json(path: Path, value: object) -> None:
    """Write a small JSON file."""
    text = json.dumps(value, indent=2) + "\n"
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a hidden name, and give it its own when it is whole."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        write(partial)
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=path) from error


def applications(scenario: Mapping[str, Any]) -> int:
    """The number from which on nodes are stations, which have no application: newcomers come before them."""
    number = {"join": "node", "rebirth": "number"}
    faults = [fault for fault in scenario.get("faults", ()) if fault.get("kind") in number]
    newcomers = [fault[number[fault["kind"]]] + 1 for fault in faults]
    return int(max([scenario.get("nodes", 1 << 31), *newcomers]))


@cache
def git_revision() -> str | None:
    """The revision of the checkout that the code runs from, if it is one."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
