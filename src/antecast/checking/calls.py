"""Local calls told by their contents, so that another process can make them, too.

A call is the digest of a local state, a time, a method and its arguments, with a frame by its bytes. Whoever has
the nodes that start, and all calls that a search has made, comes to all its local states and frames.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

from antecast.checking.machine import Machine
from antecast.core import MessageId, NodeId

Told: TypeAlias = tuple[Any, ...]
"""A call by its contents."""

ToldLag: TypeAlias = tuple[bytes, NodeId, bytes]
"""A local state in which a frame was taken to be only noted, its sender, and the frame, by their contents."""


def forget(machine: Machine) -> None:
    """From here on `told` tells the calls that are made, or recalled, by the search."""
    for step in machine.memo.values():
        step.aside = True


def told(machine: Machine) -> set[Told]:
    """The calls of the search."""
    found = set()
    for (state, *call), step in machine.memo.items():
        if not step.aside:
            if call[1] == "receive":
                call[2] = machine.frame_bytes[call[2]]
            elif call[1] == "crash":
                call[2] = tuple(tuple(machine.messages[each]) for each in call[2])
            found.add((machine.digests[state], *call))
    return found


def make_all(machine: Machine, nodes: Collection[NodeId], calls: Collection[Told]) -> None:
    """Make calls that others have told."""
    for node in nodes:
        machine.start(node)
    left = list(calls)
    while left:
        later = [call for call in left if not _made(machine, call)]
        if len(later) == len(left):
            raise AssertionError(f"{len(later)} calls are on states or frames that no other call leads to")
        left = later


def _made(machine: Machine, call: Told) -> bool:
    """Make a call, if its state and frame are known by now."""
    digest, now, method, *arguments = call
    state = machine.number_of(digest)
    if state is None:
        return False
    if method == "receive":
        arguments[0] = machine.frame_number(arguments[0])
        if arguments[0] is None:
            return False
    node = machine.node(state)
    if method == "recover":
        machine.recover(state, node, now)
    elif method == "crash":
        machine.crash(state, node, tuple(machine.message(MessageId(*name)) for name in arguments[0]))
    else:
        machine.step(state, node, now, method, *arguments)
    return True
