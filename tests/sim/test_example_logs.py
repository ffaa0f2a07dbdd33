"""The event logs of the examples stay what they are: a change of behaviour is meant, or shows here first."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from antecast.sim import run
from antecast.sim.scenario import load_scenario

SCENARIOS = Path(__file__).parents[2] / "examples" / "scenarios"
LOGS = {
    "cells": (85_108, "4f5451ece41959fa"),
    "new-links": (13_064, "882b7ad3596636ad"),
    "quickstart": (448_238, "c2878d0c74215f4b"),
    "team": (14_019, "39efc3c6bfea11ff"),
}
"""Events, and the start of a hash of what they say. (`district` needs a trace that is generated first.) Where a
cure changes a log, the changelog says which and why."""


def digest(events: pa.Table) -> str:
    """The same for the same events, however they are encoded. The run's name is left out: it holds the version of
    the code."""
    said = hashlib.sha256()
    for name in events.column_names:
        if name != "run":
            column = events[name]
            plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            said.update(repr(plain.to_pylist()).encode())
    return said.hexdigest()[:16]


@pytest.mark.parametrize("name", LOGS)
def test_the_log_of_an_example_is_as_it_was(name):
    events = run(load_scenario(SCENARIOS / f"{name}.toml")).events
    assert (events.num_rows, digest(events)) == LOGS[name]


def test_one_event_more_or_less_is_another_log():
    events = run(load_scenario(SCENARIOS / "team.toml")).events
    assert digest(events.slice(1)) != digest(events) != digest(events.slice(0, events.num_rows - 1))


def test_every_example_is_here_or_needs_a_trace():
    assert {path.stem for path in SCENARIOS.glob("*.toml")} == LOGS.keys() | {"district"}
