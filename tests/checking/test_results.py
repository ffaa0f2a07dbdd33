"""The committed results of checking leave out no scope, and none of them is a violation."""

import json

from antecast.checking.scope import described
from antecast.protocols import Guarantee, specifications
from checking import FILE, scopes

ROWS = {(each["protocol"], each["scope"]): each for each in json.loads(FILE.read_text(encoding="utf-8"))}


def test_every_scope_of_the_large_setting_says_how_far_it_got():
    causal = [each.name for each in specifications() if Guarantee.CAUSAL in each.guarantees]
    assert ROWS.keys() == {(name, described(scope)) for name in causal for scope in scopes(name, large=True)}
    for row in ROWS.values():
        assert row["verdict"] == "exhausted" or (row["verdict"] == "not exhausted" and row["frontier"])
