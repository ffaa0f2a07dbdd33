"""Sizes in bytes, as people write them in options and read them in messages."""

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def parse_size(text: str) -> int:
    """Bytes from text such as "500MB".

    >>> parse_size("1.5GB"), parse_size("512 MiB")
    (1500000000, 536870912)
    """
    number = text.strip().rstrip("".join(set("".join(_UNITS)))).strip()
    unit = text.strip()[len(number) :].strip()
    try:
        size = round(float(number) * _UNITS[unit])
        if size <= 0:
            raise ValueError
    except (KeyError, ValueError, OverflowError):
        known = ", ".join(_UNITS)
        raise ValueError(
            f'expected a size with its unit, such as "500MB" (units: {known}), got {text!r}'
        ) from None
    return size


def format_size(size: int) -> str:
    """A size for people.

    >>> format_size(500_000_000), format_size(1536)
    ('500 MB', '1.54 kB')
    """
    for unit in ("GB", "MB", "kB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.3g} {unit}"
    return f"{size} B"
