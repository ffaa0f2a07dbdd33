"""Transports: how packets get from node to node. Each connection is one link; a broken one is a broken link."""

from antecast.live.links.link import Link, Transport

__all__ = ["Link", "Transport"]
