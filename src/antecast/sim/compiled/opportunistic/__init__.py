"""Opportunistic exchange, compiled: `epidemic`, `barrier` and `delta`.

`arrays` names the state. What is done with it, each in one place: `sending` (frames, radios that send one after
the other), `exchange` (offers, requests, messages), `keeping` (what a node holds, and until when), `ordering`
(stamps and deliveries; `waiting` has the messages that came early), `contacts` (nodes and contacts that come and
go). `kernel` has the loop over events, `script` what traces and faults do; `engine` makes a run of it, if `checks`
allows it.
"""
