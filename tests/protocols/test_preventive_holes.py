"""Where PC-broadcast as printed fails, by hand, and that ours does not.

Processes are A, B, D and E, as in the paper's figures. Each story is told to both protocols.
"""

import pytest
from by_hand import ByHand

A, B, D, E = range(4)
OURS = {"protocol": "pc-broadcast"}


def printed(**settings):
    return {"protocol": "pc-broadcast-paper", "algorithm": 2} | settings


def told(story, protocol, **more):
    net = ByHand(4, [(A, B), (B, D), (A, E), (E, B)], **protocol, **more)
    net.broadcast(A)
    net.carry()
    return story(net) or net


def reopened_before_the_first_ping_arrives(net):
    """Hole 1: the pong of a link that is gone."""
    net.close(A, E)
    net.open(A, D)
    net.carry(A, B)  # the ping waits on B → D …
    net.close(A, D)
    net.broadcast(A)
    net.carry(A, B)  # … and the message behind it
    net.open(A, D)
    net.carry(B, D, frames=1)
    net.carry(D, A)
    net.broadcast(A)
    net.carry(A, D)
    net.carry()


def test_a_stale_pong_opens_the_printed_link_and_not_ours():
    assert told(reopened_before_the_first_ping_arrives, printed()).violations == [(D, (A, 2))]
    assert told(reopened_before_the_first_ping_arrives, printed(algorithm=3)).violations
    assert not told(reopened_before_the_first_ping_arrives, printed(ids="checked")).violations
    assert not told(reopened_before_the_first_ping_arrives, OURS).violations


def acknowledged_late(net):
    """Hole 2: the same, and the second ping gets lost."""
    net.close(A, E)
    net.open(A, D)
    net.carry(A, B)
    net.close(A, D)
    net.open(A, D)
    net.lose(A, B)
    net.carry(B, D)
    net.carry(D, A)
    for _ in range(10):
        net.broadcast(A)
    net.rest()


def test_a_stale_acknowledgement_stops_the_printed_retries():
    bounds = {"algorithm": 3, "ids": "checked", "buffer": 2, "timeout": "1s"}
    net = told(acknowledged_late, printed(**bounds))
    assert not net.safe(A, D)
    assert net.nodes[A].gauges()["buffered"] == 10
    net = told(acknowledged_late, OURS, retain=2)
    assert net.safe(A, D)
    assert net.nodes[A].gauges()["log"] == 2


def one_other_link_and_a_lost_ping(net):
    """Hole 3: a retry where one other link is left."""
    net.close(A, E)
    net.open(A, D)
    net.lose(A, B)
    net.rest()


def test_a_printed_retry_does_not_count_the_link_it_retries():
    assert not told(one_other_link_and_a_lost_ping, printed(algorithm=3, timeout="1s")).safe(A, D)
    assert told(one_other_link_and_a_lost_ping, OURS).safe(A, D)


def only_link_replaced(net):
    """Hole 4: what went over the old link is still on its way."""
    net.close(A, E)
    net.broadcast(A)
    net.carry(A, B)
    net.close(A, B)
    net.open(A, D)
    net.carry(A, D)
    net.carry(D, A)
    net.broadcast(A)
    net.carry(A, D)
    net.carry()


def test_a_process_s_only_link_is_not_safe_for_being_the_only_one():
    assert told(only_link_replaced, printed()).violations == [(D, (A, 2))]
    net = told(only_link_replaced, OURS)
    assert not net.violations
    assert net.delivered[D] == [(A, 1), (A, 2), (A, 3)]


def two_messages_in_the_buffer(net):
    """Hole 5: E's message is delivered at A before A's own."""
    net.open(A, D)
    net.carry(A, E, B, D)
    net.broadcast(E)
    net.carry(E, A)
    net.broadcast(A)
    net.carry(D, A)
    net.carry(A, D)
    net.carry()


def test_a_buffer_is_emptied_in_the_order_of_delivery():
    assert told(two_messages_in_the_buffer, printed(buffers="set")).violations == [(D, (E, 1))]
    assert not told(two_messages_in_the_buffer, printed()).violations
    assert not told(two_messages_in_the_buffer, OURS).violations


def impatient(net):
    """Hole 6: the first pong comes after the second ping has left."""
    net.open(A, D)
    net.wait(1)
    net.carry(A, B, D, frames=1)
    net.broadcast(A)
    net.carry(D, A)


def test_any_outstanding_ping_of_a_link_will_do():
    bounds = {"algorithm": 3, "ids": "checked", "timeout": "1s", "retries": 100}
    assert not told(impatient, printed(**bounds)).safe(A, D)
    assert told(impatient, OURS, timeout="1s").safe(A, D)


def more_deliveries_than_the_buffer_holds(net):
    """Hole 7: each round trip sees four deliveries."""
    net.open(A, D)
    for _ in range(3):
        for _ in range(4):
            net.broadcast(A)
        net.carry()
    net.rest()


def test_small_buffers_cost_pings_and_not_the_link():
    bounds = {"algorithm": 3, "ids": "checked", "buffer": 1, "retries": 1}
    assert not told(more_deliveries_than_the_buffer_holds, printed(**bounds)).safe(A, D)
    for retain in (0, 1):
        net = told(more_deliveries_than_the_buffer_holds, OURS, retain=retain)
        assert net.safe(A, D)
        assert not net.violations
        assert len(net.delivered[D]) == 13


def route_cut(net):
    """Hole 8: the ping is lost with the link it travels on."""
    net.close(A, E)
    net.open(A, D)
    net.carry(A, B)
    net.close(B, D)
    net.open(B, D)
    net.rest()


def test_a_ping_that_is_lost_with_its_route_is_sent_again():
    assert not told(route_cut, printed()).safe(A, D)
    assert told(route_cut, OURS).safe(A, D)


@pytest.mark.parametrize("algorithm", [2, 3])
def test_while_links_stay_the_printed_rules_deliver_everything(algorithm):
    net = ByHand(4, [(A, B), (B, D), (A, E), (E, B)], **printed(algorithm=algorithm))
    for node in (A, B, D, E):
        net.broadcast(node)
    net.carry()
    assert all(len(net.delivered[node]) == 4 for node in (A, B, D, E))
    assert not net.violations
