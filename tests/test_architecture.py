"""The arrows between packages point one way, and importing Antecast starts nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import antecast

PACKAGE = Path(antecast.__file__).parent

MAY_IMPORT = {
    "core": set(),
    "protocols": {"core"},
    "observer": {"core"},
    "history": {"core"},
    "traces": {"core"},
    "sim": {"core", "protocols", "observer", "history", "traces"},
    "live": {"core", "protocols", "history"},
    "spark": {"core", "protocols", "observer", "history", "traces", "sim", "comparison"},
    "papers": {"core", "protocols", "observer", "history", "traces", "sim", "spark"},
    "comparison": {"core", "protocols", "history", "sim"},
    "testing": {"core", "protocols", "history", "sim", "report"},
    "report": {"core", "protocols", "history", "papers", "comparison"},
    "cli": {
        "api",
        "core",
        "protocols",
        "observer",
        "history",
        "traces",
        "sim",
        "spark",
        "live",
        "papers",
        "report",
        "comparison",
    },
}
"""What a package may import of the others, beside itself and `version`."""


def imports(file: Path) -> set[str]:
    """The packages of Antecast that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = (
                [node.module] if node.module != "antecast" else [f"antecast.{each.name}" for each in node.names]
            )
        found |= {name.split(".")[1] for name in names if name.startswith("antecast.")}
    return found - {"version"}


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_what_lies_below_it(package):
    for file in (PACKAGE / package).rglob("*.py"):
        wrong = imports(file) - MAY_IMPORT[package] - {package}
        assert not wrong, f"{file.relative_to(PACKAGE)} imports {sorted(wrong)}"


def test_every_package_has_a_place_in_the_drawing():
    packages = {folder.name for folder in PACKAGE.iterdir() if any(folder.glob("*.py"))}
    assert packages <= MAY_IMPORT.keys()


@pytest.mark.parametrize(
    "module",
    ["antecast", "antecast.sim", "antecast.history", "antecast.protocols", "antecast.observer", "antecast.cli"],
)
def test_importing_needs_neither_spark_nor_the_compiler(module):
    code = f"import sys, {module}; print([name for name in ('pyspark', 'py4j', 'numba') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_the_command_line_and_spark_itself_touch_spark():
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE).parts[0]
        if place not in ("spark", "papers", "cli", "api.py"):
            assert "pyspark" not in file.read_text(encoding="utf-8"), file
