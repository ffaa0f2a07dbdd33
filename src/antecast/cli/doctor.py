"""`antecast doctor`: what is there, what is missing, how to get it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from antecast.cli.console import Exit, Json, out
from antecast.cli.tables import show
from antecast.core.host import free_memory

LOWEST_PYTHON = (3, 11)
ENOUGH_MEMORY_GIB = 2.0
ENOUGH_DISK_GIB = 1.0


@dataclass(frozen=True)
class Finding:
    what: str
    found: str
    ok: bool
    cure: str = ""


def doctor(as_json: Json = False) -> None:
    """Check Python, Java, Spark, memory and disk."""
    findings = [_python(), *_packages(), _java(), _memory(), _disk()]
    healthy = all(finding.ok for finding in findings)
    if as_json:
        print(json.dumps({"ok": healthy, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        table = Table(show_edge=False, box=None, pad_edge=False)
        for column in ("", "what", "found", "what to do"):
            table.add_column(column)
        for finding in findings:
            mark = Text("ok", style="green") if finding.ok else Text("missing", style="bold red")
            table.add_row(mark, finding.what, finding.found, finding.cure)
        show(table)
        out.print("Everything is there." if healthy else "Something is missing.", style="bold")
    if not healthy:
        raise typer.Exit(Exit.USAGE)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= LOWEST_PYTHON
    return Finding("Python", found, ok, "" if ok else "install Python 3.11 or newer")


def _packages() -> list[Finding]:
    findings = []
    for name in ("pyarrow", "numpy", "numba", "msgspec", "cryptography"):
        try:
            findings.append(Finding(name, metadata.version(name), True))
        except metadata.PackageNotFoundError:
            findings.append(
                Finding(name, "not installed", False, f"pip install {name}, or make test in a checkout")
            )
    for name in ("pyspark", "pandas"):
        version = _version(name)
        cure = "" if version else "for what runs on Spark: pip install 'antecast[spark]'"
        findings.append(Finding(name, version or "not installed", True, cure))
    return findings


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _java() -> Finding:
    if _version("pyspark") is None:
        return Finding("Java", "not needed without pyspark", True)
    from antecast.spark.session import LOWEST_JAVA, java_version

    cure = "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; elsewhere set JAVA_HOME to Java 17 or newer"
    version = java_version()
    if version is None:
        return Finding("Java", "not found", False, cure)
    ok = version[1] >= LOWEST_JAVA
    return Finding("Java", version[0], ok, "" if ok else cure)


def _memory() -> Finding:
    gib = free_memory() / 2**30
    ok = gib >= ENOUGH_MEMORY_GIB
    cure = "" if ok else f"Spark needs about {ENOUGH_MEMORY_GIB:.0f} GiB; close something"
    return Finding("memory", f"{gib:.1f} GiB available, {os.cpu_count()} cores", ok, cure)


def _disk() -> Finding:
    gib = shutil.disk_usage(Path.cwd()).free / 2**30
    ok = gib >= ENOUGH_DISK_GIB
    return Finding("disk", f"{gib:.1f} GiB free here", ok, "" if ok else "free some space, or work elsewhere")
