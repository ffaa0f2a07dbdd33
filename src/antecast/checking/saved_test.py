"""A counterexample as a test of pytest: it fails until the protocol is cured."""

from __future__ import annotations

import re

from antecast.checking.counterexample import Counterexample, as_json

_CASE = '''\
"""{title}: {words}

{steps}
"""

import msgspec

from antecast.checking.counterexample import Counterexample, replay

COUNTEREXAMPLE = r\'\'\'
{json}\'\'\'


def test_{name}():
    played = replay(msgspec.json.decode(COUNTEREXAMPLE, type=Counterexample))
    assert played.problem is None, str(played.witness)
'''


def as_test(found: Counterexample) -> str:
    """A module with one test. Where a cured protocol does something else, the replay ends there, and passes."""
    name = re.sub(r"\W+", "_", f"{found.protocol}_keeps_{found.property}").strip("_").lower()
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(found.steps, 1))
    title = f"{found.protocol} breaks {found.property}"
    return _CASE.format(title=title, words=found.words, steps=steps, json=as_json(found), name=name)
