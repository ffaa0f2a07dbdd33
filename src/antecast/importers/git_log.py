"""The history of a repository as `git log` prints it: a causal graph that everyone has.

Three forms are known:

    git log --pretty=raw
    git log --parents --pretty=fuller
    git log --pretty='%H%x09%P%x09%an%x09%ct%x09%s'       tabs between: commit, parents, author, time, subject

A commit is a span of no length at the clock of its committer, and its parents are its causes. The date of the
author is older where commits were moved, so it says nothing about their order.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from antecast.core.errors import InputError
from antecast.importers.source import Head, Place, Source
from antecast.importers.span_table import SpanLog, Spans, nanoseconds

NAME = "git-log"
MODEL = "spans"

_HASH = r"[0-9a-f]{7,64}"
_COMMIT = re.compile(rf"commit ({_HASH})((?: {_HASH})*)(?: \(.*\))?")
_PARENT = re.compile(rf"parent ({_HASH}) *")
_TABBED = re.compile(rf"({_HASH})\t({_HASH}(?: {_HASH})*)?\t([^\t]*)\t(\d+)\t(.*)")
_PERSON = re.compile(r"(?:author|committer) (.*?) ?<[^>]*> (-?\d+) [+-]\d{4}")
_NAMED = re.compile(r"Commit: +(.*?) ?<.*>")
_SECONDS = re.compile(r"(\d{1,11})(?: [+-]\d{4})?")
_DATED = re.compile(r"CommitDate: +(.*)")


def recognises(head: Head) -> bool:
    first = head.lines[0] if head.lines else ""
    if _TABBED.fullmatch(first):
        return True
    return bool(_COMMIT.fullmatch(first)) and len(head.lines) > 1


@dataclass
class _Commit:
    place: Place
    name: str
    parents: list[str]
    who: str = ""
    when: int | None = None
    subject: str = ""


def read(source: Source) -> SpanLog:
    spans = Spans("commit", ordered=True)
    for file in source.files:
        commit: _Commit | None = None
        for place, text in source.lines_of(file):
            if (found := _TABBED.fullmatch(text)) and commit is None:
                name, parents, who, when, subject = found.groups()
                _add(spans, _Commit(place, name, (parents or "").split(), who, int(when) * 10**9, subject))
            elif found := _COMMIT.fullmatch(text):
                if commit is not None:
                    _add(spans, commit)
                commit = _Commit(place, found[1], found[2].split())
            elif commit is None:
                if text.strip():
                    raise place.error("expected a commit, as git log --pretty=raw writes it")
            else:
                _field(commit, place, text)
        if commit is not None:
            _add(spans, commit)
    log = spans.finish(source.files[0])
    if len(log) > 1 and not len(log.child):
        problem = "no commit has a parent; git log shows them with --parents or --pretty=raw"
        raise InputError(problem, path=source.files[0])
    return log


def _field(commit: _Commit, place: Place, text: str) -> None:
    if text.startswith("    "):
        commit.subject = commit.subject or text.strip()
    elif found := _PARENT.fullmatch(text):
        commit.parents.append(found[1])
    elif found := _PERSON.fullmatch(text):
        if text.startswith("committer"):
            _undated(commit, place)
            commit.who, commit.when = found[1], int(found[2]) * 10**9
    elif found := _NAMED.fullmatch(text):
        commit.who = found[1]
    elif found := _DATED.fullmatch(text):
        _undated(commit, place)
        commit.when = nanoseconds(_iso(found[1]), place, "the date")
    elif text.startswith(("commit", "parent")) and not text.startswith("committer "):
        raise place.error("expected the hash of a commit behind commit or parent")
    elif text.startswith(("author ", "committer ")):
        raise place.error("expected NAME <MAIL> SECONDS ZONE behind author or committer")


def _undated(commit: _Commit, place: Place) -> None:
    if commit.when is not None:
        raise place.error(
            f"a second date of the commit of line {commit.place.line}; the line of another is missing"
        )


def _iso(text: str) -> str:
    """A date as git writes it by default, for mails, in seconds, or with a blank before its zone.

    >>> _iso("Wed, 1 May 2024 12:00:00 +0200"), _iso("1714557600 +0200")
    ('2024-05-01T12:00:00+02:00', '2024-05-01T10:00:00+00:00')
    >>> _iso("Wed May 1 12:00:00 2024 +0200"), _iso("2024-05-01 12:00:00 +0200")
    ('2024-05-01T12:00:00+02:00', '2024-05-01 12:00:00+0200')
    """
    for form in ("%a %b %d %H:%M:%S %Y %z", "%a, %d %b %Y %H:%M:%S %z"):
        with suppress(ValueError):
            return datetime.strptime(text.strip(), form).isoformat()
    if found := _SECONDS.fullmatch(text.strip()):
        return datetime.fromtimestamp(int(found[1]), UTC).isoformat()
    return re.sub(r" ([+-]\d{4})$", r"\1", text.strip())


def _add(spans: Spans, commit: _Commit) -> None:
    if commit.when is None:
        problem = "the commit has no CommitDate: the log is cut short, or was made without --pretty=raw or fuller"
        raise commit.place.error(problem)
    first, *merged = commit.parents or [""]
    spans.add(
        commit.place,
        trace="",
        span=commit.name,
        parent=first,
        service=commit.who,
        name=commit.subject,
        start=commit.when,
        end=commit.when,
        links=[("", each) for each in merged],
    )
