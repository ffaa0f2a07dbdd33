"""Key-value and transactional histories: session guarantees, isolation levels and causal consistency.

`check(history, options)` judges a history by nine levels and says which operations break them. docs/kv.md has the
definition of every level, by paper.
"""

from antecast.kv.check import Options, check
from antecast.kv.history import INITIAL, UNKNOWN, History, HistoryBuilder, Status
from antecast.kv.levels import LEVELS, Level
from antecast.kv.verdict import KvVerdict

__all__ = [
    "INITIAL",
    "LEVELS",
    "UNKNOWN",
    "History",
    "HistoryBuilder",
    "KvVerdict",
    "Level",
    "Options",
    "Status",
    "check",
]
