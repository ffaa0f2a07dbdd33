"""Orderings, disseminations, the protocols made of them, and the registry that names them."""

from antecast.protocols import cellular, flooded, opportunistic, tcp_flooding  # noqa: F401  (they register)
from antecast.protocols.registry import (
    Guarantee,
    Need,
    Specification,
    register,
    specification,
    specifications,
)

__all__ = ["Guarantee", "Need", "Specification", "register", "specification", "specifications"]
