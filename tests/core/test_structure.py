"""Copies and canonical forms of any object's state."""

from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from functools import partial

import msgspec
import pytest

from antecast.core import Message
from antecast.core.canonical import canonical_form
from antecast.core.structure import NotAStructure, copy_structure


class Slotted:
    __slots__ = ("_a", "b")

    def __init__(self):
        self._a = [1]


class Doubling(list):
    """Means something of its own by what others do by it."""

    def extend(self, values):
        super().extend(2 * value for value in values)


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
        Counter("aab"),
        ChainMap({1: [2]}, {3: 4}),
        Doubling([1, 2]),
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


class Labelled(int):
    pass


class Sorted(dict):
    """Shows its entries in another order than the one it keeps."""

    def items(self):
        return sorted(super().items())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (deque([1], maxlen=3), deque([1], maxlen=4)),
        (deque([1]), deque([1], maxlen=4)),
        (defaultdict(int), defaultdict(list)),
        (Sorted({1: 1, 2: 2}), Sorted({2: 2, 1: 1})),
        (True, 1),
        (0.0, -0.0),
        ({1: 2}, {1: 2.0}),
    ],
)
def test_what_can_behave_differently_has_another_form(one, other):
    assert repr(canonical_form(one)) != repr(canonical_form(other))


def test_a_number_with_attributes_is_no_value():
    labelled = Labelled(3)
    assert copy_structure([labelled]) == [3]
    labelled.seen = [1]
    for made in (copy_structure, canonical_form):
        with pytest.raises(NotAStructure, match="Labelled is a value with attributes of its own"):
            made([labelled])


def test_the_order_of_a_dict_counts_and_that_of_a_set_does_not():
    assert canonical_form({1: 1, 2: 2}) != canonical_form({2: 2, 1: 1})
    grown = {*range(100)} - {*range(8, 100)}
    assert canonical_form(grown) == canonical_form({*range(8)})


def test_frames_are_values_that_copies_share_unless_something_in_them_can_change():
    still, clock = Message(0, 1, b"", (1, 2)), Message(0, 1, b"", {0: 1})
    copies = copy_structure([still, clock, clock])
    assert copies[0] is still
    assert copies[1] is copies[2] is not clock
    copies[1].stamp[0] = 2
    assert clock.stamp == {0: 1}
    assert canonical_form(copies[1]) != canonical_form(clock)
    assert canonical_form([clock, clock]) == canonical_form([clock, Message(0, 1, b"", {0: 1})])


def test_what_a_frame_shares_with_the_rest_is_told_and_kept():
    """A message that is kept with the living clock of its source in it changes with that clock."""
    clock = {0: 1}
    shared, apart = ([clock, Message(0, 1, b"", each)] for each in (clock, dict(clock)))
    assert canonical_form(shared) != canonical_form(apart)
    copy = copy_structure(shared)
    copy[0][0] = 9
    assert (copy[1].stamp, shared[1].stamp) == ({0: 9}, {0: 1})


def test_functions_are_known_by_what_they_do_and_keep():
    def makes(value):
        return lambda: value, lambda: value + 1

    first, second = makes(1)
    assert first.__qualname__ == second.__qualname__
    assert canonical_form(first) != canonical_form(second)
    one, two = (lambda found=kept: found for kept in (1, 2))
    assert canonical_form(one) != canonical_form(two)
    seen = lambda found=[]: found.append(1) or len(found)  # noqa: E731
    copy = copy_structure(seen)
    assert (copy(), copy(), seen()) == (1, 2, 1)


class Entry:
    def __init__(self, value):
        self.value = value


def test_things_in_a_set_are_told_apart_where_one_is_held_elsewhere_too():
    """Whatever the order in which a set gives them out."""
    forms = set()
    for _ in range(20):
        entries = [Entry(value) for value in range(4)]
        spare = [Entry(0) for _ in range(len(forms))]  # so that they are at other addresses
        forms.add((canonical_form((set(entries), entries[0])), len(spare) < 0))
        assert canonical_form((set(entries), entries[0])) != canonical_form((set(entries), entries[1]))
    assert len(forms) == 1


def test_what_has_no_structure_is_named():
    with pytest.raises(TypeError, match="generator cannot be copied"):
        copy_structure([(n for n in [1])])


def test_it_does_not_matter_which_of_two_equal_frozen_sets_is_held():
    once = frozenset([1, 2])
    assert canonical_form([once, once]) == canonical_form([once, frozenset([2, 1])])
    kept = [frozenset(), frozenset([("a", 1)])]
    assert all(copy is each for copy, each in zip(copy_structure(kept), kept, strict=True))


class OnlyOne:
    """Gives out the same object again."""

    _the = None

    def __new__(cls):
        cls._the = cls._the or object.__new__(cls)
        return cls._the


class Named:
    def __new__(cls, name):
        return object.__new__(cls)


class Pair(tuple):
    def __new__(cls, one, other):
        return tuple.__new__(cls, (one, other))


class Line(deque):
    def __init__(self, first):
        super().__init__([first])


class Counts(msgspec.Struct, frozen=True):
    made: list[int]

    def __post_init__(self):
        self.made.append(1)


class Loose(msgspec.Struct):
    items: list[int]


class Hides:
    name = property(lambda self: "hidden")


MISSING = Entry.__new__(Entry)


def hiding():
    made = Hides()
    vars(made)["name"] = [1]
    return made


@pytest.mark.parametrize(
    "make", [OnlyOne, lambda: Named("a"), lambda: Pair([1], 2), lambda: Line(1), lambda: Counts([]), hiding]
)
def test_what_a_class_does_when_it_makes_an_object_is_not_done_for_a_copy(make):
    one = make()
    form = canonical_form(one)
    copy = copy_structure(one)
    assert copy is not one
    assert (canonical_form(copy), canonical_form(one)) == (form, form)


def test_a_struct_that_can_change_is_copied():
    one = Loose([1])
    copy = copy_structure(one)
    copy.items.append(2)
    assert (one.items, copy.items) == ([1], [1, 2])


def test_what_is_in_a_set_may_hold_that_set():
    member = Entry(1)
    member.value = group = {member}
    for first in ([group, member], [member, group]):
        kept, holder = sorted(copy_structure(first), key=lambda each: type(each) is Entry)
        assert holder.value is kept
        assert kept == {holder}


def test_a_mark_that_a_module_holds_is_that_very_object_in_every_copy():
    assert copy_structure([MISSING])[0] is MISSING
    assert canonical_form([MISSING]) != canonical_form([Entry.__new__(Entry)])


def test_methods_that_their_class_hides_are_copied_as_they_are():
    doubling = Doubling([1])
    plain = super(Doubling, doubling).extend
    owner, copied = copy_structure([doubling, plain])
    copied([2])
    assert (owner, doubling) == ([1, 2], [1])


def test_two_classes_of_one_name_are_two():
    def made(value):
        class Local:
            def get(self):
                return value

        return Local

    assert canonical_form(made(1)) == canonical_form(made(1))
    assert canonical_form(made(1)) != canonical_form(made(2))
    assert canonical_form(made(1)()) != canonical_form(made(2)())
