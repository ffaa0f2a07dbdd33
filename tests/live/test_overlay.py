"""Members that choose their neighbours: in a network without sockets, and as nodes over TCP."""

import asyncio
import json
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from overlays import World

from antecast.core import ConfigurationError
from antecast.live import Node
from antecast.live.groups import GroupSecurity, new_group
from antecast.live.links.tcp import Address, Tcp
from antecast.live.overlay.records import SprayOptions
from antecast.live.overlay.transport import Spray
from antecast.live.overlay.view import Memory
from antecast.live.overlay.words import (
    Answer,
    BadWord,
    Exchange,
    Here,
    Join,
    Near,
    Offer,
    Refer,
    Reply,
    State,
    Welcome,
    decode_word,
    encode_word,
)

QUICK = SprayOptions(every=0.4, patience=3.0, linger=0.1)


def grown(n: int, seed: int = 1) -> World:
    """Members that all joined by the same contact."""
    world = World(seed)
    for number in range(n):
        world.join(number, [0] if number else [])
        world.run(1.0)
    world.run(40.0)
    return world


def test_views_grow_with_the_logarithm_of_the_group_and_arcs_are_neither_made_nor_lost():
    world = grown(24)
    begun = world.arcs
    world.run(120.0)
    assert world.reached() == set(range(24))
    assert 0.6 * log(24) < world.arcs / 24 < 1.5 * log(24)
    assert abs(world.arcs - begun) <= 2  # of those that turn round just now, both ends may count one
    assert max(len(member.neighbours) for member in world.members.values()) < 20  # not everybody


def test_loans_end_and_connections_that_nobody_needs_are_closed():
    world = grown(12)
    for member in world.members.values():
        member._next = 1e9  # no further exchanges
    world.run(60.0)
    for member in world.members.values():
        assert not member._loans
        assert not member._opening
        assert not any(arc.lent for arc in member.view)
    needed = {tuple(sorted((a.number, arc.peer))) for a in world.members.values() for arc in a.view}
    assert needed == set(world.links)


def test_a_member_whose_view_was_empty_comes_back_to_its_neighbours():
    world = grown(5)
    left = world.members[4].state()
    world.crash(4)
    for member in world.members.values():  # nobody looks for it
        member.memory = Memory()
        member.view = [arc for arc in member.view if arc.peer != 4]
    world.kept[4] = left | {"view": [], "memory": Memory().state()}
    world.join(4)
    world.run(20.0)
    assert world.reached() == set(range(5))


@settings(deadline=None)
@given(st.data())
def test_parts_find_each_other_after_partitions_crashes_departures_and_newcomers(data):
    n = data.draw(st.integers(3, 8))
    world = grown(n, data.draw(st.integers(0, 1000)))
    for _ in range(data.draw(st.integers(1, 3))):
        world.split(data.draw(st.sets(st.integers(0, n - 1))))
        for number in data.draw(st.sets(st.integers(1, n - 1), max_size=n // 3)):
            if number in world.members:
                world.crash(number)
        world.run(data.draw(st.sampled_from([1.0, 15.0, 40.0])))
        for number in list(world.kept):
            if data.draw(st.booleans()):
                world.join(number, [0])
        if data.draw(st.booleans()):
            world.join(n, [0])
            n += 1
    world.split([])
    for number in list(world.kept):
        if data.draw(st.booleans()):
            world.join(number, [0])
    world.run(300.0)
    assert world.reached() == world.members.keys()


@pytest.mark.parametrize("seed", range(8))
def test_a_contact_that_is_up_later_is_joined_even_by_one_whom_others_have_joined_meanwhile(seed):
    """All machines are switched on at once: 1 has neighbours of its own before its contact answers."""
    world = World(seed)
    world.join(1, [0])
    world.join(2, [1])
    world.run(15.0)
    world.join(0)
    world.run(20.0)
    assert world.reached() == {0, 1, 2}


@pytest.mark.parametrize("seed", range(8))
def test_a_contact_that_is_gone_before_it_has_said_anything_is_dialled_again(seed):
    """It comes back, and knows nobody; the one that it met for a moment has other neighbours by then."""
    world = World(seed)
    world.join(1, [0])
    world.join(2, [1])
    world.join(0)
    while (0, 1) not in world.links:
        world.run(0.01)
    world.crash(0)
    world.run(10.0)
    assert world.reached() == {1, 2}
    world.join(0)
    world.run(25.0)
    assert world.reached() == {0, 1, 2}


@settings(deadline=None)
@given(st.randoms(use_true_random=False))
def test_members_that_start_and_crash_in_any_order_are_one_overlay_in_the_end(random):
    """Each knows one that was there before it, and keeps its state; the first knows nobody."""
    n = random.randrange(3, 9)
    contacts = {number: [random.randrange(number)] if number else [] for number in range(n)}
    world = World(random.randrange(1000))
    for number in range(n):
        world.later(5 * random.random(), world.join, number, contacts[number])
    world.run(5.0)
    for _ in range(8):
        world.run(random.choice([0.3, 3.0]) * random.random())
        number = random.randrange(n)
        if number in world.members:
            world.crash(number)
            world.later(random.choice([0.3, 8.0]) * random.random(), world.join, number, contacts[number])
    world.run(8 + 16 * 10.0)
    assert world.reached() == set(range(n))


@given(st.binary(max_size=200))
def test_what_is_no_word_is_refused(data):
    try:
        word = decode_word(data)
    except BadWord:
        return
    assert decode_word(encode_word(word)) == word


def test_a_member_that_offers_without_end_makes_nobody_keep_more():
    world = World(1)
    for number in range(3):
        world.join(number, [0] if number else [])
        world.run(5.0)
    victim = world.members[0]
    for token in range(2000):
        victim.heard(1, Welcome(Offer(token, 1000 + token, "127.0.0.1:1")), world.now)
        victim.heard(1, Reply(token, True), world.now)
        victim.heard(1, Join(8), world.now)
    assert len(victim._opening) <= 32
    assert len(victim.view) <= 8
    world.run(60.0)
    assert not victim._opening
    assert world.reached() == {0, 1, 2}


_NUMBER = st.integers(0, 6) | st.integers(0, (1 << 32) - 1)
_TOKEN = st.integers(0, 5) | st.integers(0, (1 << 62) - 1)
_OFFER = st.builds(Offer, _TOKEN, _NUMBER, st.integers(0, 9).map(lambda port: f"127.0.0.1:{port}"))
WORDS = st.one_of(
    st.builds(Here, st.just("127.0.0.1:3"), st.lists(_NUMBER, max_size=5)),
    st.builds(State, st.booleans(), st.booleans()),
    st.builds(Near, st.lists(_NUMBER, max_size=5)),
    st.builds(Exchange, _TOKEN, st.lists(_OFFER, max_size=5)),
    st.builds(Answer, _TOKEN, st.booleans(), st.lists(_OFFER, max_size=5)),
    st.builds(Join, st.integers(0, 8)),
    st.builds(Welcome, _OFFER),
    st.builds(Refer, _OFFER, st.integers(0, 8)),
    st.builds(Reply, _TOKEN, st.booleans()),
)


@settings(deadline=None)
@given(st.integers(0, 100), st.lists(st.tuples(st.integers(0, 5), WORDS), max_size=60))
def test_whatever_a_member_says_the_others_stay_together(seed, words):
    world = grown(6, seed)
    for to, word in words:
        if to != 2:  # the hostile one; it may also guess tokens that are in use
            victim = world.members[to]
            for token in [getattr(word, "token", 0), *list(victim._loans)[:1]]:
                said = replace(word, token=token) if hasattr(word, "token") else word
                victim.heard(2, said, world.now)
        world.run(0.1)
    world.crash(2, keep=False)
    world.run(300.0)
    assert world.reached() == {0, 1, 3, 4, 5}
    for member in world.members.values():
        assert len(member.view) <= 40
        assert len(member._loans) <= 40


# Over TCP.


def member(number, contact=None, *, journal=None, protocol="pc-broadcast", options=QUICK, listen="127.0.0.1:0"):
    tcp = Tcp(listen=listen)
    contacts = [] if contact is None else [contact.transports[0].listen]
    spray = Spray(tcp, contacts=contacts, options=options)
    return Node(number, protocol, journal=journal, durability="normal", transports=[tcp, spray])


async def until(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_member_that_stops_remembers_the_neighbours_it_had(tmp_path):
    class SlowTcp(Tcp):
        async def stop(self) -> None:
            await super().stop()
            await one.stop()
            await asyncio.sleep(0.2)  # time enough for the overlay to notice that the link is gone

    one = member(0)

    async def main() -> None:
        tcp = SlowTcp(listen="127.0.0.1:0")
        await one.start()
        spray = Spray(tcp, contacts=[one.transports[0].listen], options=QUICK)
        two = Node(1, "pc-broadcast", journal=tmp_path / "1", durability="normal", transports=[tcp, spray])
        await two.start()
        await until(lambda: any(each.place for each in spray.member.neighbours.values()))
        await two.stop()
        assert json.loads((tmp_path / "1.view").read_text())["neighbours"] == [str(one.transports[0].listen)]

    asyncio.run(main())


def test_pc_broadcast_over_views_that_change_while_members_come_go_and_crash(tmp_path):
    told = {}

    async def follow(node) -> None:
        async for each in node.deliveries():
            told.setdefault(node.number, []).append((each.origin, each.seq))

    async def main() -> None:
        nodes, tasks = [], []

        async def add(node) -> None:
            await node.start()
            nodes.append(node)
            tasks.append(asyncio.ensure_future(follow(node)))

        await add(member(0))
        for number in range(1, 8):
            await add(member(number, nodes[0], journal=tmp_path / "7" if number == 7 else None))
        await until(lambda: all(node.links for node in nodes))
        sent = []
        for turn in range(60):
            sent.append(await nodes[turn % 5].broadcast(b"%d" % turn))
            await asyncio.sleep(0.02)
            if turn == 10:
                await add(member(8, nodes[3]))
            if turn == 20:  # leaves for good
                gone = nodes.pop(5)
                await gone.leave()
                await gone.stop()
            if turn == 30:  # comes back to the view it had, without any contact
                back = nodes.pop(6)
                assert back.number == 7
                where = str(back.transports[0].listen)
                await back.stop()
                assert json.loads((tmp_path / "7.view").read_text())["neighbours"]
                told.pop(7)
                await add(member(7, journal=tmp_path / "7", listen=where))
        wanted = {(each.origin, each.seq) for each in sent}
        await until(lambda: all(wanted <= set(told.get(node.number, [])) for node in nodes))
        for node in nodes:
            heard = told[node.number]
            assert len(heard) == len(set(heard))
            for origin in range(5):
                own = [seq for at, seq in heard if at == origin]
                assert own == sorted(own)
        counts = [node.status()["gauges"] for node in nodes]
        assert sum(each["overlay_exchanges"] for each in counts) > 5
        assert sum(each["overlay_introductions"] for each in counts) > 5
        assert sum(each["overlay_arcs"] for each in counts) >= len(nodes)
        for task in tasks:
            task.cancel()
        for node in nodes:
            await node.stop()

    asyncio.run(main())


def test_members_with_keys_find_each_other_and_dial_no_stranger_into_the_group(tmp_path):
    authority = new_group(tmp_path / "g.group", "g")
    for number in range(5):
        authority.invite(f"n{number}", tmp_path / f"{number}.node")

    def secured(number, contact=None):
        tcp = Tcp(listen="127.0.0.1:0")
        contacts = [] if contact is None else [contact.transports[0].listen]
        keys = GroupSecurity.load(tmp_path / f"{number}.node", "pc-broadcast")
        spray = Spray(tcp, contacts=contacts, options=QUICK)
        return Node(number, "pc-broadcast", security=keys, transports=[tcp, spray])

    async def main() -> None:
        nodes = [secured(0)]
        await nodes[0].start()
        for number in range(1, 5):
            nodes.append(secured(number, nodes[0]))
            await nodes[-1].start()
        stranger = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        place = f"127.0.0.1:{stranger.sockets[0].getsockname()[1]}"
        await until(lambda: 1 in nodes[0].links and all(node.links for node in nodes))
        nodes[1].transports[1].tell(0, Welcome(Offer(7, 99, place)))  # says that a member listens there
        sent = [await node.broadcast(b"x") for node in nodes]
        for node in nodes:
            heard = set()
            async for each in node.deliveries():
                heard.add((each.origin, each.seq))
                if len(heard) == len(sent):
                    break
            assert heard == set(sent)
            assert 99 not in node.links
        stranger.close()
        for node in nodes:
            await node.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    "damage",
    [
        '{"view": [[1, "127.0.0.1:1"]]',
        '{"view": [], "neighbours": ["nowhere"], "memory": {"lost": [], "surplus": 0}, "new": false}',
        '{"view": [], "neighbours": [], "memory": {"lost": [[1, "x", 0]], "surplus": 0}, "new": false}',
    ],
    ids=["cut", "neighbour", "lost"],
)
def test_a_damaged_view_is_left_aside(tmp_path, caplog, damage):
    (tmp_path / "0.view").write_text(damage)

    async def main() -> None:
        async with member(0, journal=tmp_path / "0") as node:
            assert node.transports[1].member.places() == []

    asyncio.run(main())
    assert "0.view: damaged" in caplog.text


def test_a_word_for_a_node_without_an_overlay_or_a_place_elsewhere_costs_the_link():
    async def main() -> None:
        plain = Node(0, transports=[Tcp(listen="127.0.0.1:0")])
        async with plain, member(1, plain, protocol="vector") as one:
            await until(lambda: plain.counters["dropped_malformed"])
            async with member(2, one, protocol="vector") as two:
                await until(lambda: 1 in two.links)
                two.transports[1].tell(1, Here("192.0.2.1:80", []))
                await until(lambda: one.counters["dropped_malformed"])

    asyncio.run(main())


def test_a_contact_that_is_the_member_itself_under_another_name_is_dialled_once():
    async def main() -> None:
        async with member(0) as alone:
            tcp, spray = alone.transports
            spray.add_contact(Address("localhost", tcp.listen.port))
            await until(lambda: not spray.member._contacts.unanswered)
            refused = alone.counters["refused_hello"] + alone.counters["refused_in_use"]
            for _ in range(5):
                spray.member.turn(spray.loop.time() + 60)
            await asyncio.sleep(0)
            assert alone.counters["refused_hello"] + alone.counters["refused_in_use"] == refused
            assert not spray._dialling

    asyncio.run(main())


@pytest.mark.parametrize(
    ("listen", "field"), [(None, "listen"), ("0.0.0.0:0", "listen")], ids=["nowhere", "everywhere"]
)
def test_a_member_says_where_it_can_be_reached(listen, field):
    async def main() -> None:
        with pytest.raises(ConfigurationError) as wrong:
            await member(0, listen=listen).start()
        assert wrong.value.field == field

    asyncio.run(main())
