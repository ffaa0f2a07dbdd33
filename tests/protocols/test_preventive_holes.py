"""PC-broadcast as printed, beyond the stories that `antecast demonstrate` tells: which line of it is to blame."""

import pytest

from antecast.papers.preventive.stories import (
    A,
    D,
    Links,
    set_as_buffer,
    small_buffer,
    stale_acknowledgement,
    stale_pong,
)
from antecast.papers.stage import Stage


def printed(**settings):
    return Links("pc-broadcast-paper", **{"algorithm": 2} | settings)


def test_a_stale_pong_opens_a_link_in_both_algorithms_unless_its_number_is_looked_at():
    assert stale_pong(printed(algorithm=3)).broken
    assert not stale_pong(printed(ids="checked")).broken


def test_a_buffer_that_is_a_list_keeps_order():
    assert not set_as_buffer(printed()).broken


def test_what_is_kept_for_a_link_stays_within_its_bound():
    stage = Links("pc-broadcast", retain=2)
    assert not stale_acknowledgement(stage).broken
    assert stage.nodes[A].gauges()["log"] == 2


@pytest.mark.parametrize("retain", [0, 1])
def test_small_buffers_cost_pings_and_not_the_link(retain):
    stage = Links("pc-broadcast", retain=retain)
    assert not small_buffer(stage).broken
    assert stage.log.delivered(D) == [f"A:{seq}" for seq in range(1, 14)]


@pytest.mark.parametrize("algorithm", [2, 3])
def test_while_links_stay_the_printed_rules_deliver_everything(algorithm):
    stage = Stage("pc-broadcast-paper", "ABDE", algorithm=algorithm)
    for pair in ((0, 1), (1, 2), (0, 3), (3, 1)):
        stage.open(*pair)
    stage.carry()
    for node in range(4):
        stage.broadcast(node)
    stage.carry()
    assert all(len(stage.log.delivered(node)) == 4 for node in range(4))
    assert not stage.log.outcome(0).broken
