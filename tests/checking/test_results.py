"""The committed results of checking leave out no scope, and none of them is a violation."""

import json

from antecast.checking.scope import described
from antecast.protocols import Guarantee, specifications
from checking import FILE, main, renewed, scopes

ROWS = {(each["protocol"], each["scope"]): each for each in json.loads(FILE.read_text(encoding="utf-8"))}


def test_every_scope_of_the_large_setting_says_how_far_it_got():
    causal = [each.name for each in specifications() if Guarantee.CAUSAL in each.guarantees]
    assert ROWS.keys() == {(name, described(scope)) for name in causal for scope in scopes(name, large=True)}
    for row in ROWS.values():
        assert row["verdict"] == "exhausted" or (row["verdict"] == "not exhausted" and row["frontier"])


def made(scope, verdict, states, depth=5):
    return {"protocol": "vector", "scope": scope, "verdict": verdict, "states": states, "depth": depth}


def test_a_search_that_gets_less_far_leaves_the_row_as_it_is():
    exhausted, far = made("3 nodes", "exhausted", 10), made("4 nodes", "not exhausted", 500)
    rows = [exhausted, far]
    assert renewed(rows, made("4 nodes", "not exhausted", 400)) == rows
    assert renewed(rows, made("4 nodes", "not exhausted", 600, depth=4)) == rows
    for better in (
        made("4 nodes", "not exhausted", 300, depth=6),
        made("4 nodes", "not exhausted", 501),
        made("4 nodes", "exhausted", 30),
        made("4 nodes", "violated", 3),
    ):
        assert renewed(rows, better) == [exhausted, better]
    assert renewed(rows, made("5 nodes", "exhausted", 1)) == [*rows, made("5 nodes", "exhausted", 1)]


def test_only_rows_that_are_open_are_made_again(tmp_path):
    """Here with too little memory for anything: what is known stays."""
    scope = described(scopes("vector", large=True)[-1])
    rows = [row for row in ROWS.values() if row["protocol"] == "vector"]
    file = tmp_path / "checking.json"
    near = {"verdict": "not exhausted", "states": 1, "depth": 0, "frontier": 1}
    file.write_text(json.dumps([row | near if row["scope"] == scope else row for row in rows]))
    main(["--open", "--cpu", "1", "--memory", "1MB", "vector"], file)
    again = {row["scope"]: row for row in json.loads(file.read_text())}
    assert again.keys() == {row["scope"] for row in rows}
    assert [row for row in again.values() if row["scope"] != scope] == [
        row for row in rows if row["scope"] != scope
    ]
    assert again[scope]["states"] > 1
    assert again[scope]["verdict"] == "not exhausted"
