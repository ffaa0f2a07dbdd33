"""Blocks of the documentation that are made from the code, so that they cannot say anything else.

    python tools/blocks.py            writes them
    python tools/blocks.py --check    says which are out of date, and exits with 1 if one is

A block stands between `<!-- NAME: made by tools/blocks.py -->` and `<!-- end of NAME -->`:

packages    in docs/architecture.md: every package, what lives there, and what it imports
picture     in docs/architecture.md: the same as a picture; arrows that others imply are left out
protocols   in README.md: the registry
checked     in docs/checking.md: what tools/checking.py found out
holes       in docs/checking.md: what tools/holes.py found
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "antecast"


def main() -> int:
    stale = []
    for file, names in PAGES.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        fresh = filled(text, {name: MAKERS[name]() for name in names})
        if fresh != text:
            stale.append(file)
            if "--check" not in sys.argv:
                (ROOT / file).write_text(fresh, encoding="utf-8")
    print("\n".join(f"{'out of date' if '--check' in sys.argv else 'written'}: {file}" for file in stale))
    return 1 if stale and "--check" in sys.argv else 0


def filled(page: str, blocks: Mapping[str, str]) -> str:
    """A page with its blocks made anew."""
    for name, block in blocks.items():
        start, end = f"<!-- {name}: made by tools/blocks.py -->", f"<!-- end of {name} -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"no place for the block {name!r}: {start} … {end}")
        page = f"{before}{start}\n{block}\n{end}{after}"
    return page


# Packages and their imports.


def imports_of(file: Path) -> set[str]:
    """The packages of Antecast that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = node.module == "antecast"
            names = [f"antecast.{each.name}" for each in node.names] if whole else [node.module]
        found |= {name.split(".")[1] for name in names if name.startswith("antecast.")}
    return found - {"version"}


def packages() -> dict[str, set[str]]:
    """What every package imports of the others; those that import nothing come first."""
    places = [place for place in PACKAGE.iterdir() if any(place.glob("*.py"))]
    found: dict[str, set[str]] = {}
    for place in places:
        files = place.rglob("*.py") if place.is_dir() else [place]
        found[place.stem] = {name for file in files for name in imports_of(file)} - {place.stem}
    return dict(sorted(found.items(), key=lambda item: (_height(item[0], found), item[0])))


def _height(name: str, imports: Mapping[str, set[str]]) -> int:
    """The longest way down from a package."""
    return 1 + max((_height(each, imports) for each in imports.get(name, ())), default=0)


def _below(name: str, imports: Mapping[str, set[str]]) -> set[str]:
    return {each for direct in imports.get(name, ()) for each in {direct} | _below(direct, imports)}


def package_table() -> str:
    rows = ["| package | what lives there | imports |", "|---|---|---|"]
    for name, below in packages().items():
        file = PACKAGE / name / "__init__.py"
        docstring = ast.get_docstring(
            ast.parse((file if file.exists() else PACKAGE / f"{name}.py").read_text("utf-8"))
        )
        first = " ".join((docstring or "").split("\n\n")[0].split())
        rows.append(f"| `{name}` | {first} | {', '.join(f'`{each}`' for each in sorted(below)) or 'nothing'} |")
    return "\n".join(rows)


def picture() -> str:
    imports = packages()
    lines = ["```mermaid", "graph BT"]
    for name, below in imports.items():
        implied = {each for direct in below for each in _below(direct, imports)}
        lines += [f"    {name} --> {each}" for each in sorted(below - implied)]
    return "\n".join([*lines, "```"])


# Protocols.


def protocol_table() -> str:
    from antecast.protocols import specifications

    header = [
        "name",
        "what it is",
        "promises",
        "needs",
        "control per message",
        "memory per node",
        "work per delivery",
    ]
    rows = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for each in specifications():
        needs = ", ".join(sorted(each.needs(each.settings()))) or "nothing"
        if each.loss_settings:
            needs += f"; tolerates loss with {', '.join(f'`{name}`' for name in each.loss_settings)}"
        promises = ", ".join(sorted(each.guarantees))
        cells = (f"`{each.name}`", each.title, promises, needs, each.control, each.memory, each.delivery)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


# What `antecast check` found out.


def checked_table() -> str:
    rows = ["| protocol | scope | states | transitions | CPU s | verdict |", "|---|---|---|---|---|---|"]
    for each in _results("checking"):
        verdict = each["verdict"]
        if verdict == "not exhausted":
            verdict += f": depth {each['depth']}, frontier {each['frontier']:,}"
        elif verdict == "violated":
            verdict += f": {each['words']}"
        numbers = f"{each['states']:,} | {each['transitions']:,} | {each['cpu']}"
        rows.append(f"| `{each['protocol']}` | {each['scope']} | {numbers} | {verdict} |")
    return "\n".join(rows)


def holes_table() -> str:
    rows = ["| hole | found | scope | steps | CPU s |", "|---|---|---|---|---|"]
    for each in _results("holes"):
        if each["beyond"]:
            rows.append(f"| `{each['name']}` | not in this model: {each['beyond']} | | | |")
        elif each["verdict"] == "violated":
            found = f"{each['property']}: {each['words']}" + (f" ({each['note']})" if each["note"] else "")
            how = " (random walk)" if each["how"] == "random walk" else ""
            rows.append(f"| `{each['name']}` | {found} | {each['scope']}{how} | {each['steps']} | {each['cpu']} |")
        else:
            rows.append(f"| `{each['name']}` | not yet: {each['why']} | {each['scope']} | | {each['cpu']} |")
    return "\n".join(rows)


def _results(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text("utf-8"))
    return found


MAKERS: Mapping[str, Callable[[], str]] = {
    "packages": package_table,
    "picture": picture,
    "protocols": protocol_table,
    "checked": checked_table,
    "holes": holes_table,
}
PAGES = {
    "docs/architecture.md": ("picture", "packages"),
    "README.md": ("protocols",),
    "docs/checking.md": ("checked", "holes"),
}

if __name__ == "__main__":
    sys.exit(main())
