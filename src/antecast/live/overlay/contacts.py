"""Addresses that a member of an overlay may dial without having heard of them from another member.

Those given by hand are dialled until each has answered once in this life, whoever has come to the member
meanwhile: when all start at once, some have neighbours before their contact is there. One that is gone again
before it has said anything, or before it has been joined, has not answered: it may come back and know nobody.
The others are neighbours of an earlier life, to fall back on.
"""

from __future__ import annotations

from collections.abc import Sequence

from antecast.core import NodeId


class Contacts:
    def __init__(self, own: str, given: Sequence[str]) -> None:
        self._own = own
        self.places: list[str] = []
        self.unanswered: dict[str, None] = {}
        """Those given by hand where no dial has led to a link in this life."""
        self.names: dict[str, NodeId] = {}
        """Who answered at an address, which may have several names."""
        self._given: set[str] = set()
        for each in given:
            self.add(each)

    def add(self, place: str) -> None:
        """One given by hand."""
        if place not in self.places:
            self.places.append(place)
            if place != self._own:
                self.unanswered[place] = None
                self._given.add(place)

    def fall_back_on(self, place: str) -> None:
        if place not in self.places:
            self.places.append(place)

    def answered(self, place: str, peer: NodeId) -> None:
        self.unanswered.pop(place, None)
        if place in self.places:
            self.names[place] = peer

    def gone(self, peer: NodeId) -> None:
        """The link to a member has ended before there was more to it."""
        for place, name in self.names.items():
            if name == peer and place in self._given:
                self.unanswered[place] = None
