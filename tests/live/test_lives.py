"""Lives: a number that stands for two journals is noticed by all, also by those who met only one of the two."""

import logging
import shutil

import msgspec
import pytest
from nodes import kill
from test_tcp import answer, dial, greeting, node, packet, payloads, run, until

from antecast.live.links.hello import encode_hello
from antecast.live.lives import mark


def word(pairs) -> bytes:
    data = msgspec.msgpack.encode(pairs)
    return (len(data) | 1 << 29).to_bytes(4, "big") + data


def test_a_node_that_lost_its_journal_is_noticed_through_a_neighbour_that_never_met_it(tmp_path, caplog):
    """0 tells 1 something and loses its journal. Reborn, it meets only 2, which tells 1: nobody is silent."""

    async def main():
        async with node(1) as one:
            async with node(0, one, journal=tmp_path / "old") as zero:
                await zero.broadcast(b"old")
                await payloads(one, 1)
            async with node(2, one) as two:
                await until(lambda: 1 in two.links)
                async with node(0, two, journal=tmp_path / "new") as reborn:
                    await reborn.broadcast(b"new")
                    await until(lambda: all(each.counters["other_lives"] == 1 for each in (one, two, reborn)))
                    assert [each.status()["other_lives"] for each in (one, two, reborn)] == [[0], [0], [0]]

    with caplog.at_level(logging.WARNING, "antecast.live"):
        run(main)
    said = [each.getMessage() for each in caplog.records]
    assert any(each.startswith("node 0: others know this number by another journal") for each in said)
    assert any(each.startswith("node 1: number 0 stands for two journals") for each in said)


def test_those_who_meet_later_compare_what_they_know(tmp_path):
    """Two parts, each with a node 0 of its own, notice when they meet; through nodes that met neither."""

    async def main():
        async with (
            node(0, journal=tmp_path / "a") as a, node(1, a) as b, node(2, b) as c,
            node(0, journal=tmp_path / "x") as x, node(3, x) as y, node(4, y) as z,
        ):  # fmt: skip
            await until(lambda: 1 in c.links and 3 in z.links)
            assert not any(each.counters["other_lives"] for each in (a, b, c, x, y, z))
            z.transports[0].dial(c.transports[0].listen)
            await until(lambda: all(each.lives.doubted == [0] for each in (a, b, c, x, y, z)))

    run(main)


def test_a_restart_with_its_journal_is_the_same_life(tmp_path):
    async def main():
        async with node(1, journal=tmp_path / "one") as one, node(2, one) as two:
            for count in (1, 2):
                async with node(0, two, journal=tmp_path / "zero") as zero:
                    await zero.broadcast(b"")
                    await payloads(one, count)
        async with node(1, journal=tmp_path / "one") as one, node(0, one, journal=tmp_path / "zero") as zero:
            await until(lambda: 1 in zero.links and 0 in one.links)
            assert one.status()["other_lives"] == zero.status()["other_lives"] == []

    run(main)


@pytest.mark.parametrize(
    "data",
    [
        word([[0, b"short"]]),
        word([[-1, bytes(8)]]),
        word({}),
        (10 | 1 << 29).to_bytes(4, "big") + b"\xff" * 10,
        (4 | 1 << 29).to_bytes(4, "big") + b"\xa3a\xffb",  # text that is not UTF-8
    ],
)
def test_a_word_of_lives_that_is_none_costs_the_link(data):
    async def main():
        async with node(0) as a:
            reader, writer = await dial(a)
            writer.write(packet(encode_hello(greeting(a))))
            await answer(reader)
            writer.write(data)
            await until(lambda: a.counters["dropped_malformed"] and not a.links)
            writer.close()

    run(main)


def test_words_of_a_liar_raise_an_alarm_once_and_refuse_nobody():
    async def main():
        async with node(0) as a:
            reader, writer = await dial(a)
            writer.write(packet(encode_hello(greeting(a))))
            await answer(reader)
            for n in range(100):
                writer.write(word([[7, n.to_bytes(8, "big")], [0, n.to_bytes(8, "little")]]))
            await until(lambda: a.counters["other_lives"])
            async with node(7, a) as b:  # a word is no reason to refuse whoever comes
                await until(lambda: 7 in a.links and 0 in b.links)
                await b.broadcast(b"here I am")
                assert await payloads(a, 1) == [b"here I am"]
            assert a.counters["other_lives"] == 2 and a.lives.doubted == [0, 7]
            writer.close()

    run(main)


def test_marks_tell_lives_apart_and_do_not_give_them_away():
    assert mark(bytes(16)) != mark(bytes([1]) * 16) and len(mark(bytes(16))) == 8
    assert mark(bytes(16)) not in bytes(16)


def copy(journal, to) -> None:
    """All of it: its log and its mark, too."""
    for suffix in ("", "-wal", ".mark"):
        found = journal.with_name(journal.name + suffix)
        if found.exists():
            shutil.copy(found, to.with_name(to.name + suffix))


def restore(backup, journal) -> None:
    for suffix in ("-wal", "-shm"):
        journal.with_name(journal.name + suffix).unlink(missing_ok=True)
    copy(backup, journal)


@pytest.mark.parametrize("running", [False, True], ids=["copied at rest", "copied while it ran"])
def test_a_restored_backup_is_refused_by_those_who_saw_more_and_says_so(tmp_path, caplog, running):
    """It would give the names of messages that others have to new ones, which nobody would take."""
    journal, backup = tmp_path / "journal", tmp_path / "backup"

    async def main():
        async with node(1, journal=tmp_path / "one") as one:
            async with node(0, one, journal=journal) as zero:
                await zero.broadcast(b"1")
                await payloads(one, 1)
                if running:
                    copy(journal, backup)
                    for n in range(10):
                        await zero.broadcast(b"%d" % n)
            if not running:
                copy(journal, backup)
                async with node(0, one, journal=journal) as zero:
                    await until(lambda: zero.links)
                    await zero.broadcast(b"2")
            await until(lambda: not one.links)
        restore(backup, journal)
        async with node(1, journal=tmp_path / "one") as one, node(0, one, journal=journal) as zero:
            await until(lambda: one.counters["refused_in_use"])
            assert not one.links
            async with node(2, one) as other:  # the others go on
                await other.broadcast(b"x")
                await until(lambda: one.status()["deliveries"]["last"] == (12 if running else 3))

    with caplog.at_level(logging.WARNING, "antecast.live"):
        run(main)
    said = [each.getMessage() for each in caplog.records]
    assert any(
        "node 0: refused by the other end: node 0 has an older copy of its journal" in each for each in said
    )


def test_a_node_that_is_refused_by_one_that_has_dialled_it_learns_why(tmp_path, caplog):
    journal, backup = tmp_path / "journal", tmp_path / "backup"

    async def main():
        async with node(1, journal=tmp_path / "one") as one:
            async with node(0, one, journal=journal) as zero:
                await zero.broadcast(b"1")
            copy(journal, backup)
            async with node(0, one, journal=journal) as zero:
                await until(lambda: zero.links)
                await zero.broadcast_all([b"2"] * 20)
                await payloads(one, 21)
        restore(backup, journal)
        async with node(0, journal=journal) as zero, node(1, zero, journal=tmp_path / "one") as one:
            await until(lambda: one.counters["refused_in_use"])
            await until(lambda: not zero.links)

    with caplog.at_level(logging.WARNING, "antecast.live"):
        run(main)
    said = [each.getMessage() for each in caplog.records]
    assert any("node 0: refused by node 1: node 0 has an older copy of its journal" in each for each in said)


def test_an_older_copy_stays_refused_however_far_it_gets(tmp_path):
    """It goes on while it is refused, and comes past the position that gave it away."""
    journal, backup = tmp_path / "journal", tmp_path / "backup"

    async def main():
        async with node(1, journal=tmp_path / "one") as one:
            async with node(0, one, journal=journal) as zero:
                await zero.broadcast(b"1")
            copy(journal, backup)
            async with node(0, one, journal=journal) as zero:
                await until(lambda: zero.links)
                await zero.broadcast_all([b"2"] * 20)
                await payloads(one, 21)
            await until(lambda: not one.links)
            restore(backup, journal)
            async with node(0, one, journal=journal) as zero:
                await until(lambda: one.counters["refused_in_use"] > 1)
                await zero.broadcast_all([b"other words"] * 40)
                seen = one.counters["refused_in_use"]
                await until(lambda: one.counters["refused_in_use"] > seen + 3)
                assert not one.links
            async with node(0, one, journal=journal):  # another process of the copy
                await until(lambda: one.counters["refused_in_use"] > seen + 6)
                assert not one.links
        async with node(1, journal=tmp_path / "one") as one, node(0, one, journal=journal):
            await until(lambda: one.counters["refused_in_use"] > 3)
            assert not one.links
            assert one.status()["deliveries"]["last"] == 21

    run(main)


def test_a_copy_that_was_started_by_mistake_keeps_the_true_journal_from_nothing(tmp_path):
    journal, backup, true = tmp_path / "journal", tmp_path / "backup", tmp_path / "true"

    async def main():
        async with node(1, journal=tmp_path / "one") as one:
            async with node(0, one, journal=journal) as zero:
                await zero.broadcast(b"1")
            copy(journal, backup)
            async with node(0, one, journal=journal) as zero:
                await until(lambda: zero.links)
                await zero.broadcast_all([b"2"] * 20)
                for n in range(20):
                    await zero.broadcast(b"%d" % n)
                await payloads(one, 41)
            await until(lambda: not one.links)
            copy(journal, true)
            restore(backup, journal)
            async with node(0, one, journal=journal):
                await until(lambda: one.counters["refused_in_use"] > 1)
            restore(true, journal)
            async with node(0, one, journal=journal) as zero:
                await until(lambda: zero.links and one.links)
                await zero.broadcast(b"3")
                await until(lambda: one.status()["deliveries"]["last"] == 42)

    run(main)


def test_a_neighbour_that_went_down_at_the_same_time_still_knows_an_older_copy(tmp_path):
    """How far a peer had come is in the journal with what came from it, not only once its link has ended."""
    journal, backup = tmp_path / "journal", tmp_path / "backup"

    async def main():
        async with node(0, journal=journal) as zero:
            await zero.broadcast(b"1")
        copy(journal, backup)
        first = node(1, journal=tmp_path / "one")
        one = await first.__aenter__()
        second = node(0, one, journal=journal)
        zero = await second.__aenter__()
        await until(lambda: zero.links and one.links)
        for n in range(2):
            await zero.broadcast_all([b"%d" % n] * 10)
            zero.lives.tell_position(zero.links[1])
        await zero.broadcast(b"after it has said so")
        await until(lambda: one.status()["deliveries"]["last"] == 22)
        for each in (one, zero):
            await kill(each)
            await each.transports[0].stop()
        restore(backup, journal)
        async with node(1, journal=tmp_path / "one") as one, node(0, one, journal=journal):
            await until(lambda: one.counters["refused_in_use"])
            assert not one.links

    run(main)


def test_a_killed_node_is_never_behind_what_it_has_told(tmp_path):
    """Its position is told only when it is committed."""

    async def main():
        async with node(1, journal=tmp_path / "one") as one:
            for count in range(1, 6):
                entered = node(0, one, journal=tmp_path / "zero")
                zero = await entered.__aenter__()
                await until(lambda zero=zero: zero.links)
                await zero.broadcast_all([b"x"] * count)
                (link,) = zero.links.values()
                zero.lives.tell_position(link)
                await until(lambda zero=zero: one.lives.known_of(0)[1] == zero.engine.position)
                await kill(zero)
                await zero.transports[0].stop()
            assert one.counters["refused_in_use"] == 0

    run(main)


def test_positions_are_the_word_of_their_node_and_bounded():
    async def main():
        async with node(0) as a:
            reader, writer = await dial(a)
            writer.write(packet(encode_hello(greeting(a, number=9, position=7))))
            await answer(reader)
            await until(lambda: 9 in a.links)
            writer.write(word(5))
            writer.write(word(11))
            await until(lambda: a.lives.known_of(9)[1] == 11)
            writer.write(word(-1))
            await until(lambda: a.counters["dropped_malformed"] == 1)
            assert a.lives.known_of(9)[1] == 11
            writer.close()

    run(main)


def test_what_one_process_says_over_two_connections_may_come_in_any_order():
    async def main():
        async with node(0) as a:
            reader, writer = await dial(a)
            writer.write(packet(encode_hello(greeting(a, number=9, position=7))))
            await answer(reader)
            await until(lambda: 9 in a.links)
            writer.write(word(11))
            await until(lambda: a.lives.known_of(9)[1] == 11)
            reader, second = await dial(a)
            second.write(packet(encode_hello(greeting(a, number=9, position=8))))
            await answer(reader)
            await until(lambda: a.counters["links_up"] == 2)
            second.close()
            writer.close()

    run(main)
