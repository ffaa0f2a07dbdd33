"""Words for people, where several packages need them."""

from collections.abc import Iterable


def listed(words: Iterable[str], last: str = "and") -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', 'none')
    """
    each = list(words)
    return f"{', '.join(each[:-1])} {last} {each[-1]}" if len(each) > 1 else (each or ["none"])[0]
