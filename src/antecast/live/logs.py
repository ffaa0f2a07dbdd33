"""Logs of live nodes, one line per record of the standard library's `logging`: as text, or structured, as JSON.

What peers say is part of some records; a terminal that shows the log does not obey it.

Messages of live nodes are templates with values, and the template names the event. So `event` is the same text for
the same thing, whoever it happened to, and `values` are what differs.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from antecast.text.wording import escaped


class TextFormatter(logging.Formatter):
    """
    >>> record = logging.LogRecord("antecast.live", 30, "", 0, "refused: %s", ("no\\n\\x1b[2Jroom",), None)
    >>> print(TextFormatter("%(levelname)s %(message)s").format(record))
    WARNING refused: no\\n\\x1b[2Jroom
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's own name)
        return escaped(super().formatMessage(record))


class JsonFormatter(logging.Formatter):
    """
    >>> record = logging.LogRecord("antecast.live", 20, "", 0, "node %d: link to %d is up", (3, 5), None)
    >>> found = json.loads(JsonFormatter().format(record))
    >>> found["event"], found["values"], found["message"]
    ('node %d: link to %d is up', [3, 5], 'node 3: link to 5 is up')
    """

    def format(self, record: logging.LogRecord) -> str:
        values = record.args if isinstance(record.args, tuple) else ()
        row: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": str(record.msg),
            "values": [value if isinstance(value, int | float) else str(value) for value in values],
            "message": record.getMessage(),
        }
        if record.exc_info:
            row["traceback"] = self.formatException(record.exc_info)
        written = json.dumps(row, ensure_ascii=False)
        return written if written.isprintable() else json.dumps(row)
