"""Runs the notebooks of `examples/notebooks` and keeps what their cells show.

    python tools/notebooks.py             runs all, and writes their outputs into them
    python tools/notebooks.py --check     runs all, and fails if one shows anything else

A notebook runs from its first cell to its last in a folder of its own, in one session of Spark for all. What a
cell prints, and the value of its last line as text and HTML, are its outputs, as Jupyter keeps them. This takes
nothing but the standard library, so running them as tests needs no kernel.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"


def notebooks() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def execute(notebook: dict[str, Any], name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Run the code cells in turn, in a fresh namespace: the source of each, and what it shows."""
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            source = "".join(cell["source"])
            yield source, _run(source, names, f"{name}, cell {number}", number)


def _run(source: str, names: dict[str, Any], where: str, number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source, where)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    printed, outputs, value = io.StringIO(), list[dict[str, Any]](), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if html := getattr(value, "_repr_html_", lambda: None)():
            data["text/html"] = html.splitlines(keepends=True)
        outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return outputs


@contextlib.contextmanager
def folder_of_its_own() -> Iterator[Path]:
    """A new folder with the examples beside it, as `antecast examples` writes them; this process stands in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="antecast-") as folder:
        shutil.copytree(FOLDER.parent, Path(folder) / "examples")
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def differences(path: Path) -> Iterator[str]:
    """Run a notebook, and say which cells show something else than is kept in it."""
    notebook = load(path)
    kept = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with folder_of_its_own():
        for expected, (source, outputs) in zip(kept, execute(notebook, path.name), strict=True):
            if outputs != expected:
                shown = json.dumps(outputs, indent=1)
                yield f"{path.name}: this cell shows something else:\n{source}\n---\n{shown}"


def renew(path: Path) -> None:
    notebook = load(path)
    with folder_of_its_own():
        for number, (cell, (_, outputs)) in enumerate(
            zip(
                (cell for cell in notebook["cells"] if cell["cell_type"] == "code"),
                execute(notebook, path.name),
                strict=True,
            ),
            start=1,
        ):
            cell["outputs"], cell["execution_count"] = outputs, number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the notebooks of the examples.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("names", nargs="*", help="some of them (default: all)")
    asked = parser.parse_args()
    from antecast.spark.session import spark_session

    chosen = [path for path in notebooks() if not asked.names or path.stem in asked.names]
    with spark_session("notebooks", master="local[2]"):
        for path in chosen:
            if not asked.check:
                renew(path)
            elif found := list(differences(path)):
                sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
