"""Errors, by whose fault they are.

- `RemoteFault`: a peer sent something that cannot be accepted. The driver drops the frame and counts
  it; the local program has done nothing wrong.
- `LocalMisuse`: the calling program broke the contract (a payload that is too large, a frame of
  another protocol).
- `ConfigurationError`, `InputError`: what a person wrote is wrong: a field of a scenario, a line of
  a file. One line of text says what, where, and what would be right.
- `OutputError`: what was computed cannot be written: no space, no permission.

Anything else that escapes is a defect of Antecast and keeps its traceback.
"""

from pathlib import Path
from typing import ClassVar


class AntecastError(Exception):
    """Base of all errors that Antecast raises on purpose."""

    exit_code: ClassVar[int] = 2
    """What the command line exits with when this error ends it."""


class RemoteFault(AntecastError):
    """A peer sent something unacceptable."""


class MalformedFrame(RemoteFault):
    """The bytes are not a frame of this protocol."""


class FrameTooLarge(RemoteFault):
    """The frame is longer than the receiver accepts."""


class UnsupportedVersion(RemoteFault):
    """The frame is written in a version of the wire format that this node does not speak."""


class LocalMisuse(AntecastError):
    """The calling program broke the contract."""


class ConfigurationError(AntecastError):
    """A setting is wrong; `field` is its path, such as `network.delay.low`."""

    def __init__(self, problem: str, *, field: str | None = None, source: str | None = None) -> None:
        where = ": ".join(part for part in (source, field) if part)
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.field = field
        self.source = source


class InputError(AntecastError):
    """A file cannot be used; `line` (or row) counts from 1."""

    def __init__(self, problem: str, *, path: Path | str, line: int | None = None) -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {problem}")
        self.problem = problem
        self.path = path
        self.line = line


class OutputError(AntecastError):
    """A result cannot be written."""

    def __init__(self, problem: str, *, path: Path | str) -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem
        self.path = path
