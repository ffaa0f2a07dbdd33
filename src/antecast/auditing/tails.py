"""Files that still grow: their last lines, and the place from which each goes on.

What is promised:
- A line counts once its end is there. Lines are read a step at a time, in turns from all files, so that memory is
  bounded by the window whatever the files hold.
- A file is known by its number in the file system. One that is renamed, as rotation does, keeps its lines and is
  read to its end; what then stands under its old name is another file. It may go while it is looked at.
- A file that was truncated, or replaced by another of its number, begins anew. It shows by its size, or by what
  stands before the place that was reached. If there is a copy of it in its folder, as `copytruncate` leaves one,
  its rest is read there. Copies are not read twice (`copies`).
- Compressed files do not grow: those in folders are what rotation left behind, and are passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from antecast.auditing.copies import Size, copies_among, holder, holds
from antecast.core.errors import ConfigurationError, InputError
from antecast.core.log_files import compression_of, find_files
from antecast.text.sizes import format_size

_CHUNK = 1 << 20
_LOOKS = 100
MARK = 256
"""Bytes before a place that tell whether a file is still the same."""

Identity: TypeAlias = tuple[int, int]
"""The number of a file and of its file system."""


@dataclass
class Tail:
    """The last lines of one file."""

    number: int
    """One for each tail: a name may come again."""
    path: Path
    identity: Identity
    offset: int = 0
    """Where the next line begins."""
    line: int = 0
    """Lines before it."""
    mark: bytes = b""
    """What stands before it."""
    lines: deque[tuple[int, int, bytes]] = field(default_factory=deque)
    """Number, offset and text of the lines in the window."""
    header: bytes = b""
    """The first line, which stays when the window moves on."""
    left: bytes = b""
    """What stands before the window."""
    size: int = 0
    """The size of the file when it was last looked at."""
    label: Path = Path()
    """What the file is called in reports: its path, if no other tail has it."""

    def append(self, raw: bytes) -> None:
        self.line += 1
        self.lines.append((self.line, self.offset, raw))
        self.offset += len(raw)
        self.mark = (self.mark + raw)[-MARK:]

    def pop(self) -> None:
        """Let the oldest line go."""
        number, _, raw = self.lines.popleft()
        self.left = (self.left + raw)[-MARK:]
        if number == 1:
            self.header = raw

    def read(self, file: Path, most: int, max_line: int) -> int:
        """Read at most so many lines that were added; how many."""
        added = 0
        with file.open("rb") as stream:
            stream.seek(self.offset)
            rest = b""
            while added < most and (chunk := stream.read(_CHUNK)):
                *whole, rest = (rest + chunk).split(b"\n")
                for raw in whole[: most - added]:
                    if len(raw) > max_line:
                        raise self._too_long(file, max_line)
                    self.append(raw + b"\n")
                added += min(len(whole), most - added)
                if len(rest) > max_line:
                    raise self._too_long(file, max_line)
        return added

    def _too_long(self, file: Path, most: int) -> InputError:
        return InputError(f"the line is longer than {format_size(most)}", path=file, line=self.line + 1)

    def same(self, file: Path, size: int) -> bool:
        """Whether a file that has this tail's number is the file it was."""
        return size >= self.offset and holds(file, self.offset, self.mark)

    def state(self) -> dict[str, Any]:
        """What a restart needs to read the window again, and to know that the file is still the one it was."""
        return {
            "path": str(self.path),
            "identity": list(self.identity),
            "offset": self.lines[0][1] if self.lines else self.offset,
            "line": self.lines[0][0] - 1 if self.lines else self.line,
            "left": (self.left if self.lines else self.mark).hex(),
            "header": self.header.hex(),
            "read": self.line,
            "end": self.offset,
            "mark": self.mark.hex(),
            "number": self.number,
        }


class Tails:
    """The tails of all files that paths name, now and later."""

    def __init__(self, paths: Sequence[Path | str], *, window: int, max_line: int) -> None:
        self.paths = list(paths)
        self._window = window
        self.max_line = max_line
        self.count = 0
        self.dropped = 0
        """Lines that have left the window."""
        self.gone = ""
        """A file that went before it was read to its end, in words."""
        self.all: list[Tail] = []
        self.copies: set[Size] = set()
        """Files that were found to be copies."""

    def __iter__(self) -> Iterator[Tail]:
        """Those that have lines in the window, under names that tell them apart."""
        some = [tail for tail in self.all if tail.lines]
        newest = {tail.path: tail.number for tail in some}
        for tail in some:
            older = newest[tail.path] != tail.number
            tail.label = Path(f"{tail.path} (before it was truncated, {tail.number})") if older else tail.path
        return iter(some)

    def grow(self, most: int) -> int:
        """Read lines that were added, at most so many in all; how many."""
        files = self._found_again()
        added, open_ = 0, list(files)
        while open_ and added < most:
            share = max(1, (most - added) // len(open_))
            more = [(file, self._read(files[file], file, share)) for file in open_]
            added += sum(count for _, count in more)
            open_ = [file for file, count in more if count == share]
        return added

    def _read(self, tail: Tail, file: Path, most: int) -> int:
        try:
            return tail.read(file, most, self.max_line)
        except FileNotFoundError:  # the next look finds it under its new name, or not
            return 0

    def _found_again(self) -> dict[Path, Tail]:
        """The files that can be read on; where one goes while it is looked at, all are looked at anew."""
        for _ in range(_LOOKS):
            with suppress(FileNotFoundError):
                return self.found()
        return self.found()

    def take(self, number: int, path: Path, offset: int, raw: bytes) -> bool:
        """A line that somebody else has read; False if it is here already."""
        tail = next((each for each in self.all if each.number == number), None)
        if tail is None:
            tail = Tail(number, path, (-1, number))
            self.all.append(tail)
            self.count = max(self.count, number)
        if offset < tail.offset:
            return False
        if tail.identity[0] < 0 and path.exists():
            status = path.stat()
            tail.identity = (status.st_dev, status.st_ino)
        tail.path, tail.offset = path, offset
        tail.append(raw)
        return True

    def forget(self) -> None:
        """Let the oldest lines of the longest tails go, two at a time: an event may take two lines."""
        excess = sum(len(tail.lines) for tail in self.all) - self._window
        while excess > 0:
            tail = max(self.all, key=lambda each: len(each.lines))
            for _ in range(min(len(tail.lines), 2)):
                tail.pop()
                excess -= 1
                self.dropped += 1

    def found(self) -> dict[Path, Tail]:
        """The files that can be read on, each with its tail."""
        known = {tail.identity: tail for tail in self.all}
        found: dict[Path, Tail] = {}
        sizes: dict[Path, Size] = {}
        lost: list[Tail] = []
        for file in self._files():
            status = file.stat()
            sizes[file] = (status.st_dev, status.st_ino, status.st_size)
            tail = known.pop(sizes[file][:2], None)
            if tail is not None and not tail.same(file, status.st_size):
                lost.append(tail)
            elif tail is not None:
                found[file] = tail
        for tail in known.values():  # moved out of what is followed, perhaps with lines that were not read
            if tail.identity[0] >= 0 and (moved := _elsewhere(tail)) is not None:
                found[moved] = tail
            elif tail.identity[0] >= 0:
                lost.append(tail)
        for tail in lost:
            self._read_on_in_a_copy(tail, found, sizes)
        named = {Path(path) for path in self.paths}
        new = [each for each in sizes.items() if each[0] not in found or not found[each[0]].offset]
        others = [each for each in sizes.items() if each not in new]
        copies = set(copies_among([each for each in new if each[0] not in named], others, self.copies))
        for file, size in new:
            if file in copies:
                found.pop(file, None)
            elif file not in found:
                found[file] = self._begin(file, size[:2])
        for file, tail in found.items():
            tail.path, tail.size = file, sizes[file][2] if file in sizes else tail.size
        self.all = [tail for tail in self.all if tail.lines or tail in found.values()]
        return found

    def _read_on_in_a_copy(self, tail: Tail, found: dict[Path, Tail], listed: Container[Path]) -> None:
        """Go on in a copy of a file that is gone, or no longer what it was; its lines stay in any case."""
        live = {each.identity for each in found.values() if each.offset}
        copy = holder(tail.path, tail.offset, tail.mark, listed=listed, apart=live)
        if copy is not None:
            status = copy.stat()
            tail.identity, tail.path, found[copy] = (status.st_dev, status.st_ino), copy, tail
            return
        if tail.size > tail.offset:
            how = "was truncated" if tail.path.exists() else "is gone"
            self.gone = f"{tail.path} {how}, and {tail.size - tail.offset:,} bytes of it were not read"
        tail.identity = (-1, tail.number)

    def _begin(self, file: Path, identity: Identity) -> Tail:
        self.count += 1
        self.all.append(Tail(self.count, file, identity))
        return self.all[-1]

    def _files(self) -> list[Path]:
        try:
            found = find_files(self.paths, growing=True)
        except InputError:
            if self.all or any(Path(path).is_dir() for path in self.paths):
                return []  # a folder that is still empty, or a file between its old name and a new one
            raise
        named = {Path(path) for path in self.paths}
        packed = [file for file in found if compression_of(file) is not None or file.suffix == ".parquet"]
        for file in packed:
            if file in named:
                problem = f"{file} is compressed or Parquet, which does not grow by lines"
                raise ConfigurationError(problem, field="--follow")
        return [file for file in found if file not in packed]

    def unread(self) -> str:
        """What stands behind the last line that was read, in words: a line that has no end is none yet."""
        for tail in self.all:
            file = place_of(tail) if tail.identity[0] >= 0 else None
            with suppress(FileNotFoundError):
                if file is not None and file.stat().st_size > tail.offset:
                    return f"line {tail.line + 1} of {file} has no end yet"
        return ""

    def state(self) -> dict[str, Any]:
        return {
            "files": [tail.state() for tail in self.all if tail.identity[0] >= 0],
            "count": self.count,
            "gone": self.gone,
            "dropped": self.dropped + sum(len(tail.lines) for tail in self.all if tail.identity[0] < 0),
        }

    def restore(self, value: dict[str, Any]) -> int:
        """Go on where another left it; how many lines of the window will be read again."""
        again, listed = 0, list[Path]()
        with suppress(InputError):  # no file is there yet, which the next look says
            listed = self._files()
        self.count, self.dropped = int(value["count"]), int(value["dropped"])
        self.gone = str(value.get("gone", ""))
        for each in value["files"]:
            device, number = each["identity"]
            tail = Tail(each["number"], Path(each["path"]), (int(device), int(number)))
            tail.offset, tail.mark = int(each["end"]), bytes.fromhex(each["mark"])
            place = place_of(tail, listed)
            if place is None:  # gone, or truncated since
                self.dropped += each["read"] - each["line"]
                continue
            status = place.stat()
            tail.path, tail.identity = place, (status.st_dev, status.st_ino)
            tail.offset, tail.line = int(each["offset"]), int(each["line"])
            tail.mark = tail.left = bytes.fromhex(each["left"])
            tail.header = bytes.fromhex(each["header"])
            again += each["read"] - each["line"]
            self.all.append(tail)
        return again


def place_of(tail: Tail, listed: Container[Path] = ()) -> Path | None:
    """Where the file of a tail is, under its name or another one in its folder, or else a copy of it."""
    with suppress(OSError):
        status = tail.path.stat()
        if (status.st_dev, status.st_ino) == tail.identity and tail.same(tail.path, status.st_size):
            return tail.path
    return _elsewhere(tail) or holder(tail.path, tail.offset, tail.mark, listed=listed)


def _elsewhere(tail: Tail) -> Path | None:
    """A file of the same folder that has the number of a tail and begins as it did."""
    try:
        for file in tail.path.parent.iterdir():
            if file.is_file():
                status = file.stat()
                if (status.st_dev, status.st_ino) == tail.identity and tail.same(file, status.st_size):
                    return file
    except OSError:
        pass
    return None
