"""`antecast examples`: whoever has only the wheel can follow the documentation."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_writes_what_the_documentation_uses(antecast):
    code, out, _ = antecast("examples")
    shipped = [path for path in (ROOT / "examples").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert (code, out) == (0, f"examples: {len(shipped)} example files\n")
    for path in shipped:
        assert Path(path.relative_to(ROOT)).read_bytes() == path.read_bytes()


def test_again_it_changes_nothing_of_yours(antecast):
    antecast("examples", "some/where")
    mine = Path("some/where/scenarios/quickstart.toml")
    mine.write_text("nodes = 3\n")
    code, out, _ = antecast("examples", "some/where")
    assert code == 0
    assert f"kept {mine}, which differs from the example; --force replaces it\n" in out
    assert mine.read_text() == "nodes = 3\n"
    assert antecast("examples", "some/where", "--force")[0] == 0
    assert mine.read_bytes() == (ROOT / "examples" / "scenarios" / "quickstart.toml").read_bytes()


def test_a_file_in_the_way_is_one_line(antecast):
    Path("examples").write_text("")
    code, _, err = antecast("examples")
    assert (code, err.count("\n")) == (2, 1)
    assert "examples" in err
