"""Every interleaving of a protocol at small scope, and the shortest counterexample (`docs/checking.md`).

Pure: no I/O, no clock but for the limits of a search, no randomness but from a seed.
"""
