"""Protocols that keep one bit where it is easily overlooked, and do something else when it is set."""

import cmath
import enum
import math
import types
from collections import defaultdict, namedtuple
from functools import partial

import msgspec
import pytest
from small import Direct, spec_of

from antecast.checking.check import check
from antecast.checking.scope import Scope
from antecast.core import Codec, ConfigurationError, Deliver, Message, Send


class Silent(str):
    """Text that does not say what it is."""

    def __repr__(self):
        return "…"


class Rank(int):
    def __repr__(self):
        return "…"


class Signs(enum.IntFlag, boundary=enum.KEEP):
    NONE = 0


class Open(msgspec.Struct, frozen=True, dict=True):
    name: int = 0


class OpenToo(msgspec.Struct, dict=True):
    name: int = 0


class Half:
    __slots__ = ("bit",)


class Whole(Half):
    """Its own attributes are in a dict, and one of them hides what it derives from."""

    bit = property(lambda self: 0)


class Bare:
    pass


class Votes:
    __slots__ = ("tallies",)


def built(kind, **attributes):
    made = kind.__new__(kind) if kind is not Open and kind is not OpenToo else kind()
    for name, value in attributes.items():
        made.__dict__[name] = value
    return made


def slotted(bit):
    made = Whole()
    Half.bit.__set__(made, bit)
    return made


def counted(bit):
    made = Votes()
    made.tallies = bit
    return made


def local_class(bit):
    class Local:
        def bit(self):
            return bit

    return Local


def looped(bit):
    inner = [bit]
    inner.append(Message(0, 1, b"", inner))
    return inner


def with_keywords(bit):
    def ask(*, bit=0):
        return bit

    ask.bit = 0
    if bit:
        ask.__kwdefaults__ = {"bit": 1}
    return ask


def ordered(bit):
    return types.SimpleNamespace(**({"a": 0, "b": 1} if bit else {"b": 1, "a": 0}))


def shared(bit):
    clock = [0]
    return Message(0, 1, b"", clock), Message(0, 2, b"", clock if bit else [0])


def changes_with_the_other(kept):
    kept[0].stamp.append(1)
    return len(kept[1].stamp) == 2


def marked(bit):
    made = partial(max)
    made.bit = bit
    return made


class Elsewhere:
    ZERO, ONE = (types.MethodType(lambda owner, given=given: given, 5) for given in (0, 1))


again = namedtuple("again", "number")

WAYS = {
    "text that does not say what it is": (lambda bit: Silent(bit), lambda kept: str.__str__(kept) == "1"),
    "a number that does not say what it is": (Rank, int),
    "flags without a name": (lambda bit: Signs(16 << bit), lambda kept: kept == Signs(32)),
    "a module": (lambda bit: cmath if bit else math, lambda kept: kept is cmath),
    "a function of a module": (lambda bit: (cmath if bit else math).sqrt, lambda kept: kept is cmath.sqrt),
    "a codec": (lambda bit: Codec([Message[None]], max_frame=64 + bit), lambda kept: kept.max_frame - 64),
    "an open frozen struct": (lambda bit: built(Open, bit=[bit]), lambda kept: kept.bit[0]),
    "an open struct": (lambda bit: built(OpenToo, bit=bit), lambda kept: kept.bit),
    "an object without __init__": (
        lambda bit: built(Bare, **({"bit": 0} if bit else {})),
        lambda k: hasattr(k, "bit"),
    ),
    "a slot behind a property": (slotted, lambda kept: Half.bit.__get__(kept)),
    "a slot with the name of a declaration": (counted, lambda kept: kept.tallies),
    "an object of one of two classes of one name": (lambda bit: local_class(bit)(), lambda kept: kept.bit()),
    "one of two classes of one name": (local_class, lambda kept: kept().bit()),
    "a method that is not of its class": (
        lambda bit: Elsewhere.ONE if bit else Elsewhere.ZERO,
        lambda kept: kept(),
    ),
    "a default by keyword": (with_keywords, lambda kept: kept()),
    "an attribute of a partial": (
        marked,
        lambda k: k.bit,
    ),
    "the order of attributes": (ordered, lambda kept: next(iter(vars(kept))) == "a"),
    "what two structs share": (shared, changes_with_the_other),
    "a struct in a list that it holds": (looped, lambda kept: kept[1].stamp[0]),
    "a tuple that is named like a form": (lambda bit: [x := [], again(1) if bit else x], lambda k: k[1] == (1,)),
    "a bool against a number": (lambda bit: bool(1) if bit else 1, lambda kept: kept is True),
    "the sign of zero": (lambda bit: -0.0 if bit else 0.0, lambda kept: math.copysign(1, kept) < 0),
    "the sign of a number that is none": (
        lambda bit: -math.nan if bit else math.nan,
        lambda k: math.copysign(1, k) < 0,
    ),
    "what makes missing values": (lambda bit: defaultdict(int if bit else list), lambda kept: kept[0] == 0),
    "bytes in place": (lambda bit: bytearray([bit]), lambda kept: kept[0]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_bit_is_seen_wherever_it_is_kept(way):
    hide, show = WAYS[way]

    class Keeps(Direct):
        def __init__(self, node, settings):
            super().__init__(node, settings)
            self.kept = hide(0)

        def receive(self, frame, sender, now):
            bit = show(self.kept)
            self.kept = hide(1)
            return [Deliver(frame)] * (2 if bit else 1)

    found = check(spec_of(Keeps), Scope(nodes=2, broadcasts=2, answers=0)).found
    assert found.problem is not None, found
    assert found.problem.words.endswith("twice")


class Marked(str):
    __slots__ = ("bit",)


def test_text_with_slots_is_no_value():
    class Keeps(Direct):
        def __init__(self, node, settings):
            super().__init__(node, settings)
            self.kept = Marked("")

    with pytest.raises(ConfigurationError, match="Marked is a value with attributes of its own"):
        check(spec_of(Keeps), Scope(nodes=2, broadcasts=1))


def test_a_state_that_is_too_deep_is_refused_in_words():
    class Keeps(Direct):
        def __init__(self, node, settings):
            super().__init__(node, settings)
            self.kept = None
            for _ in range(5000):
                self.kept = [self.kept]

    with pytest.raises(ConfigurationError, match="too deep"):
        check(spec_of(Keeps), Scope(nodes=2, broadcasts=1))


class Writes(Direct):
    """Counts in the stamp of what it receives, and sends that back to its source. Delivers twice what comes with
    more than one mark: no network hands the same object to two nodes."""

    codec = Codec([Message[list[int]]])

    def broadcast(self, payload, now, *, lifetime=None):
        self.seq += 1
        message = Message(self.node, self.seq, payload, [])
        self.got.append(message.id)
        return [*(Send(peer, message) for peer in self.links), Deliver(message)]

    def receive(self, frame, sender, now):
        frame.stamp.append(1)
        return [Deliver(frame)] * len(frame.stamp)


def test_what_a_receiver_does_to_a_frame_is_not_seen_by_others():
    found = check(spec_of(Writes), Scope(nodes=3, broadcasts=1, answers=0)).found
    assert (found.verdict, found.problem) == ("exhausted", None)
