"""Events with vector clocks, in columns: what the model *clocks* judges.

A component of a clock is a host in one execution: the same name in two executions is two hosts. Components of
value zero say nothing and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecast.importers.source import Place


@dataclass(frozen=True, eq=False)
class ClockLog:
    """Events in the order of the files. Clocks are rows of a sparse matrix, components ascending in each row."""

    hosts: tuple[str, ...]
    """Names by number; a host that is in clocks only has a number too."""
    execution_of: NDArray[np.int32]
    """The execution of each host."""
    executions: tuple[str, ...]
    host: NDArray[np.int32]
    indptr: NDArray[np.int64]
    component: NDArray[np.int32]
    value: NDArray[np.int64]
    texts: tuple[str, ...]
    files: tuple[str, ...]
    file: NDArray[np.int32]
    line: NDArray[np.int64]
    unmatched: tuple[Place, ...] = ()
    """Lines that are no part of an event."""

    def __len__(self) -> int:
        return len(self.host)

    def place(self, event: int) -> Place:
        return Place(self.files[self.file[event]], int(self.line[event]))

    def clock(self, event: int) -> dict[str, int]:
        row = slice(self.indptr[event], self.indptr[event + 1])
        names = (self.hosts[each] for each in self.component[row])
        return dict(zip(names, self.value[row].tolist(), strict=True))

    def host_name(self, host: int) -> str:
        """A host by name, and by its execution if there are several."""
        name = self.hosts[host]
        return name if len(self.executions) == 1 else f"{self.executions[self.execution_of[host]]}/{name}"


class ClockEvents:
    """Collects events one by one."""

    def __init__(self) -> None:
        self.executions: list[str] = [""]
        self.unmatched: list[Place] = []
        self._hosts: dict[tuple[int, str], int] = {}
        self._known: dict[str, int] = {}
        self._host: list[int] = []
        self._lengths: list[int] = []
        self._component: list[int] = []
        self._value: list[int] = []
        self._texts: list[str] = []
        self._files: dict[str, int] = {}
        self._file: list[int] = []
        self._line: list[int] = []

    def __len__(self) -> int:
        return len(self._host)

    def next_execution(self, name: str) -> None:
        """What follows is another execution. One without events leaves no trace."""
        number = len(self.executions) if self._host and self._in_this() else len(self.executions) - 1
        name = name or f"execution {number + 1}"
        if number == len(self.executions):
            self.executions.append(name)
        else:
            self.executions[number] = name
        self._known = {}

    def _in_this(self) -> bool:
        return any(execution == len(self.executions) - 1 for execution, _ in self._hosts)

    def _number(self, host: str) -> int:
        number = self._known.get(host)
        if number is None:
            key = (len(self.executions) - 1, host)
            number = self._known[host] = self._hosts.setdefault(key, len(self._hosts))
        return number

    def add(self, host: str, clock: Mapping[str, int], text: str, place: Place) -> None:
        self._host.append(self._number(host))
        if not clock.keys() <= self._known.keys():
            for name in clock:
                self._number(name)
        self._component.extend(map(self._known.__getitem__, clock))
        self._value.extend(clock.values())
        self._lengths.append(len(clock))
        self._texts.append(text)
        self._file.append(self._files.setdefault(place.file, len(self._files)))
        self._line.append(place.line)

    def finish(self) -> ClockLog:
        component, value = np.array(self._component, np.int32), np.array(self._value, np.int64)
        row = np.repeat(np.arange(len(self._host)), np.array(self._lengths, np.int64))
        order = np.argsort(row * max(1, len(self._hosts)) + component, kind="stable")
        order = order[value[order] != 0]
        indptr = np.searchsorted(row[order], np.arange(len(self._host) + 1)).astype(np.int64)
        return ClockLog(
            hosts=tuple(name for _, name in self._hosts),
            execution_of=np.array([execution for execution, _ in self._hosts], np.int32),
            executions=tuple(self.executions),
            host=np.array(self._host, np.int32),
            indptr=indptr,
            component=component[order],
            value=value[order],
            texts=tuple(self._texts),
            files=tuple(self._files),
            file=np.array(self._file, np.int32),
            line=np.array(self._line, np.int64),
            unmatched=tuple(self.unmatched),
        )


def check_keys(text: str, clock: Mapping[str, int], place: Place) -> None:
    """Refuse the text of a clock in which a host is there twice: the decoder keeps the last."""

    def no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise place.error(f"the clock has {twice!r} twice")
        return dict(pairs)

    if text.count('"') != 2 * len(clock):
        json.loads(text, object_pairs_hook=no_key_twice)
