"""Kernels may call parts, also of other files, and never run machine code that a part has outlived."""

import importlib
import os
import subprocess
import sys

import pytest

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


def outcome(folder, *, name="kernels.py", code=0, **environment):
    path = {"PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{folder}"}
    # -B: a file that changes within a second and keeps its size would be run from bytecode that is out of date
    command = [sys.executable, "-B", str(folder / name)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | path | environment)
    assert done.returncode == code, done.stderr
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


SMALL = """
from antecast.core.compiled import compiled, is_cached, is_kept
from parts import times

@compiled
def kernel(x):
    return times(x, 3)
"""

CALL = "from small import *\nbefore = is_cached(kernel)\nprint(kernel(4), is_kept(kernel), before)\n"

CHANGES = """
from pathlib import Path
import time
import small, parts

time.sleep(0.05)  # the clock of the file system is a little behind
source = Path(parts.__file__)
source.write_text(source.read_text().replace("x * n", "x + n"))
print(small.kernel(4), small.is_kept(small.kernel))
"""

KILLED = """
import os
from numba.core.caching import IndexDataCacheFile
import small

IndexDataCacheFile.{step} = lambda *_: os._exit(9)
small.kernel(4)
"""


@pytest.fixture
def small(tmp_path):
    for name, text in (("small", SMALL), ("parts", PARTS.format(expression="x * n")), ("call", CALL)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def test_where_nothing_can_be_written_kernels_are_compiled_every_time(small):
    """As in a container whose file system is read-only."""
    (small / "__pycache__").write_text("not a folder")
    for _ in range(2):
        assert outcome(small, name="call.py", HOME="/dev/null", XDG_CACHE_HOME="/dev/null") == "12 False False"


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("length", [0, 60])
def test_machine_code_that_is_cut_off_is_made_again(small, pattern, length):
    assert outcome(small, name="call.py") == "12 True False"
    (file,) = (small / "__pycache__").glob(pattern)
    file.write_bytes(file.read_bytes()[:length])
    assert outcome(small, name="call.py").startswith("12 True ")
    assert outcome(small, name="call.py") == "12 True True"
    assert len(list((small / "__pycache__").glob("*.nbc"))) == 1


def test_a_process_whose_source_has_changed_keeps_nothing(small):
    (small / "changes.py").write_text(CHANGES)
    assert outcome(small, name="changes.py") == "12 False"
    assert outcome(small, name="call.py") == "7 True False"


@pytest.mark.parametrize("step", ["_save_data", "_save_index"])
def test_who_is_killed_while_it_writes_leaves_nothing_old_behind(small, step):
    assert outcome(small, name="call.py") == "12 True False"
    (small / "parts.py").write_text(PARTS.format(expression="x + n"))
    (small / "killed.py").write_text(KILLED.format(step=step))
    outcome(small, name="killed.py", code=9)
    assert outcome(small, name="call.py") == "7 True False"
    assert outcome(small, name="call.py") == "7 True True"


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
