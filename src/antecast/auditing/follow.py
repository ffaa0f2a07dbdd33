"""Logs that still grow: what came since the last look is judged, and what is wrong is said once.

Theory of operation. A follower keeps the last lines of its files, `window` of them in all, and judges these each
time something was added. The models speak of pairs and chains of events that are in the log: what they find in a
part of it is wrong in the whole, too. What only the end of a log can tell (a clock that knows more than is logged,
a parent that is not there, a delivery without a broadcast) is no violation here, for it may still come.

What is further apart than the window is never compared; the verdict says so. A line counts once its end is there.

The place in every file, and what was said already, go to a state file after each look that found something new,
by renaming: a restart goes on where it was, reads the window again and repeats nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from antecast.auditing.findings import Finding, findings
from antecast.auditing.foreign import ForeignLog, Request, find_foreign, judge_data
from antecast.core.errors import ConfigurationError, InputError, OutputError
from antecast.history.log_audit import audit_log
from antecast.history.log_files import open_log
from antecast.importers.source import Head, Options, Source, find_files
from antecast.text.wording import plural

WINDOW = 50_000
"""Lines that are kept by default."""

MOST_SAID = 100_000
"""Violations that are remembered so that they are not said again."""

_CHUNK = 8 << 20


@dataclass
class _Tail:
    """The last lines of one file, and the place from which it goes on."""

    identity: int
    """The file's number in its file system: another one under the same name is another file."""
    offset: int = 0
    """Where the next line begins."""
    line: int = 0
    """Lines before it."""
    lines: deque[tuple[int, int, bytes]] = field(default_factory=deque)
    """Number, offset and text of the lines in the window."""
    header: bytes = b""
    """The first line of a table in CSV, which stays when the window moves on."""

    def grow(self, file: Path, max_line: int) -> int:
        """Read what was added; how many lines."""
        added = 0
        with file.open("rb") as stream:
            stream.seek(self.offset)
            rest = b""
            while chunk := stream.read(_CHUNK):
                rest += chunk
                *whole, rest = rest.split(b"\n")
                for raw in whole:
                    self.line += 1
                    self.lines.append((self.line, self.offset, raw + b"\n"))
                    self.offset += len(raw) + 1
                    added += 1
                if len(rest) > max_line:
                    raise InputError("the line is too long", path=file, line=self.line + 1)
        return added


@dataclass(frozen=True)
class _Window(Source):
    """The lines of a window as importers read them."""

    tails: dict[Path, _Tail] = field(default_factory=dict)
    without: int = 0
    """Lines that are left out at the end: the record that they begin is not whole yet."""

    def raw_lines(self, file: Path) -> Iterator[tuple[int, bytes]]:
        lines = self.tails[file].lines
        for place, (number, _, raw) in enumerate(lines):
            if place < len(lines) - self.without:
                yield number, raw

    def head(self, file: Path) -> Head:
        return Head(str(file), b"".join(raw for _, raw in self.raw_lines(file))[: 64 << 10], whole=True)


@dataclass(frozen=True)
class Following:
    """What a follower has to say at the end."""

    seen: int
    dropped: int
    window: int
    violations: int
    waiting: str = ""

    @property
    def outcome(self) -> str:
        if self.violations:
            return "violated"
        return "inconclusive" if self.dropped or self.waiting or not self.seen else "sound"

    def __str__(self) -> str:
        within = f"in a window of {self.window:,} lines"
        if self.dropped:
            within += f"; {self.dropped:,} lines have left it, and what is further apart was not compared"
        waiting = f"; {self.waiting}" if self.waiting else ""
        found = plural(self.violations, "violation")
        return f"{self.outcome}: {plural(self.seen, 'line')}, {found}, {within}{waiting}"


class Follower:
    """Judges files as they grow; `poll` looks once."""

    def __init__(
        self,
        paths: Sequence[Path | str],
        request: Request,
        *,
        window: int = WINDOW,
        state: Path | None = None,
        kinds: dict[str, str] | None = None,
    ) -> None:
        self._paths = list(paths)
        # What is not there may still come: no host is complete, and nothing is from nowhere.
        self._request = replace(request, complete=())
        self._window = window
        self._state = state
        self._kinds = kinds or {}
        self._tails: dict[Path, _Tail] = {}
        self._said: dict[tuple[str, str | None, int | None, str], None] = {}
        self._seen = self._dropped = self._found = 0
        self._waiting = self._open = ""
        if state is not None and state.exists():
            self._restore(state)

    def poll(self) -> list[Finding]:
        """Read what was added and say what is wrong with it, each violation once."""
        added = sum(self._grow(file) for file in self._files())
        if not added:
            return []
        self._seen += added
        new, self._open = [], ""
        for finding in self._judge():
            if finding.level != "error":
                self._open = self._open or finding.words
                continue
            key = (finding.kind, finding.file, finding.line, "" if finding.file else finding.words)
            if key not in self._said:
                self._said[key] = None
                new.append(finding)
        while len(self._said) > MOST_SAID:
            self._said.pop(next(iter(self._said)))
        self._found += len(new)
        self._forget()
        if self._state is not None:
            self._save(self._state)
        return new

    def result(self) -> Following:
        return Following(self._seen, self._dropped, self._window, self._found, self._waiting or self._open)

    def _files(self) -> list[Path]:
        try:
            return find_files(self._paths)
        except InputError:
            if any(Path(path).is_dir() for path in self._paths):
                return []  # a folder that is still empty
            raise

    def _grow(self, file: Path) -> int:
        status = file.stat()
        tail = self._tails.get(file)
        if tail is None or tail.identity != status.st_ino or status.st_size < tail.offset:
            tail = self._tails[file] = _Tail(status.st_ino)
        return tail.grow(file, self._request.max_line)

    def _forget(self) -> None:
        """Let the oldest lines of the longest tails go, two at a time: an event may take two lines."""
        excess = sum(len(tail.lines) for tail in self._tails.values()) - self._window
        while excess > 0:
            tail = max(self._tails.values(), key=lambda each: len(each.lines))
            for _ in range(min(len(tail.lines), excess + excess % 2)):
                number, _, raw = tail.lines.popleft()
                if number == 1:
                    tail.header = raw
                excess -= 1
                self._dropped += 1

    def _judge(self) -> list[Finding]:
        files = tuple(file for file, tail in self._tails.items() if tail.lines)
        foreign = find_foreign([*files], self._request) if not self._kinds else None
        if foreign is None:
            return self._judge_table(files)
        if foreign.model == "kv":
            raise ConfigurationError(
                "key-value histories cannot be followed: their reads look back", field="--follow"
            )
        return self._judge_foreign(foreign, files)

    def _judge_foreign(self, log: ForeignLog, files: tuple[Path, ...]) -> list[Finding]:
        """Judge the window. If the last record is not whole yet, judge without it and wait."""
        options: Options = log.source.options
        for without in (0, 1):
            source = _Window(files, options, self._tails, without)
            try:
                data = log.importer.read(source)
            except InputError as error:
                last = {str(file): self._tails[file].lines[-1][0] for file in files}
                at_end = error.line is not None and error.line >= last.get(str(error.path), 0) - without
                if without or not (at_end or error.line is None):
                    raise
                self._waiting = f"waiting for the rest of {error.path}:{error.line}"
                continue
            if not without:
                self._waiting = ""
            return list(findings(judge_data(log.model, data, self._request)))
        return []

    def _judge_table(self, files: tuple[Path, ...]) -> list[Finding]:
        """Judge rows through copies of the windows; lines are those of the files."""
        with tempfile.TemporaryDirectory(prefix="antecast-follow-") as folder:
            copies, shift = {}, {}
            for number, file in enumerate(files):
                tail = self._tails[file]
                copy = Path(folder) / str(number) / file.name.removesuffix(".gz")
                copy.parent.mkdir()
                first, header = tail.lines[0][0], tail.header if file.suffix == ".csv" else b""
                copy.write_bytes(header + b"".join(raw for _, _, raw in tail.lines))
                copies[str(copy)], shift[str(copy)] = str(file), first - 1 - bool(header)
            request = self._request
            try:
                log = open_log(
                    [*copies], file_format=request.format, columns=dict(request.columns), kinds=self._kinds
                )
                verdict = audit_log(log, limit=request.limit, dense=())
            except InputError as error:
                known = copies.get(str(error.path), str(error.path))
                line = None if error.line is None else error.line + shift.get(str(error.path), 0)
                raise InputError(error.problem, path=known, line=line) from None
            found = []
            for each in findings(verdict, log):
                if each.file is not None and each.line is not None:
                    each = replace(each, file=copies[each.file], line=each.line + shift[each.file])
                found.append(each)
            return found

    def _save(self, file: Path) -> None:
        value = {
            "files": {
                str(path): {
                    "identity": tail.identity,
                    "offset": tail.lines[0][1] if tail.lines else tail.offset,
                    "line": tail.lines[0][0] - 1 if tail.lines else tail.line,
                    "header": tail.header.decode("utf-8", "replace"),
                    "read": tail.line,
                }
                for path, tail in self._tails.items()
            },
            "said": [list(key) for key in self._said],
            "seen": self._seen,
            "dropped": self._dropped,
            "found": self._found,
        }
        partial = file.with_name(f".{file.name}.partial")
        try:
            partial.write_text(json.dumps(value), encoding="utf-8")
            os.replace(partial, file)  # noqa: PTH105
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror or error}", path=file) from error

    def _restore(self, file: Path) -> None:
        try:
            value: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            for path, each in value["files"].items():
                tail = _Tail(each["identity"], each["offset"], each["line"], header=each["header"].encode())
                self._tails[Path(path)] = tail
                self._seen -= each["read"] - each["line"]  # they are read again
            self._said = {tuple(key): None for key in value["said"]}
            self._seen += value["seen"]
            self._dropped, self._found = value["dropped"], value["found"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"not the state of --follow ({error}); remove it to begin anew", path=file) from None
