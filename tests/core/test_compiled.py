"""Kernels may call parts, also of other files, and never run machine code that a part has outlived."""

import importlib
import os
import subprocess
import sys

from antecast.core import compiled

KERNEL = """
from numba.core.codegen import JITCodeLibrary

from antecast.core.compiled import bare, compiled, is_cached
from parts import ratio, twice

@compiled
def kernel(x):
    return twice(x) + 1

@bare
def lean(x):
    return twice(x) + 1

before = is_cached(kernel), is_cached(lean)
print(kernel(5), kernel.__name__)
assert lean(5) == kernel(5)
assert is_cached(kernel) and is_cached(lean)

@compiled
def divide(x, y):
    return ratio(x, y) + twice(x)

assert divide(6, 3) == ratio(6, 3) + twice(6)
try:
    divide(6, 0)
except ZeroDivisionError:
    print("by zero")
@compiled
def times(x):  # the name of a part in another file
    return x + 100

assert times(1) == 101
assert "finalize" not in vars(JITCodeLibrary), "Numba was not left as it was found"
print(*before)
"""

PARTS = """
from antecast.core.compiled import inlined_part, part

@part
def times(x, n):
    return {expression}

@part
def twice(x):
    return times(x, 2)

@inlined_part
def ratio(x, y):
    return x // y
"""


def outcome(folder):
    environment = os.environ | {"PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{folder}"}
    # -B: a file that changes within a second and keeps its size would be run from bytecode that is out of date
    command = [sys.executable, "-B", str(folder / "kernels.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_kernel_is_compiled_again_when_a_part_in_another_file_changes(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    (tmp_path / "parts.py").write_text(PARTS.format(expression="x * n"))
    assert outcome(tmp_path) == "11 kernel\nby zero\nFalse False"
    cached = set(tmp_path.glob("__pycache__/*.nbi"))
    assert cached
    assert outcome(tmp_path) == "11 kernel\nby zero\nTrue True"
    (tmp_path / "parts.py").write_text(PARTS.format(expression="x + n"))
    assert outcome(tmp_path) == "8 kernel\nby zero\nFalse False"


def test_the_stamp_of_a_kernel_follows_its_parts_and_their_constants_and_nothing_else(tmp_path, monkeypatch):
    """So that processes that import different things share the machine code."""
    part = "from antecast.core.compiled import part\n"
    (tmp_path / "numbers_of_parts.py").write_text("FACTOR = 3\n")
    (tmp_path / "parts_used.py").write_text(
        f"{part}from numbers_of_parts import FACTOR\n\n@part\ndef thrice(x):\n    return FACTOR * x\n"
    )
    (tmp_path / "parts_beside.py").write_text(f"{part}\n@part\ndef unused(x):\n    return x\n")
    (tmp_path / "kernel_of_parts.py").write_text(
        "from antecast.core.compiled import compiled\nfrom parts_used import thrice\n\n"
        "@compiled\ndef kernel(x):\n    return thrice(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    kernel = importlib.import_module("kernel_of_parts").kernel.__wrapped__
    importlib.import_module("parts_beside")
    compiled._register_parts()
    assert {path.name for path in compiled._sources(kernel)} == {
        "kernel_of_parts.py",
        "parts_used.py",
        "numbers_of_parts.py",
    }
