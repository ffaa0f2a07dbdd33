"""What comes in from outside: mobility, timetables, contacts. Readers, writers, generators.

    from antecast.traces import read, write

    trace = read("conference.one.txt")
    write(trace, "conference.parquet")

A trace is contacts or movement, in one of the two tables of `antecast.traces.schema`.
"""

from antecast.traces.formats import FORMATS, guess, read, write
from antecast.traces.schema import CONTACTS, TRAJECTORIES, node_order
from antecast.traces.trace import Format, Kind, Trace

__all__ = [
    "CONTACTS",
    "FORMATS",
    "TRAJECTORIES",
    "Format",
    "Kind",
    "Trace",
    "guess",
    "node_order",
    "read",
    "write",
]
