"""The notebooks of the examples run, and show what is kept in them; sweeps show their progress in a notebook."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import antecast
from antecast.core import ConfigurationError
from antecast.reporting.notebook import figure
from antecast.spark.notebook import notebook_progress

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
assert _spec is not None and _spec.loader is not None
tool = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tool)


@pytest.mark.spark
@pytest.mark.parametrize("path", tool.notebooks(), ids=lambda path: path.stem)
def test_a_notebook_shows_what_is_kept_in_it(spark: Any, path: Path) -> None:
    assert list(tool.differences(path)) == []


def test_a_cell_that_shows_something_else_is_told(tmp_path: Path) -> None:
    path = tmp_path / "one.ipynb"
    path.write_text(
        '{"cells": [{"cell_type": "code", "source": ["print(1)\\n", "2 + 3"], "outputs": []}]}', encoding="utf-8"
    )
    (found,) = tool.differences(path)
    assert "one.ipynb: this cell shows something else:\nprint(1)\n2 + 3\n" in found
    tool.renew(path)
    assert list(tool.differences(path)) == []
    stream, value = tool.load(path)["cells"][0]["outputs"]
    assert stream["text"] == ["1\n"] and value["data"] == {"text/plain": ["5"]}


STUDY = {"scenario": {"nodes": 3, "duration": "1s", "workload": [{"kind": "poisson", "rate": 3.0}]}, "seeds": 3}


def test_a_sweep_shows_its_progress_in_the_kernel_of_a_notebook_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel's side is recorded: what it is asked to display, and with what it is written over."""
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert notebook_progress("x") is None
    shown: list[str] = []
    line = types.SimpleNamespace(update=shown.append)
    kernel, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    vars(kernel)["get_ipython"] = lambda: types.SimpleNamespace(kernel=object())
    vars(display).update(HTML=str, display=lambda html, display_id: line)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    antecast.sweep(STUDY, out=tmp_path / "s", local=True)
    assert re.fullmatch(r'<progress max="1" value="0.000"></progress> sweep .*: 0 of 3 runs', shown[0])
    assert shown[-1].endswith(": 3 of 3 runs") and 'value="1.000"' in shown[-1]
    assert capsys.readouterr() == ("", "")


def test_a_figure_is_drawn_from_any_table_and_names_a_column_that_is_missing() -> None:
    rows = [{"loss": loss, "mean": 3.0 + 20 * loss, "order": order} for loss in (0.1, 0.0) for order in "ab"]
    drawn = figure(rows, "loss", "mean", series="order", title="1 < 2")
    html = drawn._repr_html_()
    assert repr(drawn) == "Figure(1 < 2)" and "<b>1 &lt; 2</b>" in html
    assert html.count("<circle") >= 4 and html.count("<svg") == html.count("</svg>")
    with pytest.raises(ConfigurationError, match="no column 'p95'; the columns are loss, mean, order"):
        figure(rows, "loss", "p95")
    with pytest.raises(ConfigurationError, match="there are no rows to draw"):
        figure([], "loss", "mean")
