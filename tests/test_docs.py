"""What the documentation shows works: its Python runs, its scenarios load, its links lead somewhere.

`test_console.py` runs its commands.
"""

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecast.traces.schema import CONTACTS, TRAJECTORIES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def python_of(page):
    return "\n".join(code for code in blocks(page, "python") if "spark" not in code)


@pytest.mark.parametrize("page", [page for page in PAGES if python_of(page)], ids=lambda page: page.name)
def test_its_python_runs(page, tmp_path, monkeypatch):
    """In this process, which has the packages loaded; what a page registers is forgotten."""
    from antecast.protocols import registry

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    names = {"__name__": "__main__"}
    exec(compile(python_of(page), page.name, "exec"), names)
    assert len(names) > 2, "an example that imports or makes nothing shows nothing"


@pages
def test_its_scenarios_are_valid(page, tmp_path):
    from antecast.sim.scenario import load_scenario

    for number, text in enumerate(blocks(page, "toml")):
        if "[scenario" in text or "[grid" in text or text.startswith("scenario"):
            continue  # a study; tested with the studies
        path = tmp_path / f"{number}.toml"
        path.write_text(text)
        assert load_scenario(path).nodes >= 1


@pages
def test_its_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_readme_s_table_names_every_protocol():
    from antecast.protocols import specifications

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for each in specifications():
        assert f"| `{each.name}` |" in readme


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples" / "scenarios").glob("*.toml")), ids=lambda path: path.name
)
def test_example_scenarios_are_valid(path, tmp_path):
    """In a place where the traces are that some of them need."""
    from antecast.sim.scenario import load_scenario

    names = pa.array(["1", "2"]).dictionary_encode()
    pq.write_table(
        pa.table([names[:1], names[1:], [0], [10**9]], schema=CONTACTS), tmp_path / "district-contacts.parquet"
    )
    moves = [names, [0, 0], [0.0, 1.0], [0.0, 0.0], [10**9, 10**9], [0.0, 1.0], [0.0, 0.0]]
    pq.write_table(pa.table(moves, schema=TRAJECTORIES), tmp_path / "district.parquet")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    assert load_scenario(tmp_path / path.relative_to(ROOT)).nodes >= 1
