"""Hostile frames as a test of its own, for the suite of a protocol."""

from __future__ import annotations

from antecast.protocols.registry import Specification


def assert_unharmed(spec: Specification, *, frames: int = 2_000, seed: int = 1) -> None:
    """Honest nodes bear a hostile one that sends this many frames; see `fuzz` for what counts as harm.

    What a failure says is the fewest steps that show it, as Python.
    """
    from antecast.testing.fuzz import Campaign  # which is also a command, and then not to be imported before

    finding = next(Campaign(spec, seed=seed).findings(frames), None)
    if finding is not None:
        raise AssertionError(str(finding))
