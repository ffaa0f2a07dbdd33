"""Logs that still grow: what came since the last look is judged, and what is wrong is said once.

Theory of operation. A follower keeps the last lines of its files, `window` of them in all (`tails`), and judges
these each time something was added. The models speak of pairs and chains of events that are in the log: what
they find in a part of it is wrong in the whole, too. What only the end of a log can tell (a clock that knows more
than is logged, a parent that is not there, a delivery without a broadcast) is no violation here, for it may still
come. Nor is what its beginning can tell: a read of a value that was written before the window is open.

What is further apart than the window is never compared; the verdict says so. A record that the window cuts is left
out at its beginning, and awaited at its end.

The place in every file, and what was said already, go to a state file after each look that found something new,
by renaming: a restart goes on where it was, reads the window again and repeats nothing. What is said goes to `say`
first, so that a process that is killed in between says it again and never loses it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from antecast.auditing.applying import check_format_options, check_model_options
from antecast.auditing.findings import Finding, findings
from antecast.auditing.foreign import ForeignLog, Request, foreign_of, judge_data, means_table, read_options
from antecast.auditing.tails import Tail, Tails
from antecast.core.errors import ConfigurationError, InputError, OutputError
from antecast.history.log_audit import audit_log
from antecast.history.log_files import open_log
from antecast.history.log_formats import format_of
from antecast.history.log_kinds import NO_ROW, NOT_ONE
from antecast.importers.registry import importer
from antecast.importers.source import HEAD_BYTES, Head, Source
from antecast.kv import History
from antecast.text.wording import plural

WINDOW = 50_000
"""Lines that are kept by default."""

MOST_SAID = 100_000
"""Violations that are remembered so that they are not said again."""

KEPT_FINDINGS = 5_000
"""Violations that are kept for a report at the end."""

_RECOGNISED_BY = 20
"""Lines after which a format that is not recognised is an error."""

_LONGEST_RECORD = 10_000
"""Lines of a record that is awaited, or left out where the window begins."""

_TABLE = "a table"
_BY_LINES = ("elle", "plume")
"""Formats of key-value histories that grow by lines."""

_Key: TypeAlias = tuple[str, int, int, str]


@dataclass(frozen=True)
class _Window(Source):
    """The lines of a window as importers read them."""

    tails: dict[Path, Tail] = field(default_factory=dict)
    cut: dict[Path, tuple[int, int]] = field(default_factory=dict)
    """Lines of records that the window cuts, left out at the beginning and at the end of a file."""
    headed: bool = False
    """Whether the first line of a file is a header that belongs to all others."""

    def raw_lines(self, file: Path) -> Iterator[tuple[int, bytes]]:
        tail, (first, last) = self.tails[file], self.cut.get(file, (0, 0))
        if self.headed and tail.header:
            yield 1, tail.header
        for place, (number, _, raw) in enumerate(tail.lines):
            if first <= place < len(tail.lines) - last:
                yield number, raw

    def documents(self, *, text: bool = True) -> Iterator[tuple[Path, bytes]]:
        for file in self.files:
            yield file, b"".join(raw for _, raw in self.raw_lines(file))

    def head(self, file: Path) -> Head:
        data = b""
        for _, raw in self.raw_lines(file):
            data += raw
            if len(data) >= HEAD_BYTES:
                break
        return Head(str(file), data[:HEAD_BYTES], whole=True)


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
        dense: Collection[str] | None = None,
        say: Callable[[Sequence[Finding]], None] | None = None,
    ) -> None:
        # What is not there may still come: no host is complete, and nothing is from nowhere.
        self._request = replace(request, complete=())
        self._asked = request
        self._window = window
        self._state = state
        self._kinds = kinds or {}
        self._dense = dense
        self._say = say
        self.tails = Tails(paths, window=window, max_line=request.max_line)
        self._format: tuple[set[int], ForeignLog | None] | None = None
        self._said: dict[_Key, None] = {}
        self._seen = self._found = 0
        self._judged = False
        """Whether a window of a table had broadcasts and deliveries."""
        self._waiting = self._open = ""
        self.findings: list[Finding] = []
        """What was said, for reports."""
        if state is not None and state.exists():
            self._restore(state)

    def poll(self) -> list[Finding]:
        """Read what was added and say what is wrong with it, each violation once."""
        new: list[Finding] = []
        while added := self.tails.grow(self._window):
            new += self.judge(added)
        return new

    def take(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[list[Finding]]:
        """Judge lines that somebody else has read, in steps of the window; what is wrong, step by step."""
        added = 0
        for row in rows:
            if row["place"] < 0:
                self.tails.dropped += 1
            elif self.tails.take(row["tail"], Path(row["file"]), row["place"], row["text"]):
                added += 1
            if added == self._window:
                yield self.judge(added)
                added = 0
        if added:
            yield self.judge(added)

    def judge(self, added: int) -> list[Finding]:
        """Judge the window after so many lines were added; what was not said before."""
        self._seen += added
        new, self._open = [], ""
        labels = {str(tail.label): tail.number for tail in self.tails}
        for finding in self._judge():
            if finding.level == "note":
                continue
            if finding.level != "error":
                self._open = self._open or finding.words
                continue
            number = labels.get(str(finding.file), 0)
            key = (finding.kind, number, finding.line or 0, "" if number else finding.words)
            if key not in self._said:
                self._said[key] = None
                new.append(finding)
        while len(self._said) > MOST_SAID:
            self._said.pop(next(iter(self._said)))
        self._found += len(new)
        self.findings += new[: KEPT_FINDINGS - len(self.findings)]
        self.tails.forget()
        if self._say is not None:
            self._say(new)
        if self._state is not None:
            self._save(self._state)
        return new

    def result(self) -> Following:
        waiting = self._waiting or self._open or self.tails.gone or self.tails.unread()
        return Following(self._seen, self.tails.dropped, self._window, self._found, waiting)

    def _judge(self) -> list[Finding]:
        tails = {tail.label: tail for tail in self.tails}
        try:
            foreign = self._recognised(tails)
        except InputError as error:
            if self._request.format is not None or self._seen >= _RECOGNISED_BY or error.line is not None:
                raise
            self._waiting = f"waiting for more of {error.path}: the format is not recognised yet"
            return []
        self._check_options(foreign)
        if foreign is None:
            self._waiting = ""
            return self._judge_table(tails)
        return self._judge_foreign(foreign, tails)

    def _check_options(self, log: ForeignLog | None) -> None:
        if log is None:
            check_model_options("broadcast", self._asked, kinds=self._kinds, dense=self._dense)
            check_format_options(_TABLE, self._asked, table=True)
        else:
            check_model_options(log.model, self._asked, kinds=self._kinds, dense=self._dense)
            check_format_options(log.importer.NAME, self._asked, table=log.tabular)

    def _recognised(self, tails: dict[Path, Tail]) -> ForeignLog | None:
        """The format of all files; looked for anew only where a file came."""
        if self._kinds or means_table(self._request):
            return None
        known = None if self._format is None else self._format[0]
        numbers = {tail.number for tail in tails.values()}
        if known is None or not numbers <= known:
            new = {label: tail for label, tail in tails.items() if known is None or tail.number not in known}
            found = foreign_of(_Window(tuple(new), read_options(self._request), new), self._request)
            if found is not None and found.model == "kv" and found.importer.NAME not in _BY_LINES:
                problem = (
                    f"{found.importer.NAME} does not grow by lines; {' and '.join(_BY_LINES)} can be followed"
                )
                raise ConfigurationError(problem, field="--follow")
            if self._format is not None and _name(found) != _name(self._format[1]):
                problem = f"this file is {_name(found)}, but others are {_name(self._format[1])}"
                raise InputError(f"{problem}; a log has one format", path=next(iter(new)))
            self._format = ((known or set()) | numbers, found)
        return self._format[1] if self._format is not None else None

    def _known(self, name: str) -> ForeignLog | None:
        """The format that was recognised before a restart: the window need not begin as a file does."""
        if name == _TABLE:
            return None
        return ForeignLog(Source((), read_options(self._request)), importer(name), self._request)

    def _judge_foreign(self, log: ForeignLog, tails: dict[Path, Tail]) -> list[Finding]:
        """Judge the window without the records that it cuts."""
        headed = log.importer.NAME == "spans-csv"
        cut: dict[Path, tuple[int, int]] = {}
        self._waiting = ""
        while True:
            files = tuple(label for label, tail in tails.items() if sum(cut.get(label, (0, 0))) < len(tail.lines))
            if not files:
                return []
            source = _Window(files, log.source.options, tails, cut, headed)
            try:
                data = log.importer.read(source)
            except InputError as error:
                label = Path(str(error.path))
                if label not in tails or not self._cut(cut, label, tails[label], error, log):
                    raise
                continue
            if isinstance(data, History) and log.importer.NAME == "plume":
                _shift_lines(data, source)
            return list(findings(judge_data(log.model, data, self._request)))

    def _cut(
        self,
        cut: dict[Path, tuple[int, int]],
        label: Path,
        tail: Tail,
        error: InputError,
        log: ForeignLog,
    ) -> bool:
        """Leave out part of a record at an edge of the window; False if the error is not there."""
        first, last = cut.get(label, (0, 0))
        there = len(tail.lines) - first - last
        line = error.line or tail.line
        if log.importer.NAME == "plume" and error.line is not None:
            line += tail.lines[0][0] + first - 1
        top, bottom = tail.lines[0][0] + first, tail.line - last
        if tail.left and line <= top + 1 and first < _LONGEST_RECORD:
            cut[label] = (first + max(1, min(line - top, there)), last)
            return True
        if line >= bottom - 1 and last < _LONGEST_RECORD:
            self._waiting = f"waiting for the rest of {label}:{line}"
            cut[label] = (first, min(len(tail.lines) - first, _before_last_record(tail, last)))
            return True
        return False

    def _judge_table(self, tails: dict[Path, Tail]) -> list[Finding]:
        """Judge rows through copies of the windows; lines are those of the files."""
        request = self._request
        chosen = request.format or next((each for each in map(format_of, tails) if each is not None), None)
        with tempfile.TemporaryDirectory(prefix="antecast-follow-") as folder:
            copies, shift = {}, {}
            for number, (label, tail) in enumerate(tails.items()):
                values = (part for part in label.parts[:-1] if "=" in part)  # columns in the names of folders
                copy = Path(folder, str(number), *values, label.name)
                copy.parent.mkdir(parents=True)
                first, header = tail.lines[0][0], tail.header if chosen == "csv" else b""
                copy.write_bytes(header + b"".join(raw for _, _, raw in tail.lines))
                copies[str(copy)], shift[str(copy)] = str(label), first - 1 - bool(header)
            try:
                log = open_log([*copies], file_format=chosen, columns=dict(request.columns), kinds=self._kinds)
                verdict = audit_log(log, limit=request.limit, dense=self._dense)
            except InputError as error:
                if error.problem.startswith(NO_ROW) and self._judged:  # there were some before the window
                    return []
                early = self._seen < self._window or error.problem.endswith(NOT_ONE)
                if error.problem.startswith(NO_ROW) and early:  # it may still come
                    self._waiting = f"{error.problem} so far"
                    return []
                known = copies.get(str(error.path), str(error.path))
                line = None if error.line is None else error.line + shift.get(str(error.path), 0)
                raise InputError(_of_files(error.problem, copies, shift), path=known, line=line) from None
            self._judged, found = True, []
            for each in findings(verdict, log, placed=None):
                if each.file is not None and each.line is not None:
                    each = replace(each, file=copies[each.file], line=each.line + shift[each.file])
                found.append(each)
            return found

    def _save(self, file: Path) -> None:
        value = {
            "tails": self.tails.state(),
            "said": [list(key) for key in self._said],
            "seen": self._seen,
            "found": self._found,
            "judged": self._judged,
            "format": None if self._format is None else _name(self._format[1]),
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
            self._seen = value["seen"] - self.tails.restore(value["tails"])
            self._said = {
                (str(kind), int(tail), int(line), str(words)): None for kind, tail, line, words in value["said"]
            }
            self._found = value["found"]
            self._judged = bool(value.get("judged"))
            if value["format"] is not None:
                numbers = {tail.number for tail in self.tails.all}
                self._format = (numbers, self._known(value["format"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"not the state of --follow ({error}); remove it to start over", path=file) from None


def _of_files(problem: str, copies: Mapping[str, str], shift: Mapping[str, int]) -> str:
    """Words about copies of windows, in the names and the lines of the files."""
    for copy, label in copies.items():
        lines = re.compile(rf"{re.escape(copy)}:(\d+)")
        problem = lines.sub(lambda found, to=label, by=shift[copy]: f"{to}:{int(found[1]) + by}", problem)  # type: ignore[misc]
    return problem


def _name(log: ForeignLog | None) -> str:
    return _TABLE if log is None else log.importer.NAME


def _before_last_record(tail: Tail, left_out: int) -> int:
    """Lines to leave out at the end: one more, or all behind the brace that ends a record of several lines."""
    for back in range(left_out + 1, min(len(tail.lines), _LONGEST_RECORD)):
        raw = tail.lines[-1 - back][2]
        if raw.rstrip() in (b"}", b"},"):
            return back
        if back == left_out + 1 and not tail.lines[-back][2][:1].isspace():
            return back  # records of a line or two
    return left_out + 1


def _shift_lines(history: History, source: _Window) -> None:
    """Numbers of lines as in the file, where the importer counted from the beginning of the window."""
    first = [next((number for number, _ in source.raw_lines(file)), 1) - 1 for file in source.files]
    for number, shift in enumerate(first):
        history.line[history.file == number] += shift
