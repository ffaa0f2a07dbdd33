"""Arguments as people write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from antecast.core.errors import ConfigurationError

PathLike: TypeAlias = "Path | str"


def parsed(name: str, value: str | float | None, parse: Callable[[str], Any]) -> Any:
    try:
        return None if value is None else parse(str(value))
    except ValueError as error:
        raise ConfigurationError(str(error), field=name) from None
