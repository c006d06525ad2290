"""Write each log record as one line of JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_ENCODER = json.JSONEncoder(default=str)


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message and the record's own `fields`; an exception by its type, never by its values."""

    def __init__(self) -> None:
        super().__init__()
        self._second, self._text = -1, ""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, Any] = {
            "at": self._time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
        return _ENCODER.encode(line)

    def _time(self, seconds: float) -> str:
        """Return a moment as ISO 8601 in UTC; the second is written once for all that is logged in it."""
        second = int(seconds)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._text}.{int((seconds - second) * 1e3):03}Z"


def set_up_json_logs(level: str = "info", *, stream: TextIO | None = None) -> logging.Handler:
    """Send what obil logs, and what its server warns of, to a stream, standard error if None; return the handler."""
    # a record need not carry what no line shows; each would be looked up for every request
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    # the server's and the event loop's own lines would be no JSON, and a traceback of theirs may hold a row's values
    for name, lowest in (("obil", level.upper()), ("uvicorn", "WARNING"), ("asyncio", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(lowest)
        logger.propagate = False
    return handler
