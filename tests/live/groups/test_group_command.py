"""`antecast group`, as people use it: what it writes, what it says, and one line for each mistake."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from antecast.live.groups import load_identity


@pytest.fixture
def group(antecast):
    """The command, in a folder with a group of two nodes."""
    for arguments in (("new", "friends"), ("invite", "ada"), ("invite", "bob")):
        code, _, err = antecast("group", *arguments)
        assert code == 0, err
    return lambda *arguments: antecast("group", *arguments)


def test_from_a_new_group_to_two_nodes(group):
    assert [load_identity(Path(f"{name}.node")).number for name in ("ada", "bob")] == [0, 1]
    code, out, _ = group("list")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [["0", "ada"], ["1", "bob"]]
    found = json.loads(group("list", "--json")[1])
    assert (found["group"], found["bulletin"], found["key"]) == ("friends", 3, None)
    assert stat.S_IMODE(Path("bob.node").stat().st_mode) == 0o600


def test_nothing_that_is_printed_is_secret(group):
    secrets = [line for line in Path("bob.node").read_text().splitlines() if len(line) == 64]
    shown = group("show", "bob.node")[1] + group("list", "--json")[1]
    assert "can start" in shown
    assert not any(line in shown for line in secrets)


def test_a_revoked_node_is_told_so(group):
    assert "node 1 (bob) of friends is revoked" in group("revoke", "bob")[1]
    assert "now has bulletin 4" in group("update", "bob.node", "friends.group/bulletin.pem")[1]
    assert "has bulletin 4 already" in group("update", "bob.node", "friends.group/bulletin.pem")[1]
    assert "node 1 (bob) was revoked; ask for a new invitation" in group("show", "bob.node")[1]
    assert "revoked on" in group("list")[1]
    assert "node 2 (bob)" in group("invite", "bob", "--out", "bob-again.node")[1]


def test_a_rotation_reaches_a_node_with_the_bulletin(group):
    assert "group key 1 of friends is the one to write with" in group("rotate")[1]
    assert "none: payloads are not encrypted" in group("show", "bob.node")[1]
    group("update", "bob.node", "friends.group/bulletin.pem")
    assert "group keys  1" in group("show", "bob.node")[1]


def test_a_renewed_certificate(group):
    before = load_identity(Path("ada.node")).member.der
    assert "node 0 (ada) of friends has a new certificate" in group("renew", "ada", "--days", 30)[1]
    group("update", "ada.node", "friends.group/bulletin.pem")
    after = load_identity(Path("ada.node"))
    assert after.member.der != before and after.number == 0


MISTAKES = {
    ("new", "friends"): "friends.group: is there already, and is not overwritten",
    ("new", "a/b"): "'a/b' cannot be the name of a group",
    ("invite", "ada"): "ada is node 0 of friends already",
    ("invite", "../eve"): "'../eve' cannot be the name of a node",
    ("invite", "eve", "-o", "bob.node"): "bob.node: is there already",
    ("invite", "eve", "-g", "nowhere"): "nowhere: cannot read",
    ("revoke", "eve"): "there is no node eve in friends",
    ("revoke", "7"): "there is no node 7 in friends",
    ("renew", "eve"): "there is no node eve in friends",
    ("show", "friends.group/authority.pem"): "not a node file",
    ("update", "bob.node", "ada.node"): "ada.node: not a bulletin",
    ("update", "friends.group/bulletin.pem", "bob.node"): "bulletin.pem: not a node file",
    ("invite", "eve", "--days", "0"): "--days: expected",
}


def test_a_mistake_is_one_line_and_changes_nothing(group):
    before = group("list", "--json")
    for arguments, said in MISTAKES.items():
        code, out, err = group(*arguments)
        assert (code, out) == (2, ""), arguments
        assert said in err and len(err.splitlines()) == 1, arguments
    assert group("list", "--json") == before


def test_which_group_is_meant(antecast):
    assert "there is no *.group folder here" in antecast("group", "list")[2]
    antecast("group", "new", "one")
    antecast("group", "new", "two")
    assert "--group: choose one of one.group, two.group" in antecast("group", "list")[2]
    assert antecast("group", "list", "-g", "two.group")[0] == 0


def test_a_bulletin_of_another_group(group):
    group("new", "others")
    code, _, err = group("update", "bob.node", "others.group/bulletin.pem")
    assert (code, err.splitlines()) == (
        2,
        ["error: others.group/bulletin.pem: a bulletin that is not signed by the authority of this group"],
    )


def test_a_journal_and_keys_that_do_not_belong_together(group, antecast):
    assert antecast("node", "--keys", "ada.node", "--journal", "j", "--for", 0)[0] == 0
    code, _, err = antecast("node", "--keys", "bob.node", "--journal", "j", "--for", 0)
    assert code == 2
    assert "j: belongs to node 0 of group" in err and ", not to node 1 of group" in err
    code, _, err = antecast("node", "--compact", "--journal", "j")
    assert code == 2
    assert "j: belongs to node 0 of group" in err and err.endswith("its node needs its keys\n")
