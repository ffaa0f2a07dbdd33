"""Other simulators on the same work as ours: results side by side, and what they cost.

    python -m bench.peers [--nodes N] [--contacts N] [--messages N]

The work is epidemic exchange over one list of contacts (`work`). Whom each message reaches must be the same
everywhere; when it does differs by the way each models an exchange, and the largest difference is shown. SimPy
comes with the development packages. dtnsim and ns-3 are Python packages with many needs of their own (`apart`).
The ONE is a program: a user who has it names its folder, compiled, in `ANTECAST_THE_ONE`. Where a peer is missing,
its line says what would help. No code of a peer is part of this repository.

`python -m bench.peers.peersim` compares PC-broadcast over Spray with PeerSim, where a user has that.
"""
