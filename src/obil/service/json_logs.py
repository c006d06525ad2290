"""Write each log record as one line of JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message and the record's own `fields`; an exception by its type, never by its values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
        return json.dumps(line, default=str)


def set_up_json_logs(level: str = "info", *, stream: TextIO | None = None) -> logging.Handler:
    """Send what obil logs to a stream, standard error if None, and nowhere else; return the handler."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("obil")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
    return handler
