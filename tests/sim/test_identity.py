"""The identity of a run: renamed by every change that could matter, and by no rewording."""

from __future__ import annotations

import errno
import importlib
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

import antecast
from antecast.core.forms import form
from antecast.protocols import outside, registry, specification
from antecast.sim.identity import INNOCENT, code_version, determining, run_id
from antecast.sim.scenario import make_scenario

PACKAGE = Path(antecast.__file__).parent


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = 1  # why"),
        ("x = [1, 2]", "x = [\n    1,\n    2,\n]"),
        ("def f():\n    return 1", 'def f():\n    """One."""\n    return 1'),
        ("class A:\n    x: int = 1", 'class A:\n    """A."""\n\n    x: int = 1\n    """How many."""'),
        ("def f(x):\n    raise E(f'no {x}')", "def f(x):\n    raise E(f'never {x}')"),
        ("def f():\n    why = 'no'\n    raise E(why)", "def f():\n    why = 'never'\n    raise E(why)"),
        ("s = Specification(name='a', title='A')", "s = Specification(name='a', title='Better')"),
    ],
)
def test_what_is_said_in_other_words_is_the_same(one, other):
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = a < b", "x = a <= b"),
        ("x = 1", "x = 1.0"),
        ("x = 'a'", "x = 'b'"),
        ("def f(): return", "def f(): return 0"),
        ("def f(x: int): pass", "def f(x: float): pass"),
        ("def f():\n    if a: raise E('x')", "def f():\n    if b: raise E('x')"),
        ("def f():\n    w = 'a'\n    g(w)\n    raise E(w)", "def f():\n    w = 'b'\n    g(w)\n    raise E(w)"),
        ("def f():\n    w = g('a')\n    raise E(w)", "def f():\n    w = g('b')\n    raise E(w)"),
        ("s = Specification(name='a')", "s = Specification(name='b')"),
        ("x = {**a, 1: 2}", "x = {1: 2, **a}"),
        ("f(1)\nf(2)", "f(2)\nf(1)"),
        ("for x in y:\n    f()\n    g()", "for x in y:\n    f()\ng()"),
    ],
)
def test_what_could_matter_is_not(one, other):
    assert form(one) != form(other)


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(PACKAGE, tmp_path / "antecast", ignore=shutil.ignore_patterns("__pycache__")))


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after, 1), encoding="utf-8")


def version(package: Path) -> str:
    code_version.cache_clear()
    return code_version(package)


def test_rewording_renames_no_run_and_a_changed_operator_renames_all(copy):
    before = version(copy)
    assert before == version(PACKAGE)
    edit(copy / "protocols" / "registry.py", "is registered already", "is there already")
    edit(copy / "protocols" / "fifo.py", '"""', '"""Reworded. ')
    edit(copy / "sim" / "engine.py", "\nimport ", "\n# why\nimport ")
    assert version(copy) == before
    edit(copy / "protocols" / "delta.py", "deadline < now", "deadline <= now")
    assert version(copy) != before


def test_a_new_file_of_the_engine_counts(copy):
    before = version(copy)
    (copy / "sim" / "shortcut.py").write_text("FASTER = True\n")
    assert version(copy) != before


def test_a_package_that_cannot_be_written_to_has_its_version_all_the_same(copy, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    expected = version(copy)
    edit(copy / "sim" / "engine.py", "\nimport ", f"\n# {uuid4()}, so that its digest is new\nimport ")
    for operation in ("mkdir", "write_text", "replace", "unlink"):
        monkeypatch.setattr(Path, operation, refuse)
    assert version(copy) == expected


def test_all_that_a_simulation_imports_has_a_say_or_is_known_to_have_none():
    """In a process of its own: what runs over links, overlays and cells load."""
    code = """
import sys
from antecast.sim.run import run
from antecast.sim.scenario import make_scenario
plain = {"nodes": 4, "duration": "1s", "workload": [{"kind": "poisson", "rate": 1.0}]}
spray, cells = {"kind": "spray"}, {"kind": "cells", "stations": 2}
run(make_scenario(plain))
run(make_scenario(plain | {"network": {"topology": spray}, "protocol": "pc-broadcast"}))
run(make_scenario(plain | {"network": {"topology": cells}, "protocol": "cellular"}))
for name, module in sorted(sys.modules.items()):
    if name.startswith("antecast") and getattr(module, "__file__", None):
        print(module.__file__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {Path(line).relative_to(PACKAGE).as_posix() for line in done.stdout.split()}
    counted = {file.relative_to(PACKAGE).as_posix() for file in determining(PACKAGE)}
    without_a_say = ("__init__.py", "api.py", "version.py", "history/__init__.py", "history/manifest.py", "text/")
    left = {each for each in loaded - counted if not each.startswith((*INNOCENT, *without_a_say))}
    assert left == set()
    assert counted >= {"sim/engine.py", "sim/radio/air.py", "sim/overlay/spray.py", "traces/contact_lists.py"}


def test_every_place_without_a_say_is_there():
    assert [place for place in INNOCENT if not (PACKAGE / place).exists()] == []


# Protocols of others.

MODULE = """
from my_protocol_rules import LIMIT


def make(node, settings):
    '''Make a node.'''
    return node < LIMIT
"""


@pytest.fixture
def identity_of(tmp_path, monkeypatch):
    """The identity of a run with a protocol of the user's, loaded anew by each call, and of one with ours."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = ("my_protocol", "my_protocol_rules")

    def load(module: str = MODULE, rules: str = "LIMIT = 5") -> tuple[str, ...]:
        for name, text in zip(names, (module, rules), strict=True):
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
            outside._seen.pop(name, None)
        importlib.invalidate_caches()
        make = importlib.import_module("my_protocol").make
        monkeypatch.setitem(registry._registry, "mine", replace(specification("vector"), name="mine", make=make))
        values = {"nodes": 3, "duration": "1s"}
        return tuple(run_id(make_scenario(values | {"protocol": name})) for name in ("mine", "vector"))

    yield load
    for name in names:
        sys.modules.pop(name, None)
        outside._seen.pop(name, None)


def test_a_changed_protocol_of_others_renames_its_own_runs_and_no_others(identity_of):
    mine, ours = identity_of()
    assert identity_of(MODULE.replace("Make a node.", "Makes one.")) == (mine, ours)
    assert identity_of(rules="LIMIT = 5  # enough") == (mine, ours)
    for changed in (identity_of(MODULE.replace("<", "<=")), identity_of(rules="LIMIT = 6")):
        assert changed[0] != mine and changed[1] == ours


def test_a_protocol_that_was_typed_counts_by_what_python_compiled():
    code = """
from dataclasses import replace
from antecast.protocols import register, specification
from antecast.sim.identity import run_id
from antecast.sim.scenario import make_scenario
LIMIT = {limit}
class Mine:
    '''{doc}'''
    def rule(self, x): return x {operator} LIMIT and x not in {{"a", "b"}}
def make(node, settings): return Mine()
register(replace(specification("vector"), name="mine", make=make))
print(run_id(make_scenario({{"nodes": 3, "duration": "1s", "protocol": "mine"}})))
"""

    def identity(**change: object) -> str:
        text = code.format(**{"limit": 5, "operator": "<", "doc": "Mine."} | change)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    before = identity()
    assert identity() == identity(doc="Ours.") == before
    assert len({before, identity(limit=6), identity(operator="<=")}) == 3
