"""The arrows between packages point one way, and importing Antecast starts nothing heavy."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import antecast

PACKAGE = Path(antecast.__file__).parent
ROOT = Path(__file__).parents[1]

_spec = spec_from_file_location("blocks", ROOT / "tools" / "blocks.py")
blocks = module_from_spec(_spec)
_spec.loader.exec_module(blocks)

_MODELS = {"text", "core", "protocols", "observer"}
_DATA = {"text", "core", "history", "traces"}

MAY_IMPORT = {
    "text": set(),
    "core": {"text"},
    "protocols": {"core"},
    "observer": {"core"},
    "history": {"text", "core"},
    "traces": {"text", "core"},
    "kv": {"text", "core"},
    "importers": {"text", "core", "kv"},
    "models": {"text", "core", "importers"},
    "auditing": _DATA | {"importers", "models", "kv"},
    "checking": _MODELS | {"history"},
    "sim": _MODELS | _DATA,
    "live": _MODELS | {"history"},
    "torture": _MODELS | {"history", "live"},
    "emulation": _MODELS | _DATA | {"sim", "live", "torture"},
    "testing": _MODELS | _DATA | {"checking", "sim", "live"},
    "comparison": _MODELS | _DATA | {"sim"},
    "spark": _MODELS | _DATA | {"checking", "sim", "live", "comparison", "kv", "importers", "auditing"},
    "papers": _MODELS | _DATA | {"sim", "spark"},
    "reporting": _MODELS | _DATA | {"checking", "comparison", "papers", "importers", "models"},
    "api": _MODELS
    | _DATA
    | {"checking", "sim", "live", "comparison", "spark", "papers", "reporting", "importers", "models", "kv"}
    | {"auditing"},
    "cli": _MODELS
    | _DATA
    | {"api", "checking", "sim", "live", "torture", "emulation", "comparison", "spark", "papers", "reporting"}
    | {"testing", "importers", "models", "kv", "auditing"},
}
"""What a package may import of the others, beside itself and `version`. Only `cli` and `report` know papers."""


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_a_package_imports_only_what_lies_below_it(package):
    for file in (PACKAGE / package).rglob("*.py"):
        wrong = blocks.imports_of(file) - MAY_IMPORT[package] - {package}
        assert not wrong, f"{file.relative_to(PACKAGE)} imports {sorted(wrong)}"


def test_every_package_has_its_arrows():
    assert blocks.packages().keys() <= MAY_IMPORT.keys()


@pytest.mark.parametrize("page", blocks.PAGES)
def test_pictures_and_tables_are_what_the_code_says(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    fresh = blocks.filled(text, {name: blocks.MAKERS[name]() for name in blocks.PAGES[page]})
    assert text == fresh, "renew it: python tools/blocks.py"


def test_the_map_leads_to_every_page():
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    linked = set(re.findall(r"\]\(([^)#]+\.md)\)", (ROOT / "docs" / "README.md").read_text(encoding="utf-8")))
    assert {page for page in pages if not page.startswith("results/")} - linked == set()
    assert [page for page in linked if not (ROOT / "docs" / page).exists()] == []


@pytest.mark.parametrize(
    "module",
    [
        *(
            "antecast",
            "antecast.sim",
            "antecast.history",
            "antecast.protocols",
            "antecast.observer",
            "antecast.cli",
        ),
        *("antecast.papers", "antecast.reporting.study"),
    ],
)
def test_importing_needs_neither_spark_nor_the_compiler(module):
    code = f"import sys, {module}; print([name for name in ('pyspark', 'py4j', 'numba') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_live_nodes_need_no_data_libraries():
    heavy = ("pyspark", "py4j", "numba", "pandas", "pyarrow", "numpy")
    modules = "antecast.live, antecast.live.links.tcp, antecast.live.links.memory, antecast.live.control"
    code = f"import sys, {modules}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_the_command_line_and_spark_itself_touch_spark():
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE).parts[0]
        if place not in ("spark", "papers", "cli", "api"):
            assert "pyspark" not in file.read_text(encoding="utf-8"), file
