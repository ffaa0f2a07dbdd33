"""The levels a history is judged by, from the guarantees of one session to causal consistency.

- `read-your-writes`, `monotonic-reads`, `monotonic-writes`, `writes-follow-reads`: Terry, Demers, Petersen,
  Spreitzer, Theimer and Welch, *Session Guarantees for Weakly Consistent Replicated Data*.
- `read-committed`, `read-atomic`: Biswas and Enea, *On the Complexity of Checking Transactional Consistency*.
- `CC`, `CCv`, `CM`: causal consistency, causal convergence and causal memory of Bouajjani, Enea, Guerraoui and
  Hamza, *On Verifying Causal Consistency*, with a transaction in place of an operation. CCv of transactions is
  what Biswas and Enea call causal consistency.

What implies what: CCv implies read-atomic, which implies read-committed. CCv and CM each imply CC, and CC
implies the four session guarantees. CCv and CM do not imply each other.
"""

from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal[
    "read-your-writes",
    "monotonic-reads",
    "monotonic-writes",
    "writes-follow-reads",
    "read-committed",
    "read-atomic",
    "CC",
    "CCv",
    "CM",
]
Outcome: TypeAlias = Literal["kept", "violated", "inconclusive"]

SESSION: Final[tuple[Level, ...]] = (
    "read-your-writes",
    "monotonic-reads",
    "monotonic-writes",
    "writes-follow-reads",
)
ISOLATION: Final[tuple[Level, ...]] = ("read-committed", "read-atomic")
CAUSAL: Final[tuple[Level, ...]] = ("CC", "CCv", "CM")
LEVELS: Final[tuple[Level, ...]] = (*SESSION, *ISOLATION, *CAUSAL)

IMPLIED: Final[dict[Level, tuple[Level, ...]]] = {
    "CCv": ("CC", "read-atomic", "read-committed", *SESSION),
    "CM": ("CC", *SESSION),
    "CC": SESSION,
    "read-atomic": ("read-committed",),
}
"""Levels that are kept where a level is kept."""
