"""The words of a log for its kinds of events, and what to say when they match nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from antecast.core.errors import ConfigurationError
from antecast.history.rows import factorise

KINDS = ("broadcast", "deliver")
"""The kinds that count."""

_SHOWN = 20
"""Words of a log that an error lists."""


NO_ROW = "no row is "
"""How the errors of this module begin."""
NOT_ONE = "there are no rows at all"
"""How the error of a log without a row ends."""


_ENDINGS = ("", "s", "d", "ed", "y", "ies", "ing")


def check_words(kinds: Mapping[str, str]) -> None:
    """Refuse one word for both kinds: all rows would be deliveries, and nothing could be wrong with them."""
    broadcast, deliver = (kinds.get(kind, kind) for kind in KINDS)
    if broadcast == deliver:
        problem = f"{deliver!r} cannot mean both broadcast and deliver"
        raise ConfigurationError(f"{problem}; say --kinds broadcast=WORD,deliver=WORD", field="--kinds")


def alike(words: Iterable[object], kinds: Mapping[str, str]) -> dict[str, str]:
    """Words that look like one of our kinds and are not, `Deliver` or `delivered`, and the kind they look like.

    A kind that a person has named has the word that was named, and no other.
    """
    found = {}
    for word in map(str, words):
        plain = word.strip().casefold()
        for kind in KINDS:
            if kind not in kinds and word != kind and plain in {kind + ending for ending in _ENDINGS}:
                found[word] = kind
    return {word: kind for word, kind in found.items() if word not in kinds.values()}


def left_out_words(found: Mapping[str, str]) -> list[str]:
    """Why a log with such words is not settled."""
    said = []
    for kind in KINDS:
        some = sorted(repr(word) for word, like in found.items() if like == kind)
        if some:
            problem = f"rows of the kind {', '.join(some)} are not counted: write {kind} if they are meant"
            said.append(f"{problem}, or say --kinds {kind}={kind} if not")
    return said


def in_our_words(batch: pa.RecordBatch, kinds: Mapping[str, str]) -> pa.RecordBatch:
    """The kinds in the auditor's words; others become the empty word, but for those that look like ours."""
    if not kinds:
        return batch
    place = batch.schema.get_field_index("kind")
    column = batch.column(place)
    codes, words = factorise(column)
    ours = {kinds.get(kind, kind): kind for kind in KINDS}
    odd = alike(words, kinds)
    texts = pa.array([ours.get(str(word), str(word) if str(word) in odd else "") for word in words], pa.string())
    indices = pa.array(codes, mask=column.is_null().to_numpy(zero_copy_only=False))
    return batch.set_column(place, "kind", pa.DictionaryArray.from_arrays(indices, texts))


def kinds_error(words: Collection[str], kinds: Mapping[str, str], *, lenient: bool = False) -> str | None:
    """What is wrong with a log that has these words, if one of our kinds is not among them.

    A log that has our words and no others may lack one of them for a good reason: nothing was delivered. One that
    has other words as well may mean them, and a verdict without them would be none.
    """
    ours = [kinds.get(kind, kind) for kind in KINDS]
    lacking = [kind for kind, word in zip(KINDS, ours, strict=True) if word not in words]
    if not lacking:
        return None
    if not words:
        return f"{NO_ROW}a broadcast or a delivery: {NOT_ONE}"
    if lenient or (set(words) <= set(ours) and not any(kind in kinds for kind in lacking)):
        return None
    what = " or ".join({"broadcast": "a broadcast", "deliver": "a delivery"}[kind] for kind in lacking)
    listed = ", ".join(sorted(words)[:_SHOWN]) + (" and more" if len(words) > _SHOWN else "")
    option = ",".join(f"{kind}=WORD" for kind in lacking)
    return f"{NO_ROW}{what}: the kinds are {listed}; say which means what with --kinds {option}"
