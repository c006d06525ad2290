"""Write each log record as one line of JSON."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_ENCODER = json.JSONEncoder(default=str)


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message and the record's `fields`; of an exception only its type, never its values."""

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
        """Return a time as ISO 8601 in UTC; each second is formatted once."""
        second = int(seconds)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._text}.{int((seconds - second) * 1e3):03}Z"


def set_up_json_logs(level: str = "info", *, stream: TextIO | None = None) -> logging.Handler:
    """Send obil's logs and its server's warnings to a stream, standard error if None; return the handler."""
    # no line shows these, and each would be looked up for every request
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    # otherwise the server and the event loop would log plain text, and their tracebacks may hold a row's values
    for name, lowest in (("obil", level.upper()), ("uvicorn", "WARNING"), ("asyncio", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(lowest)
        logger.propagate = False
    return handler
