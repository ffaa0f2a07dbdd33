"""A small dose of the tests on Spark through a Connect server; `pytest -m spark --connect` runs all of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

HERE = Path(__file__).parent
DOSE = [
    "test_audit.py::test_each_injected_violation_is_found_and_named",
    "test_audit.py::test_what_tasks_share_does_not_travel_with_each_of_them",
    "test_causal_order.py::test_a_table_is_ordered_and_what_is_missing_is_named",
    "test_sweep.py::test_the_tables_of_a_sweep_have_the_fields_of_their_run_beside_them",
]


@pytest.mark.jvm("runs the others through Spark Connect itself")
def test_a_few_of_the_tests_pass_through_a_connect_server() -> None:
    """In a process of its own: one that has a session with a JVM cannot have one without."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "spark", "--connect", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(str(HERE / each) for each in DOSE)],
        cwd=HERE.parents[1],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"^\d+ passed in", done.stdout, re.MULTILINE), done.stdout[-3000:]  # none is skipped
