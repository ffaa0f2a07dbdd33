"""Antecast: causal broadcast for networks that move."""

from antecast.version import __version__

__all__ = ["__version__"]
