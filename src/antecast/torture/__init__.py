"""Torture: real nodes in processes of their own, faults at every point, and an audit after each.

A *group* of nodes runs on loopback with a fault proxy between them. Each node has an application that keeps a
record of its own: what it was told is durable, and every delivery with its number. *Trials* hurt the nodes, their
links, clocks, disks and journals. After each, all nodes run again, the network is calm, and the *ledger* compares
the records: nothing lost that was acknowledged, nothing twice, nothing out of order.

`antecast torture` is the command; `docs/torture.md` says what each fault is and how to read the summary.
"""
