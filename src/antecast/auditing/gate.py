"""Verdicts for machines that decide: JUnit, SARIF, annotations of GitHub, and the exit code.

Each form is a text made from findings; nothing here reads a log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote
from xml.sax import saxutils

from antecast.auditing.findings import Finding
from antecast.version import __version__

FailOn: TypeAlias = Literal["violated", "inconclusive"]

MOST_RESULTS = 5_000
"""Results in a SARIF file; readers refuse more."""

MOST_ANNOTATIONS = 10
"""Annotations of a level that GitHub shows for a step."""

_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML has no place for."""


def exit_code(outcome: str, fail_on: FailOn | None) -> int:
    """The exit code of a verdict. Without a word about what fails, each outcome has a code of its own."""
    if outcome == "violated":
        return 1
    if outcome == "inconclusive":
        return {"violated": 0, "inconclusive": 1, None: 3}[fail_on]
    return 0


def junit(outcome: str, headline: str, found: Sequence[Finding], *, name: str, fail_on: FailOn | None) -> str:
    """A suite with a case per kind of finding, or one case if there is none."""
    kinds: dict[str, list[Finding]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
    cases, failures, skipped = [], 0, 0
    for kind, some in kinds.items():
        lines = "\n".join(_located(each) for each in some[:100])
        text = _text(lines)
        message = _quoted(some[0].words)
        attributes = f"name={_quoted(kind)} classname={_quoted(name)}"
        if some[0].file is not None:
            attributes += f" file={_quoted(some[0].file)} line={_quoted(str(some[0].line))}"
        if some[0].level == "note":
            cases.append(f"<testcase {attributes}><system-out>{text}</system-out></testcase>")
        elif some[0].level == "error" or fail_on != "violated":
            failures += 1
            cases.append(f"<testcase {attributes}><failure message={message}>{text}</failure></testcase>")
        else:
            skipped += 1
            cases.append(f"<testcase {attributes}><skipped message={message}/></testcase>")
    if not cases:
        cases = [f'<testcase name="causal order" classname={_quoted(name)}/>']
    head = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites {head}>\n<testsuite name="antecast audit" {head}>\n'
        f'<properties><property name="verdict" value={_quoted(outcome)}/></properties>\n'
        + "\n".join(cases)
        + f"\n<system-out>{_text(headline)}</system-out>\n</testsuite>\n</testsuites>\n"
    )


def _text(text: str) -> str:
    return saxutils.escape(_UNFIT.sub("�", text))


def _quoted(text: str) -> str:
    return saxutils.quoteattr(_UNFIT.sub("�", text))


def sarif(found: Sequence[Finding], *, file: str | None = None) -> str:
    """Static analysis results, version 2.1.0: a rule per kind, a result per finding.

    GitHub takes no result without a location: `file` is that of findings that speak of the log as a whole.
    """
    kinds = list(dict.fromkeys(each.kind for each in found))
    results: list[dict[str, Any]] = []
    for each in found[:MOST_RESULTS]:
        result: dict[str, Any] = {
            "ruleId": _rule(each.kind),
            "ruleIndex": kinds.index(each.kind),
            "level": each.level,
            "message": {"text": each.words},
        }
        if (place := each.file or file) is not None:
            where: dict[str, Any] = {"artifactLocation": {"uri": _uri(place)}}
            if each.line is not None:
                where["region"] = {"startLine": max(1, each.line)}
            result["locations"] = [{"physicalLocation": where}]
        results.append(result)
    rules = [{"id": _rule(kind), "shortDescription": {"text": kind}} for kind in kinds]
    driver = {"name": "antecast", "version": __version__, "rules": rules}
    value = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _rule(kind: str) -> str:
    return kind.replace(" ", "-")


def workflow_commands(headline: str, outcome: str, found: Sequence[Finding]) -> list[str]:
    """Workflow commands that GitHub shows beside the lines they name; the verdict first."""
    level = {"violated": "error", "inconclusive": "warning"}.get(outcome, "notice")
    lines = [f"::{level} title=antecast audit::{_data(headline)}"]
    for each in found[: MOST_ANNOTATIONS - 1]:
        where = "" if each.file is None else f"file={_property(each.file)},"
        where += "" if each.line is None else f"line={each.line},"
        level = "notice" if each.level == "note" else each.level
        lines.append(f"::{level} {where}title={_property(each.kind)}::{_data(each.words)}")
    return lines


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _located(finding: Finding) -> str:
    if finding.file is None or finding.words.startswith(f"{finding.file}:"):
        return finding.words
    return f"{finding.file}:{finding.line}: {finding.words}"
