"""Compiled engines: the reference's runs, byte for byte, over arrays and in compiled loops.

`choice` says which engine makes a run. What all of them are built from, each named and laid out in one place:

- `queue` (over `heap` and, for those far ahead, `wheel`): events that wait, in the order of the reference's
  scheduler;
- `draws`: random streams and delays, draw for draw;
- `links`: links and packet networks;
- `cells`, `pool`, `table`, `sorting`, `skew`: lists of any length, rows that come and go, what a node has few of,
  small priority queues;
- `sets`: sets of messages, as bits;
- `clocks`: local clocks;
- `workload`: broadcasts and answers;
- `wire`: the encoded lengths of frames;
- `book`: the log.

An engine adds the state of its protocol and the loop over its events: `vcube`, `opportunistic` (begin with their
`arrays`). The engine for PC-broadcast over Spray (`sim.overlay.compiled`) is built from the first two. It writes
no log, so `sim.run` does not use it.

Nothing is allocated while a kernel runs: it stops before an event for which an array might be too small, is given
more room, and continues.
"""
