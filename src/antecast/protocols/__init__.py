"""Orderings, disseminations, the protocols made of them, and the registry that names them."""

from antecast.protocols import cellular, flooded, opportunistic  # noqa: F401  (they register their protocols)
from antecast.protocols.registry import (
    Guarantee,
    Need,
    Specification,
    register,
    specification,
    specifications,
)

__all__ = ["Guarantee", "Need", "Specification", "register", "specification", "specifications"]
