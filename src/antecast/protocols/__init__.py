"""Orderings, disseminations, the protocols made of them, and the registry that names them."""

from antecast.protocols import (  # noqa: F401  (they register their protocols)
    cellular,
    flooded,
    opportunistic,
    preventive,
    tcp_flooding,
    vcube,
)
from antecast.protocols.registry import (
    Guarantee,
    Need,
    Specification,
    Unit,
    register,
    specification,
    specifications,
)

__all__ = ["Guarantee", "Need", "Specification", "Unit", "register", "specification", "specifications"]
