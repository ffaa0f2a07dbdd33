"""Engines of later studies are compiled while the first one runs."""

import subprocess

from antecast.papers import STUDIES, ahead
from antecast.sim.compiled.choice import is_ready


def test_the_later_studies_engines_are_compiled_by_a_process_of_its_own(monkeypatch):
    started = []
    popen = subprocess.Popen

    def start(command, **options):
        started.append((command, popen(command, **options)))
        return started[-1][1]

    monkeypatch.setattr(ahead.subprocess, "Popen", start)
    with ahead.compiled_ahead(STUDIES):
        [(command, process)] = started
        assert command[-2:] == ["vcube", "preventive"]
    assert process.poll() is not None, "it ends with the studies"
    with ahead.compiled_ahead(["vcube"]), ahead.compiled_ahead(["vcube", "cellular"]):
        assert len(started) == 1, "one study compiles its own, and cells have no engine"


def test_what_is_compiled_ahead_is_on_disk():
    ahead.main(["vcube", "observer"])
    assert is_ready("vcube")
