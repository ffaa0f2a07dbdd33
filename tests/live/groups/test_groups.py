"""A group's folder, its nodes' files and its bulletins."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from antecast.core import ConfigurationError, InputError, LocalMisuse, OutputError
from antecast.live.groups import Refused, Unreadable, files, load_identity, new_group, open_group
from antecast.live.groups.authority import read_bulletin_file
from antecast.live.groups.payloads import MAX_PLAIN, Payloads
from antecast.live.groups.security import GroupSecurity

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# Numbers and files.


def test_an_invitation_is_one_file_that_only_its_owner_reads(group, tmp_path):
    bob = load_identity(tmp_path / "bob.node")
    assert (bob.number, bob.name, bob.group) == (1, "bob", "friends")
    bob.check()
    secrets = [tmp_path / "bob.node", group.folder / "authority.pem", group.folder / "register.json"]
    assert [mode(path) for path in secrets] == [0o600] * 3
    assert mode(group.folder) == 0o700


def test_a_number_is_never_given_twice(group, tmp_path):
    group.revoke("bob")
    with open_group(group.folder) as again:
        assert again.invite("bob", tmp_path / "bob-2.node").number == 2
        again.revoke("2")
    with open_group(group.folder) as again:
        assert again.invite("bob", tmp_path / "bob-3.node").number == 3


def test_a_number_is_lost_rather_than_used_twice(group, tmp_path):
    """The register has it before the file is written."""
    with pytest.raises(OutputError), open_group(group.folder) as again:
        again.invite("eve", tmp_path / "no such folder" / "eve.node")
    with open_group(group.folder) as again:
        assert again.invite("dan", tmp_path / "dan.node").number == 3
        assert again.invite("eve", tmp_path / "eve.node").number == 4  # nobody has that name


def test_a_file_that_could_not_be_written_whole_is_not_left_behind(group, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OutputError, match=r"eve.node: .*No space left"):
        patched.setattr(os, "fsync", full)
        files.write_new(tmp_path / "eve.node", "secret")
    assert not (tmp_path / "eve.node").exists()
    assert group.invite("eve", tmp_path / "eve.node").number == 2


def test_a_bulletin_that_could_not_be_written_is_made_by_the_next_command(group, monkeypatch):
    """The register has the revocation already."""

    def full(path, text, *, mode=0o600, replace=files.replace):
        if path == group.bulletin_path:
            raise OutputError("cannot write: No space left on device", path=path)
        replace(path, text, mode=mode)

    with monkeypatch.context() as patched, pytest.raises(OutputError), open_group(group.folder) as authority:
        patched.setattr(files, "replace", full)
        authority.revoke("bob")
    with pytest.raises(ConfigurationError, match="revoked already"), open_group(group.folder) as authority:
        authority.revoke("bob")
    ada = load_identity(group.folder.parent / "ada.node")
    assert ada.updated(read_bulletin_file(group.bulletin_path)).bulletin.revoked.keys() == {1}


def test_a_register_from_an_older_copy_is_refused(group, tmp_path):
    register = group.folder / "register.json"
    older = register.read_bytes()
    group.invite("eve", tmp_path / "eve.node")
    register.write_bytes(older)
    with pytest.raises(InputError, match="older than bulletin 4 beside it"), open_group(group.folder):
        pass


def test_a_name_that_is_also_a_number_means_nobody_until_it_is_told_apart(group, tmp_path):
    group.invite("1", tmp_path / "one.node")
    with pytest.raises(ConfigurationError, match=r"1 may be node 1 \(bob\) or node 2 \(1\); say bob or 2$"):
        group.revoke("1")
    assert group.revoke("2").name == "1"


def test_two_invitations_at_once_give_two_numbers(group, tmp_path):
    def invite(number):
        with open_group(group.folder) as authority:
            return authority.invite(f"n{number}", tmp_path / f"n{number}.node").number

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(invite, range(8))) == list(range(2, 10))


def test_nothing_is_overwritten(group, tmp_path):
    with pytest.raises(OutputError, match="is there already"):
        new_group(group.folder, "friends")
    (tmp_path / "dan.node").write_text("something else")
    with pytest.raises(OutputError, match="is there already"):
        group.invite("dan", tmp_path / "dan.node")
    assert (tmp_path / "dan.node").read_text() == "something else"


def test_a_name_stands_for_one_node_at_a_time(group, tmp_path):
    with pytest.raises(ConfigurationError, match="bob is node 1 of friends already"):
        group.invite("bob", tmp_path / "bob-2.node")


@pytest.mark.parametrize("name", ["", "../eve", "a b", "-x", "e" * 64, "ähm"])
def test_names_are_plain(group, tmp_path, name):
    with pytest.raises(ConfigurationError, match="cannot be the name of a node"):
        group.invite(name, tmp_path / "x.node")


def test_a_file_that_others_can_read_is_refused(group, tmp_path):
    path = tmp_path / "bob.node"
    path.chmod(0o640)
    with pytest.raises(InputError, match=r"open to others \(mode 640\); chmod 600"):
        load_identity(path)


def test_a_damaged_file_is_refused_whatever_is_damaged(group, tmp_path):
    """Every line of it in turn, lost; and the parts of another node's file in its place."""
    path, lines = tmp_path / "bob.node", (tmp_path / "bob.node").read_text().splitlines()
    for number in range(1, len(lines)):
        path.write_text("\n".join(lines[:number] + lines[number + 1 :]))
        with pytest.raises(InputError, match=r"bob\.node: "):
            load_identity(path)
    other = (tmp_path / "ada.node").read_text().splitlines()
    at = [lines.index(f"-----BEGIN {label}-----") for label in ("CERTIFICATE", "PRIVATE KEY", "ANTECAST NODE")]
    for begin, end in ((at[0], at[1]), (at[1], at[2]), (at[2], len(lines))):
        path.write_text("\n".join([*lines[:begin], *other[begin:end], *lines[end:]]))
        with pytest.raises(InputError, match=r"bob\.node: "):
            load_identity(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a file"):
        load_identity(tmp_path / "pipe")


def test_a_file_that_is_none_is_refused(tmp_path):
    for text in (b"", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        (tmp_path / "x.node").write_bytes(text)
        with pytest.raises(InputError, match=r"x\.node: not a"):
            load_identity(tmp_path / "x.node")
    with pytest.raises(InputError, match="cannot read"):
        load_identity(tmp_path / "missing.node")


def test_a_register_that_would_give_a_number_twice_is_refused(group):
    path = group.folder / "register.json"
    path.write_text(path.read_text().replace('"next": 2', '"next": 1'))
    with pytest.raises(InputError, match="its next number, 1, was given before"), open_group(group.folder):
        pass


def test_a_register_that_is_not_text_is_refused(group):
    path = group.folder / "register.json"
    path.write_bytes(path.read_bytes().replace(b"ada", b"a\xffa"))
    with pytest.raises(InputError, match=r"register\.json: damaged"), open_group(group.folder):
        pass


# Time.


def test_a_node_says_when_its_clock_or_its_certificate_is_wrong(group, tmp_path):
    path = tmp_path / "dan.node"
    group.invite("dan", path, now=NOW, days=10)
    dan = load_identity(path)
    dan.check(NOW - timedelta(minutes=50))  # clocks differ a little
    with pytest.raises(InputError, match=r"valid from 2026-04-30 23:00 UTC, .* says 2026-04-21 00:00 UTC; set"):
        dan.check(NOW - timedelta(days=10))
    with pytest.raises(InputError, match=r"expired on 2026-05-11, .* renew it"):
        dan.check(NOW + timedelta(days=11))


def test_a_renewed_certificate_comes_with_the_bulletin(group, tmp_path):
    path = tmp_path / "dan.node"
    group.invite("dan", path, now=NOW, days=10)
    group.renew("dan", now=NOW + timedelta(days=9), days=100)
    security = GroupSecurity(load_identity(path), "vector")
    security.take_bulletin(read_bulletin_file(group.bulletin_path))
    again = load_identity(path)
    again.check(NOW + timedelta(days=90))
    assert again.member.key == security.identity.member.key


# Bulletins.


def test_a_revoked_node_does_not_start(group, tmp_path):
    group.revoke("bob")
    bob = GroupSecurity.load(tmp_path / "bob.node", "vector")
    assert bob.take_bulletin(read_bulletin_file(group.bulletin_path)) == {1}
    with pytest.raises(InputError, match=r"node 1 \(bob\) was revoked"):
        GroupSecurity.load(tmp_path / "bob.node", "vector")


def test_a_node_never_goes_back_to_an_older_bulletin(group, tmp_path):
    old = read_bulletin_file(group.bulletin_path)
    group.revoke("bob")
    ada = GroupSecurity.load(tmp_path / "ada.node", "vector")
    new = read_bulletin_file(group.bulletin_path)
    assert ada.take_bulletin(new) == ada.take_bulletin(old) == ada.take_bulletin(new) == {1}
    assert GroupSecurity.load(tmp_path / "ada.node", "vector").serial == ada.serial


def test_a_bulletin_is_taken_from_the_authority_only(group, tmp_path):
    ada = GroupSecurity.load(tmp_path / "ada.node", "vector")
    strangers = new_group(tmp_path / "strangers.group", "friends")
    strangers.rotate()
    strangers.rotate()
    with pytest.raises(Refused, match="not signed by the authority of this group"):
        ada.take_bulletin(read_bulletin_file(strangers.bulletin_path))
    good = read_bulletin_file(group.bulletin_path)
    for at in range(len(good)):
        with pytest.raises(Refused):
            ada.take_bulletin(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    with pytest.raises(Refused, match="not a bulletin"):
        ada.take_bulletin(b"")


def test_a_bulletin_counts_even_if_it_cannot_be_saved(group, tmp_path, caplog):
    ada = GroupSecurity.load(tmp_path / "ada.node", "vector")
    group.revoke("bob")
    ada.identity = replace(ada.identity, path=tmp_path / "no such folder" / "ada.node")
    assert ada.take_bulletin(read_bulletin_file(group.bulletin_path)) == {1}
    assert "bulletin 4 is not saved" in caplog.text


def test_bulletins_pass_from_node_to_node(group, tmp_path):
    ada, bob = (GroupSecurity.load(tmp_path / f"{name}.node", "vector") for name in ("ada", "bob"))
    assert ada.serial == 2 and bob.serial == 3  # each has that of its invitation
    ada.take_bulletin(bob.bulletin)
    assert (ada.serial, ada.bulletin) == (bob.serial, bob.bulletin)
    assert GroupSecurity.load(tmp_path / "ada.node", "vector").serial == 3


# Payloads.


@pytest.fixture
def secret(tmp_path):
    authority = new_group(tmp_path / "secret.group", "secret", encrypt=True)
    made = {name: authority.invite(name, tmp_path / f"{name}.node") for name in ("ada", "bob")}
    return authority, made["ada"], made["bob"]


def latest(authority, identity):
    return identity.updated(read_bulletin_file(authority.bulletin_path))


def test_what_one_node_seals_the_others_open(secret):
    authority, ada, bob = secret
    ada = Payloads(latest(authority, ada))
    sealed = ada.seal(b"at noon")
    assert b"at noon" not in sealed and sealed != ada.seal(b"at noon")
    assert Payloads(bob).open(0, 1, sealed) == ada.open(0, 1, sealed) == b"at noon"


def test_a_payload_is_bound_to_its_origin_and_every_bit_counts(secret):
    _, ada, bob = secret
    sealed = Payloads(ada).seal(b"at noon")
    with pytest.raises(Unreadable, match="1:1 cannot be decrypted"):
        Payloads(bob).open(1, 1, sealed)
    for at in range(len(sealed)):
        with pytest.raises(Unreadable):
            Payloads(bob).open(0, 1, sealed[:at] + bytes([sealed[at] ^ 2]) + sealed[at + 1 :])


def test_after_a_rotation_old_payloads_stay_readable_and_new_ones_use_the_new_key(secret):
    authority, ada, bob = secret
    before = Payloads(ada).seal(b"old")
    authority.rotate()
    ada, late = Payloads(latest(authority, ada)), Payloads(bob)
    after = ada.seal(b"new")
    assert ada.open(0, 1, before) == b"old"
    with pytest.raises(
        Unreadable, match="0:2 is encrypted with group key 2, which this node does not have; it has 1"
    ):
        late.open(0, 2, after)
    late.take(latest(authority, bob))
    assert late.open(0, 2, after) == b"new"


def test_a_revoked_node_does_not_get_the_next_key(secret):
    authority, ada, bob = secret
    authority.revoke("bob")
    after = Payloads(latest(authority, ada)).seal(b"without bob")
    bob = Payloads(latest(authority, bob))
    with pytest.raises(Unreadable, match="group key 2, which this node does not have"):
        bob.open(0, 1, after)
    with pytest.raises(LocalMisuse, match="writes with key 2, which this node does not have"):
        bob.seal(b"let me in")


def test_a_newcomer_reads_the_past_unless_the_invitation_says_otherwise(secret, tmp_path):
    authority, ada, _ = secret
    old = Payloads(ada).seal(b"old")
    authority.rotate()
    with_past = authority.invite("cat", tmp_path / "cat.node")
    without = authority.invite("dan", tmp_path / "dan.node", history=False)
    assert Payloads(with_past).open(0, 1, old) == b"old"
    with pytest.raises(Unreadable, match="it has 2"):
        Payloads(without).open(0, 1, old)


def test_a_group_without_encryption_can_begin_with_it(group, tmp_path):
    ada = GroupSecurity.load(tmp_path / "ada.node", "vector")
    plain = ada.seal_payload(b"hello")
    assert plain == b"\0hello"
    group.rotate()
    ada.take_bulletin(read_bulletin_file(group.bulletin_path))
    assert b"hello" not in ada.seal_payload(b"hello")
    assert ada.open_payload(0, 1, plain) == b"hello"


def test_sizes_and_forms(group, tmp_path):
    ada = GroupSecurity.load(tmp_path / "ada.node", "vector")
    with pytest.raises(LocalMisuse, match="exceeds the limit"):
        ada.seal_payload(bytes(MAX_PLAIN + 1))
    for odd in (b"", b"\2", b"\1", b"\1" + bytes(30)):
        with pytest.raises(Unreadable, match="in a form that this version does not know"):
            ada.open_payload(0, 1, odd)
