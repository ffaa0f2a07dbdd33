"""Runs the examples of the pipeline, of the README, the documentation and `examples`, under every kind of master.

    python tools/masters.py                      a table of all: local, local-cluster, standalone, connect
    python tools/masters.py --masters connect    under some of them

A master gets a process with one session, in a folder of its own, in which the examples run one after the other.
The table says how many seconds each took, or that it failed; what went wrong follows.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import notebooks
from spark_servers import connect_server, standalone_cluster

ROOT = Path(__file__).parent.parent

MASTERS = ("local", "local-cluster", "standalone", "connect")


def python_of(page: str) -> str:
    """The Python of a page that needs Spark."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return "\n".join(code for code in blocks if "spark" in code)


def command(*words: str) -> None:
    from antecast.cli import main

    sys.argv = ["antecast", *words]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"antecast {words[0]} ended with {ended.code}") from None


def page(name: str) -> Callable[[Any], None]:
    def run(spark: Any) -> None:
        exec(compile(python_of(name), name, "exec"), {"__name__": "__main__", "spark": spark})

    return run


def notebook(path: Path) -> Callable[[Any], None]:
    def run(spark: Any) -> None:
        if found := list(notebooks.differences(path)):
            raise RuntimeError(found[0])

    return run


def swept(spark: Any) -> None:
    command("sweep", "examples/studies/loss.toml")


def observed(spark: Any) -> None:
    program = [sys.executable, "examples/observer/sensors.py", "sensors.jsonl"]
    subprocess.run(program, check=True, capture_output=True)
    words = ["--stamps", "hybrid", "--epsilon", "20ms", "--delta", "300ms", "--arrival", "line"]
    command("observe", "sensors.jsonl", "sensors-ordered", "--checkpoint", "sensors-state", *words)


def met(spark: Any) -> None:
    command("generate", "city-bus", "--seed", "7", "-o", "trajectories.parquet")
    found = python_of("docs/contacts.md").replace('"trajectories.parquet"', 'str(here / "trajectories.parquet")')
    found = found.replace('"contacts")\n', 'str(here / "met"))\n')
    exec(compile(found, "docs/contacts.md", "exec"), {"spark": spark, "here": Path.cwd()})


def scripted(spark: Any) -> None:
    runpy.run_path("examples/notebook.py", run_name="__main__")


EXAMPLES: dict[str, Callable[[Any], None]] = {
    "README.md: sweep": swept,
    "README.md: observe": observed,
    "docs/spark.md": page("docs/spark.md"),
    "docs/contacts.md": met,
    "docs/data-sources.md": page("docs/data-sources.md"),
    "examples/notebook.py": scripted,
    **{f"examples/notebooks/{path.name}": notebook(path) for path in notebooks.notebooks()},
}


def here(address: str) -> None:
    """Run all examples in one session; a line of JSON for each: name, seconds, what went wrong."""
    from antecast.spark.session import spark_session

    with (
        notebooks.folder_of_its_own() as folder,
        spark_session("examples", master=address, log=folder / "spark.log") as spark,
    ):
        for name, run in EXAMPLES.items():
            begin, wrong = time.monotonic(), ""
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                try:
                    run(spark)
                except Exception:
                    wrong = traceback.format_exc()
                os.chdir(folder)
            print(json.dumps([name, time.monotonic() - begin, wrong]), flush=True)


@contextlib.contextmanager
def address_of(master: str, folder: Path) -> Iterator[str]:
    if master == "standalone":
        with standalone_cluster(folder) as address:
            yield address
    elif master == "connect":
        with connect_server(folder) as address:
            yield address
    else:
        yield {"local": "local[2]", "local-cluster": "local-cluster[2,1,1024]"}[master]


def under(master: str) -> dict[str, tuple[float, str]]:
    with tempfile.TemporaryDirectory(prefix="antecast-") as folder, address_of(master, Path(folder)) as address:
        own = [sys.executable, __file__, "--address", address]
        done = subprocess.run(own, stdout=subprocess.PIPE, text=True)
    found = {}
    for line in done.stdout.splitlines():
        name, seconds, wrong = json.loads(line)
        found[name] = (seconds, wrong)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the examples of the pipeline under every kind of master.")
    parser.add_argument("--masters", nargs="*", choices=MASTERS, default=MASTERS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.address:
        here(asked.address)
        return
    found = {master: under(master) for master in asked.masters}
    width = max(map(len, EXAMPLES))
    print("".join([f"{'':{width}}", *(f"  {master:>13}" for master in found)]))
    problems = []
    for name in EXAMPLES:
        cells = []
        for master, results in found.items():
            seconds, wrong = results.get(name, (0.0, "not reached\n"))
            cells.append(f"  {'failed' if wrong else f'{seconds:.1f} s':>13}")
            problems += [f"\n{name} under {master}:\n{wrong}"] * bool(wrong)
        print(f"{name:{width}}" + "".join(cells))
    print("".join(problems), end="")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
