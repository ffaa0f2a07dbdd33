"""Live nodes: the protocols on real networks."""
