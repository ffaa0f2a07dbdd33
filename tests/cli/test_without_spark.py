"""Without the packages of the extra `spark`, a command that needs them says in one line what to install."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
class Missing:  # as if they were not installed
    def find_spec(self, name, path=None, target=None):
        if name in ("pyspark", "pandas"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv = ["antecast", *{arguments!r}]
from antecast.cli import main
main()
"""
LOG = "node,pos,kind,origin,seq\na,1,broadcast,a,1\na,2,deliver,a,1\n"


def run(folder, *arguments, stdin=""):
    program = PROGRAM.format(arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, input=stdin)


@pytest.mark.parametrize(
    "arguments",
    [
        ("sweep", "examples/studies/loss.toml"),
        ("compare", "examples/scenarios/quickstart.toml", "--protocol", "vector", "--protocol", "fifo"),
        ("audit", "log.csv", "--engine", "spark"),
        ("observe", "log.jsonl", "out", "--epsilon", "1s", "--delta", "1s", "--checkpoint", "state"),
    ],
)
def test_a_command_on_spark_says_what_to_install(tmp_path, arguments):
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "log.jsonl").write_text("{}\n")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    done = run(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "which is not installed: pip install 'antecast[spark]'" in done.stderr
    assert ("; or leave out Spark: --no-spark" in done.stderr) is (arguments[0] in ("sweep", "compare"))
    assert not any((tmp_path / folder).exists() for folder in ("sweeps", "comparisons", "out", "state"))


def test_everything_else_works(tmp_path):
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "log.jsonl").write_text("{}\n")
    assert run(tmp_path, "audit", "log.csv").returncode == 0
    node = ("node", "--number", "0", "--journal", "solo.journal", "--until", "1")
    done = run(tmp_path, *node, stdin="hello\n")
    assert (done.returncode, done.stdout) == (0, "0:1 hello\n")
