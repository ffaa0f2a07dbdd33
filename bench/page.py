"""Writes docs/benchmarks.md from the results of the last benchmarks: figures are never typed.

What was not measured again stays on the page as it is.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.table import RESULTS, text

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

INTRODUCTION = """# Benchmarks

`make bench` measures, and `python -m bench.page` writes this page from the results. The figures that matter are
ratios of things measured side by side in one run: seconds differ from machine to machine, and from hour to hour.
A benchmark that is not on this page has not been measured on a machine without other load.
"""


def section(name: str, result: dict[str, Any]) -> str:
    rows: list[dict[str, Any]] = result["rows"]
    heads = list(rows[0])
    command = " ".join([f"python -m bench.{result['benchmark']}", *result.get("arguments", ())])
    lines = [f"<!-- {name} -->", f"## {result['title']}", "", f"`{command}`", ""]
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(text(row.get(head, "")) for head in heads) + " |" for row in rows]
    if result["note"]:
        lines += ["", result["note"]]
    return "\n".join(lines)


def main() -> None:
    found = re.split(r"^<!-- ([\w-]+) -->$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    sections = {
        name: f"<!-- {name} -->{text.rstrip()}" for name, text in zip(found[::2], found[1::2], strict=True)
    }
    measured = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}
    sections |= {name: section(name, result) for name, result in measured.items()}
    page = "\n\n".join([INTRODUCTION.strip(), *(text for _, text in sorted(sections.items()))])
    PAGE.write_text(f"{page}\n", encoding="utf-8")
    print(f"{PAGE.name}: {len(sections)} tables, {len(measured)} of them new")


if __name__ == "__main__":
    main()
