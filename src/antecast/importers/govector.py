"""Logs with vector clocks as GoVector writes and ShiViz reads them.

The layouts that are recognised:

    HOST {"HOST": 3, "other": 7}          the clock, then the event on a line of its own
    what happened

    what happened                         the event first
    HOST {"HOST": 3, "other": 7}

    12:00:01 [app/HOST] {"HOST": 3} what happened         all on one line, behind any prefix

The host is the last word before the clock, or the last words, as the clock counts it; without brackets and the
path before it if that is its name in the clock. Any other layout takes `Options.regex`, a regular expression as
ShiViz has it, with the groups host, clock and event. `Options.delimiter` is one for the lines between
executions; its group `trace`, if it has one, names the execution that follows. `@file` as a delimiter makes each
file an execution of its own.

In the layout of one line, a line without a clock is no event; such lines are kept as `unmatched`. Everything else
that does not fit is refused: a line that is skipped could be the event that matters. So is a line with events
behind a carriage return or another end of a line that is not LF, since they would pass for the text of the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from antecast.core.errors import ConfigurationError, InputError
from antecast.importers.clock_events import ClockEvents, ClockLog, check_keys
from antecast.importers.source import Head, Options, Place, Source, decoded

NAME = "govector"
MODEL = "clocks"

Layout: TypeAlias = Literal["clock first", "event first", "one line"]

_PAIR = r'"(?:[^"\\]|\\.)*"\s*:\s*-?\d+\s*'
_CLOCK = re.compile(rf"\{{\s*(?:{_PAIR}(?:,\s*{_PAIR})*)?\}}")
EACH_FILE = "@file"
"""As a delimiter: every file is an execution of its own."""

_OTHER_ENDS = "several events on one line, with line ends that are not LF or CR LF between them"
_PEEKED = 200
_decode = msgspec.json.Decoder(dict[str, int]).decode


class _Stamp(NamedTuple):
    """A line with a clock in it."""

    before: str
    clock: dict[str, int]
    text: str
    """The clock as it is written."""
    after: str

    @property
    def host(self) -> str:
        return _host(self.before, self.clock)


def _stamp(line: str) -> _Stamp | None:
    """The clock of a line and what stands around it; None if the line has none, or nothing before it."""
    start = line.find("{")
    if start < 1 or not line[:start].strip():
        return None
    end = line.find("}", start) + 1
    try:
        clock = _decode(line[start:end])
    except msgspec.MsgspecError:  # a brace in a name, or one before the clock: look closely
        found = _CLOCK.search(line, start)
        if found is None:
            return None
        start, end = found.span()
        try:
            clock = _decode(found[0])
        except msgspec.MsgspecError:
            return None
    return _Stamp(line[:start], clock, line[start:end], line[end:].strip())


def recognises(head: Head) -> bool:
    lines = head.lines[:20]
    stamps = [stamp for line in lines if not line.lstrip().startswith("{") and (stamp := _stamp(line))]
    return any(stamp.host in stamp.clock for stamp in stamps) and len(stamps) >= 0.4 * len(lines)


def read(source: Source) -> ClockLog:
    events, options = ClockEvents(), source.options
    for file in source.files:
        if options.delimiter == EACH_FILE:
            events.next_execution(str(file))
        if options.regex is not None:
            _read_by_regex(source, file, events)
        else:
            _read_by_layout(source, file, events)
    if not len(events):
        raise InputError("no event with a vector clock", path=source.files[0])
    return events.finish()


class _Line(NamedTuple):
    place: Place
    text: str
    ended: bool


def _lines(source: Source, file: Path) -> Iterator[_Line]:
    name = str(file)
    for number, raw in source.raw_lines(file):
        line = _Line(Place(name, number), decoded(name, number, raw), raw.endswith(b"\n"))
        if any(map(_stamp, line.text.splitlines()[1:])):
            raise line.place.error(_OTHER_ENDS)
        yield line


def layout_of(lines: Iterable[str]) -> Layout:
    """The layout, by the first lines that are not blank."""
    first: str | None = None
    for line in lines:
        if not line.strip():
            continue
        stamp = _stamp(line)
        if stamp is not None:
            if stamp.after:
                return "one line"
            return "clock first" if first is None else "event first"
        first = line if first is None else first
    return "one line"


def _read_by_layout(source: Source, file: Path, events: ClockEvents) -> None:
    delimiter = _delimiter(source.options)
    head = (line.text for line in _lines(source, file))
    layout = layout_of(islice((text for text in head if not (delimiter and delimiter.search(text))), _PEEKED))
    if layout == "one line":
        _read_one_line(_lines(source, file), events, delimiter, source.options)
    else:
        _read_two_lines(_lines(source, file), events, delimiter, clock_first=layout == "clock first")


def _read_one_line(
    lines: Iterator[_Line], events: ClockEvents, delimiter: re.Pattern[str] | None, options: Options
) -> None:
    for place, text, ended in lines:
        if delimiter is not None and (found := delimiter.search(text)):
            events.next_execution(_trace(found))
            continue
        stamp = _stamp(text)
        if stamp is not None:
            if not stamp.after and not options.skip_unmatched:
                raise place.error("no event behind the clock; the first lines have both on one line")
            _add(events, stamp.host, stamp.clock, stamp.text, stamp.after, place)
        elif text.strip():
            if "{" in text and not options.skip_unmatched:
                raise place.error('a clock is expected between { and }, such as HOST {"HOST": 3} EVENT')
            if not ended and not options.skip_unmatched:
                raise place.error("the last line has no clock and no line end: it is cut short")
            events.unmatched.append(place)


def _read_two_lines(
    lines: Iterator[_Line], events: ClockEvents, delimiter: re.Pattern[str] | None, *, clock_first: bool
) -> None:
    """Two lines per event. A line of the wrong kind means that one is missing: it is refused where that shows."""
    waiting: tuple[Place, _Stamp | str] | None = None
    for place, text, _ in lines:
        if delimiter is not None and (found := delimiter.search(text)):
            if waiting is not None:
                break
            events.next_execution(_trace(found))
            continue
        stamp = _stamp(text)
        if stamp is not None and (stamp.after or (stamp.host not in stamp.clock and clock_first == bool(waiting))):
            stamp = None  # the text of an event may have braces of its own
        if waiting is None:
            if not text.strip() and clock_first:
                continue
            if clock_first and stamp is None:
                raise place.error('expected HOST {"HOST": NUMBER, ...}, the line before an event')
            if not clock_first and stamp is not None:
                raise place.error("a clock without an event on the line before it")
            if text.strip():
                waiting = (place, text if stamp is None else stamp)
            continue
        if clock_first:
            clock = waiting[1]
            assert isinstance(clock, _Stamp)
            if stamp is not None:
                raise place.error(f"a second clock, where the event of line {waiting[0].line} is expected")
            _add(events, clock.host, clock.clock, clock.text, text.strip(), waiting[0])
        else:
            if stamp is None:
                raise place.error(f'expected HOST {{"HOST": NUMBER, ...}} for the event on line {waiting[0].line}')
            _add(events, stamp.host, stamp.clock, stamp.text, str(waiting[1]).strip(), place)
        waiting = None
    if waiting is not None:
        missing = "event on the line after it" if clock_first else "clock on the line after it"
        raise waiting[0].error(f"the log is cut short: no {missing}")


def _read_by_regex(source: Source, file: Path, events: ClockEvents) -> None:
    options = source.options
    pattern, delimiter = _compiled("--regex", options.regex or ""), _delimiter(options)
    for group in ("host", "clock", "event"):
        if group not in pattern.groupindex:
            problem = f"no group {group!r}; expected (?<host>...), (?<clock>...) and (?<event>...)"
            raise ConfigurationError(problem, field="--regex")
    whole, base = source.text_of(file)
    name, parts = str(file), whole.split("\n")
    starts = [0, *accumulate(len(text) + 1 for text in parts)]

    def between(start: int, stop: int, first: int) -> int:
        """Lines that no event has; the number of the line that `stop` is on."""
        line = first
        while line < len(parts) and starts[line] <= stop:
            line += 1
        for number in range(first, line + 1):
            inside = whole[max(start, starts[number - 1]) : min(stop, starts[number] - 1)]
            if not inside.strip():
                continue
            if delimiter is not None and (found := delimiter.search(inside)):
                events.next_execution(_trace(found))
            elif options.skip_unmatched:
                events.unmatched.append(Place(name, base + number - 1))
            else:
                raise Place(name, base + number - 1).error(
                    "the line does not match --regex; --skip-unmatched leaves it out"
                )
        return line

    end, line = 0, 1
    for found in pattern.finditer(whole):
        if found.end() == found.start():
            continue
        line = between(end, found.start(), line)
        place = Place(name, base + line - 1)
        try:
            clock = _decode(found["clock"])
        except msgspec.MsgspecError as error:
            raise place.error(f"the clock is not an object of whole numbers: {error}") from None
        inside = (piece for text in found["event"].split("\n") for piece in text.splitlines()[1:])
        if any(map(pattern.search, inside)):
            raise place.error(_OTHER_ENDS)
        _add(events, found["host"], clock, found["clock"], found["event"].strip(), place)
        end = found.end()
    if parts:
        between(end, len(whole), line)


def _compiled(option: str, text: str) -> re.Pattern[str]:
    """A regular expression; groups may be named as JavaScript does, `(?<host>...)`."""
    try:
        return re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", text), re.MULTILINE)
    except re.error as error:
        raise ConfigurationError(f"not a regular expression: {error}", field=option) from None


def _delimiter(options: Options) -> re.Pattern[str] | None:
    return None if options.delimiter in (None, EACH_FILE) else _compiled("--delimiter", str(options.delimiter))


def _trace(found: re.Match[str]) -> str:
    return str(found.groupdict().get("trace") or "").strip()


def _host(before: str, clock: Mapping[str, int]) -> str:
    """
    >>> _host("[INFO] [akka://Broadcast/user/node0]", {"node0": 1}), _host("<0.1.0>", {"<0.1.0>": 1})
    ('node0', '<0.1.0>')
    """
    word = before.split()[-1]
    if word in clock:
        return word
    bare = word.strip("[](){}<>,;:\"'")
    named = (bare, bare.rpartition("/")[2])
    found = next((name for name in named if name in clock), None)
    if found is None:  # a name of several words
        whole = f" {before.strip()}"
        found = max((name for name in clock if whole.endswith(f" {name}")), key=len, default=named[1])
    return found


def _add(events: ClockEvents, host: str, clock: dict[str, int], text: str, event: str, place: Place) -> None:
    check_keys(text, clock, place)
    if clock and (min(clock.values()) < 0 or max(clock.values()) >= 2**62):
        raise place.error("a clock counts events: whole numbers from 0 to 2^62 are expected")
    events.add(host, clock, event, place)
