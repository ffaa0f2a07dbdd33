"""Copies and canonical forms of any object's state."""

from collections import OrderedDict, defaultdict, deque
from functools import partial

import pytest

from antecast.core import Message
from antecast.core.structure import canonical_form, copy_structure


class Slotted:
    __slots__ = ("_a", "b")

    def __init__(self):
        self._a = [1]


class Owner:
    tallies = ("count",)

    def __init__(self):
        self.items = []
        self.count = 0
        self.add = self.items.append
        self.first = self.look

        def remember(value, seen=None):
            self.items.append(value)

        self.remember = remember

    def look(self):
        return self.items[0]


def test_what_is_shared_stays_shared_and_nothing_is_shared_with_the_original():
    one = [1]
    copy = copy_structure({"a": one, "b": one, "c": [1]})
    assert copy["a"] is copy["b"]
    assert copy["a"] is not one
    assert canonical_form({"a": one, "b": one}) != canonical_form({"a": one, "b": [1]})


def test_a_structure_that_contains_itself_can_be_copied():
    loop = []
    loop.append(loop)
    copy = copy_structure(loop)
    assert copy[0] is copy
    assert canonical_form(copy) == canonical_form(loop)


def test_methods_and_closures_are_bound_to_the_copy():
    owner = Owner()
    copy = copy_structure(owner)
    copy.add(1)
    copy.remember(2)
    assert (owner.items, copy.items, copy.first()) == ([], [1, 2], 1)
    assert canonical_form(copy_structure(copy)) == canonical_form(copy)


def test_tallies_are_copied_and_do_not_count():
    one, other = Owner(), Owner()
    other.count = 5
    assert canonical_form(one) == canonical_form(other)
    assert copy_structure(other).count == 5


@pytest.mark.parametrize(
    "thing",
    [
        deque([[1], [2]], maxlen=3),
        defaultdict(list, {1: [2]}),
        OrderedDict(b=[1], a=[2]),
        {(1, 2): {3, 4}},
        partial(max, [3, 1]),
        Slotted(),
        (1, [2]),
        Message(1, 1, b"", {1: 2}),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_a_copy_has_the_same_form(thing):
    copy = copy_structure(thing)
    assert type(copy) is type(thing)
    assert repr(canonical_form(copy)) == repr(canonical_form(thing))


def test_the_order_of_a_dict_counts_and_that_of_a_set_does_not():
    assert canonical_form({1: 1, 2: 2}) != canonical_form({2: 2, 1: 1})
    grown = {*range(100)} - {*range(8, 100)}
    assert canonical_form(grown) == canonical_form({*range(8)})


def test_frames_are_values_that_copies_share():
    message = Message(1, 1, b"", {1: 2})
    assert copy_structure([message])[0] is message
    assert canonical_form(message) != canonical_form(Message(1, 1, b"", {1: 3}))


def test_what_has_no_structure_is_named():
    with pytest.raises(TypeError, match="generator cannot be copied"):
        copy_structure([(n for n in [1])])
