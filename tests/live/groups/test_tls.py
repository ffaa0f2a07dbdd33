"""Mutual TLS 1.3: who gets in, who does not, and one clear line for each of those."""

from __future__ import annotations

import asyncio
import random
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from antecast.core import InputError
from antecast.live.groups import GroupSecurity, Refused, load_identity, new_group
from antecast.live.groups.authority import read_bulletin_file
from antecast.live.groups.certificates import make_certificate
from antecast.live.groups.tls import client_context, explain, server_context

TODAY = datetime.now(UTC)


class End:
    """One end of a connection in memory."""

    def __init__(self, context, *, server):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=server)
        self.error, self.done = None, False

    def step(self, read=False):
        try:
            if not self.done:
                self.tls.do_handshake()
                self.done = True
            elif read:
                self.tls.read(1)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.error = error


def shake(client, server):
    """Both ends after a handshake and a first read."""
    ends = End(client, server=False), End(server, server=True)
    for turn in range(12):
        for end, other in (ends, ends[::-1]):
            if end.error is None:
                end.step(read=turn > 4)
            if data := end.outgoing.read():
                other.incoming.write(data)
    return ends


def contexts(identity):
    return client_context(identity), server_context(identity)


@pytest.fixture
def ada(group, tmp_path):
    return load_identity(tmp_path / "ada.node")


@pytest.fixture
def bob(group, tmp_path):
    return load_identity(tmp_path / "bob.node")


def test_both_ends_learn_number_and_name(ada, bob):
    client, server = shake(client_context(ada), server_context(bob))
    assert (client.error, server.error, client.tls.version()) == (None, None, "TLSv1.3")
    at_ada, at_bob = GroupSecurity(ada, "vector"), GroupSecurity(bob, "vector")
    at_ada.identify(client.tls, 1)
    at_bob.identify(server.tls, 0)
    assert (at_ada.names, at_bob.names) == ({1: "bob"}, {0: "ada"})


def test_a_node_cannot_speak_under_another_number(ada, bob):
    _, server = shake(client_context(ada), server_context(bob))
    with pytest.raises(Refused, match=r"it says that it is node 7, and has the certificate of node 0 \(ada\)"):
        GroupSecurity(bob, "vector").identify(server.tls, 7)


def test_a_node_s_own_number_at_the_other_end_is_refused(ada):
    client, server = shake(*contexts(ada))
    for end in (client, server):
        with pytest.raises(Refused, match="which is this node itself: is its file in use elsewhere"):
            GroupSecurity(ada, "vector").identify(end.tls, 0)


def test_without_tls_nobody_is_believed(ada):
    with pytest.raises(Refused, match="not connected by TLS"):
        GroupSecurity(ada, "vector").identify(None, 1)


def test_a_revoked_node_is_refused_from_the_moment_the_bulletin_is_known(group, ada, bob):
    at_bob = GroupSecurity(bob, "vector")
    _, server = shake(client_context(ada), server_context(bob))
    at_bob.identify(server.tls, 0)
    group.revoke("ada")
    at_bob.take_bulletin(read_bulletin_file(group.bulletin_path))
    _, server = shake(client_context(ada), server_context(bob))
    with pytest.raises(Refused, match=r"node 0 \(ada\) was revoked"):
        at_bob.identify(server.tls, 0)


def test_another_group_of_the_same_name_is_told_apart(ada, tmp_path):
    others = new_group(tmp_path / "others.group", "friends").invite("bob", tmp_path / "other-bob.node")
    client, server = shake(client_context(others), server_context(ada))
    assert explain(client.error).startswith("its certificate is not signed by the authority of this group")
    assert explain(server.error).startswith("it does not accept our certificate: it belongs to another group")
    careless = client_context(others)
    careless.verify_mode = ssl.CERT_NONE  # the server still checks
    client, server = shake(careless, server_context(ada))
    assert explain(server.error).startswith("its certificate is not signed by the authority of this group")
    assert explain(client.error).startswith("it does not accept our certificate")


def test_expired_and_not_yet_valid(group, ada, tmp_path):
    late = group.invite("late", tmp_path / "late.node", now=TODAY - timedelta(days=30), days=10)
    early = group.invite("early", tmp_path / "early.node", now=TODAY + timedelta(days=30))
    client, server = shake(client_context(ada), server_context(late))
    assert explain(client.error).startswith("its certificate has expired; the clock of this machine says 20")
    assert explain(server.error) == "by its clock our certificate is not valid now: compare the clocks"
    client, _ = shake(client_context(ada), server_context(early))
    assert explain(client.error).startswith("its certificate is not valid yet; the clock of this machine says 20")
    _, server = shake(client_context(early), server_context(ada))
    assert explain(server.error).startswith("its certificate is not valid yet")


def test_a_client_without_a_certificate(ada):
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    client, server = shake(bare, server_context(ada))
    assert explain(server.error) == "it has shown no certificate"
    assert explain(client.error) == "it wants a certificate, and we have shown none"


def test_older_tls_is_refused(ada, bob):
    old = client_context(bob)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    client, server = shake(old, server_context(ada))
    assert {explain(client.error), explain(server.error)} == {"it does not speak TLS 1.3"}


def client_with(path, *pems):
    """A client that shows these certificates and accepts whatever it is shown."""
    path.write_bytes(b"".join(pems))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(path)
    return context


def test_the_authority_itself_is_no_node(group, bob, tmp_path):
    pem = (group.folder / "authority.pem").read_bytes()
    _, server = shake(client_with(tmp_path / "own.pem", pem), server_context(bob))
    assert explain(server.error).startswith("its certificate is not accepted: ")
    with pytest.raises(Refused, match="has not finished the handshake"):
        GroupSecurity(bob, "vector").identify(server.tls, 0)


def test_a_node_cannot_make_certificates(bob, tmp_path):
    key = Ed25519PrivateKey.generate()
    forged = make_certificate(
        0, "ada", key.public_key(), authority=bob.certificate, key=bob.key, now=TODAY, days=5
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [each.public_bytes(Encoding.PEM) for each in (forged, bob.certificate, bob.authority)]
    _, server = shake(client_with(tmp_path / "chain.pem", *chain, private), server_context(bob))
    assert explain(server.error).startswith("its certificate is not accepted: invalid CA certificate")


def test_nothing_is_resumed(ada, bob):
    """A second connection shows its certificate again: a session is no way around the list."""
    client, _ = shake(client_context(ada), server_context(bob))
    assert client.tls.session is None or not client.tls.session.has_ticket


# A real listener, and those who do not mean to shake hands.


def listening(identity, check):
    """Runs `check(port, refused, admitted)` beside a listener on loopback that identifies whoever connects."""
    refused, admitted = [], []
    security = GroupSecurity(identity, "vector")

    async def serve(reader, writer):
        try:
            security.identify(writer.get_extra_info("ssl_object"), 1)
            admitted.append(1)
            await reader.read(1)
        except Refused as fault:
            refused.append(str(fault))
        finally:
            writer.close()

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        server = await asyncio.start_server(
            serve, "127.0.0.1", 0, ssl=security.server_context(), ssl_handshake_timeout=0.5
        )
        async with server:
            await asyncio.wait_for(check(server.sockets[0].getsockname()[1], admitted), 30)
        await asyncio.sleep(0)

    unhandled = []
    asyncio.run(main())
    return refused, admitted, [each for each in unhandled if not isinstance(each.get("exception"), OSError)]


async def greet(port, identity):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(identity))
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return reader


def test_a_half_open_handshake_ends_by_itself_and_holds_nobody_up(ada, bob):
    async def check(port, admitted):
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for _, writer in silent[::2]:
            writer.write(b"\x16\x03\x01\x02\x00")  # the head of a record that never comes
        await greet(port, bob)
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), 10) is not None  # the listener hangs up
            writer.close()

    refused, admitted, unhandled = listening(ada, check)
    assert (refused, admitted, unhandled) == ([], [1], [])


def test_arbitrary_bytes_before_the_handshake_do_no_harm(ada, bob):
    """Noise, and the first flight of an honest client with bytes changed, cut off or sent twice."""
    client = End(client_context(bob), server=False)
    client.step()
    hello, draw = client.outgoing.read(), random.Random(7)

    def noise():
        kind = draw.randrange(4)
        if kind == 0:
            return draw.randbytes(draw.randrange(1, 600))
        data = bytearray(hello)
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        return bytes(data[: draw.randrange(1, len(data))]) if kind == 1 else bytes(data) * (kind - 1)

    async def check(port, admitted):
        for _ in range(60):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(noise())
            writer.write_eof()
            with suppress(OSError):
                await asyncio.wait_for(reader.read(), 10)
            writer.close()
        await greet(port, bob)

    refused, admitted, unhandled = listening(ada, check)
    assert (refused, admitted, unhandled) == ([], [1], [])


def test_a_connection_costs_no_reading_of_keys_unless_the_file_has_changed(tmp_path):
    new_group(tmp_path / "g.group", "g").invite("ada", tmp_path / "ada.node")
    keys = GroupSecurity.load(tmp_path / "ada.node", "vector")
    first = keys.server_context()
    assert keys.server_context() is first
    assert keys.client_context() is not first
    keys.identity.path.write_bytes(keys.identity.path.read_bytes() + b"\n")
    second = keys.server_context()
    assert second is not first
    keys.identity.path.unlink()
    assert keys.server_context() is second


def test_a_file_that_is_damaged_while_its_node_runs_ends_nothing(tmp_path, caplog):
    new_group(tmp_path / "g.group", "g").invite("ada", tmp_path / "ada.node")
    keys = GroupSecurity.load(tmp_path / "ada.node", "vector")
    first = keys.server_context()
    whole = keys.identity.path.read_bytes()
    keys.identity.path.write_bytes(b"damaged")
    assert keys.server_context() is first
    assert keys.server_context() is first
    assert len(caplog.records) == 1
    with pytest.raises(InputError, match="cannot be read again"):
        keys.client_context()
    keys.identity.path.write_bytes(whole)
    assert keys.client_context() is not None
    assert keys.server_context() is not first


def test_a_bulletin_from_a_peer_does_not_undo_a_newer_one_that_was_put_into_the_file(tmp_path):
    """antecast group update has written it while the node runs, and the node has not looked yet."""
    group = new_group(tmp_path / "g.group", "g")
    group.invite("ada", tmp_path / "ada.node")
    keys = GroupSecurity.load(tmp_path / "ada.node", "vector")
    group.invite("bob", tmp_path / "bob.node")
    older = read_bulletin_file(group.bulletin_path)
    group.revoke("bob")
    newer = read_bulletin_file(group.bulletin_path)
    load_identity(tmp_path / "ada.node").updated(newer).save()
    assert keys.take_bulletin(older) == {1}
    assert keys.bulletin == load_identity(tmp_path / "ada.node").signed_bulletin == newer


def test_a_node_that_still_runs_does_not_write_over_a_new_invitation_in_its_place(tmp_path, caplog):
    group = new_group(tmp_path / "g.group", "g")
    group.invite("ada", tmp_path / "ada.node")
    keys = GroupSecurity.load(tmp_path / "ada.node", "vector")
    group.revoke("ada")
    (tmp_path / "ada.node").unlink()
    group.invite("ada", tmp_path / "ada.node")
    invited = (tmp_path / "ada.node").read_bytes()
    assert keys.take_bulletin(read_bulletin_file(group.bulletin_path)) == {0}
    assert (tmp_path / "ada.node").read_bytes() == invited
    assert "is the file of another node now" in caplog.text
