"""Other simulators on the same work as ours: results side by side, and what they cost.

    python -m bench.peers [--nodes N] [--contacts N] [--messages N]

The work is epidemic exchange over one list of contacts (`work`). Whom each message reaches must be the same
everywhere; when it does differs by the way each models an exchange, and the largest difference is shown. SimPy
comes with the development packages. The ONE is a program of its own: a user who has it names its folder, compiled,
in `ANTECAST_THE_ONE`; without it the line says so. No code of a peer is part of this repository.

`python -m bench.peers.peersim` compares PC-broadcast over Spray with PeerSim, where a user has that.
"""
