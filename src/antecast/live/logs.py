"""Structured logs: one JSON object per line, from the records of the standard library's `logging`.

Messages of live nodes are templates with values, and the template names the event. So `event` is the same text for
the same thing, whoever it happened to, and `values` are what differs.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any


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
        return json.dumps(row, ensure_ascii=False)
