"""The air: who hears a frame, what destroys it, and who waits for whom."""

from itertools import pairwise

from antecast.core import Message
from antecast.sim.radio.air import Air
from antecast.sim.radio.layout import Cells, Fading
from antecast.sim.scheduler import Scheduler

LEFT, RIGHT = 10, 11
"""Two stations."""


class Node:
    def __init__(self, node):
        self.node, self.up, self.heard, self.sent = node, True, [], []

    def on_air(self, frame, size, to):
        self.sent.append((frame, to))

    def receive(self, parcel, sender):
        self.heard.append((parcel[0], sender))


class Scene:
    """Nodes at places on a line, in metres."""

    def __init__(self, places, **cells):
        self.scheduler = Scheduler()
        self.nodes = {node: Node(node) for node in places}
        self.places = {node: (float(x), 0.0) for node, x in places.items()}
        usual = {"backoff": 0, "preamble": 0, "headers": 0, "capture": 0.0, "bit_rate": 8_000_000}
        self.air = Air(self.scheduler, Cells(**usual | cells), 1, lambda node, t: self.places[node])
        for node, each in self.nodes.items():
            self.air.add(each, station=node >= LEFT)
        self.stations = [node for node in places if node >= LEFT]
        for node in places:
            if node < LEFT:
                near = min(self.stations, key=lambda each: abs(places[each] - places[node]))
                self.air.enter(node, near)

    def send(self, node, frame, at=0, size=1000):
        """A frame of 1000 bytes is on the air for a millisecond."""
        self.scheduler.at(at * 1000, lambda what: self.air.transmit(node, *what), (frame, size))

    def heard(self):
        self.scheduler.run(10**12)
        return {node: [frame for frame, _ in each.heard] for node, each in self.nodes.items() if each.heard}


def test_a_station_speaks_to_its_whole_cell_and_a_host_to_its_station():
    scene = Scene({0: 10, 1: -20, 2: 90, LEFT: 0, RIGHT: 100})
    scene.send(LEFT, "to the cell")
    scene.send(0, "to the station", at=5000)
    assert scene.heard() == {0: ["to the cell"], 1: ["to the cell"], LEFT: ["to the station"]}


def test_a_frame_takes_its_size_over_the_bit_rate():
    times = Scene({0: 10, LEFT: 0}, preamble=192_000, headers=64, bit_rate=2_000_000)
    seen = []
    times.nodes[0].receive = lambda *_: seen.append(times.scheduler.now)
    times.send(LEFT, "hello", size=186)
    times.heard()
    assert seen == [192_000 + (186 + 64) * 8 * 500]


def test_out_of_range_nothing_is_heard():
    scene = Scene({0: 125, LEFT: 0})
    scene.send(LEFT, "hello")
    assert scene.heard() == {}


def test_frames_that_meet_at_a_receiver_destroy_each_other():
    """Two stations that do not hear each other, and hosts that hear one of them or both."""
    scene = Scene({0: -50, 1: 90, 2: 110, 3: 250, LEFT: 0, RIGHT: 200})
    scene.send(LEFT, "left")
    scene.send(RIGHT, "right", at=500)
    assert scene.heard() == {0: ["left"], 3: ["right"]}
    assert [scene.air.radios[node].missed for node in range(4)] == [0, 1, 1, 0]


def test_frames_that_follow_each_other_are_both_heard():
    scene = Scene({1: 90, 2: 110, LEFT: 0, RIGHT: 200})
    scene.send(LEFT, "left")
    scene.send(RIGHT, "right", at=1001)
    assert scene.heard() == {1: ["left"], 2: ["right"]}


def test_the_nearer_frame_survives_where_it_is_captured():
    scene = Scene({1: 70, 2: 115, LEFT: 0, RIGHT: 190}, capture=1.6)
    scene.send(LEFT, "left")
    scene.send(RIGHT, "right", at=500)
    assert 120 / 70 > 1.6 > 115 / 75
    assert scene.heard() == {1: ["left"]}


def test_a_node_that_sends_hears_nothing():
    scene = Scene({0: 100, LEFT: 0}, carrier_sense=False)
    scene.send(LEFT, "down")
    scene.send(0, "up", at=500)
    assert scene.heard() == {}


def test_with_carrier_sense_a_node_waits_until_the_air_is_free():
    scene = Scene({0: 100, LEFT: 0})
    scene.send(LEFT, "down")
    scene.send(0, "up", at=500)
    assert scene.heard() == {0: ["down"], LEFT: ["up"]}


def test_carrier_sense_does_not_help_those_who_cannot_hear_each_other():
    """Hidden terminals: two hosts on either side of their station."""
    scene = Scene({0: -100, 1: 100, LEFT: 0})
    scene.send(0, "one")
    scene.send(1, "other", at=500)
    assert scene.heard() == {}


def test_a_node_sends_one_frame_at_a_time_and_in_order():
    scene = Scene({0: 10, LEFT: 0}, carrier_sense=False)
    for number in range(5):
        scene.send(LEFT, number)
    assert scene.heard() == {0: [0, 1, 2, 3, 4]}


def test_a_queue_has_an_end():
    scene = Scene({0: 10, LEFT: 0}, queue=3)
    taken = [scene.air.transmit(LEFT, number, 1000) for number in range(5)]
    assert taken == [True, True, True, False, False]
    assert scene.heard() == {0: [0, 1, 2]}


def test_no_second_copy_waits_behind_the_first():
    scene = Scene({0: 10, LEFT: 0})
    message, other = Message(1, 1, b"x", 0), Message(1, 2, b"x", 1)
    assert [scene.air.transmit(LEFT, frame, 1000) for frame in (message, other, message)] == [True, True, False]
    scene.scheduler.at(10**9, lambda _: scene.air.transmit(LEFT, message, 1000), None)
    assert scene.heard() == {0: [message, other, message]}


def test_a_host_that_has_moved_is_still_heard_where_it_spoke():
    """The frame was for the old station, and waited."""
    scene = Scene({0: 50, LEFT: 0, RIGHT: 100})
    scene.air.enter(0, LEFT)
    scene.send(0, "first")
    scene.send(0, "late")
    scene.scheduler.at(100, lambda _: scene.air.enter(0, RIGHT), None)
    scene.send(0, "here", at=1)
    assert scene.heard() == {LEFT: ["first", "late"], RIGHT: ["here"]}


def test_a_host_in_no_cell_is_heard_by_nobody():
    scene = Scene({0: 50, LEFT: 0})
    scene.air.exit(0)
    scene.send(0, "hello")
    assert scene.heard() == {}


def test_a_host_that_stops_falls_silent():
    scene = Scene({0: 50, LEFT: 0})
    scene.send(0, "on its way")
    scene.send(0, "waiting")
    scene.scheduler.at(500_000, lambda _: scene.air.silence(0), None)
    assert scene.heard() == {LEFT: ["on its way"]}
    assert scene.nodes[0].sent == [("on its way", LEFT)]  # what never went on the air does not count


def test_losses_come_at_their_rate():
    scene = Scene({0: 50, LEFT: 0}, loss=0.3, queue=10_000)
    for number in range(4000):
        scene.air.transmit(LEFT, number, 10)
    assert 0.27 < 1 - len(scene.heard()[0]) / 4000 < 0.33


def test_cells_fade_in_spells():
    scene = Scene({0: 50, LEFT: 0}, fading=Fading(every=3_000_000_000, lasts=1_000_000_000))
    for tenth in range(10_000):
        scene.send(LEFT, tenth, at=tenth * 100_000)
    heard = scene.heard()[0]
    assert 0.68 < len(heard) / 10_000 < 0.82
    breaks = sum(b > a + 1 for a, b in pairwise(heard))
    assert 150 < breaks < 350  # 250 spells in 1000 s, not 2500 single losses
