"""Log in JSON, one line per event, and let nobody fill the disk with lines that repeat."""

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

_ENCODER = json.JSONEncoder(default=str)
_MAX_KINDS = 100


class Throttle:
    """Lets so many lines of each kind through in a second, and counts the others.

    >>> throttle = Throttle(1, clock=iter([5.0, 5.1, 5.2, 6.5]).__next__)
    >>> throttle.left_out("a"), throttle.left_out("a"), throttle.left_out("a"), throttle.left_out("a")
    (0, None, None, 2)
    """

    def __init__(self, per_second: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._clock = per_second, clock
        self._kinds: dict[str, tuple[int, int, int]] = {}  # second, lines in it, lines left out since the last one

    def left_out(self, kind: str) -> int | None:
        """Return how many lines were left out before this one, None if this one is left out too."""
        now = int(self._clock())
        second, n_lines, n_left_out = self._kinds.get(kind, (now, 0, 0))
        if second != now:
            second, n_lines = now, 0
        if n_lines >= self._per_second:
            self._kinds[kind] = second, n_lines, n_left_out + 1
            return None
        if len(self._kinds) >= _MAX_KINDS:
            self._kinds.clear()
        self._kinds[kind] = second, n_lines + 1, 0
        return n_left_out


class OncePerSecond(logging.Filter):
    """Passes each message at most once per second: a server without open files left would log thousands."""

    def __init__(self) -> None:
        super().__init__()
        self._throttle = Throttle(1)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record, and note in it how many were left out."""
        left_out = self._throttle.left_out(str(record.msg)[:40])
        if left_out:
            record.fields = {**getattr(record, "fields", {}), "left_out": left_out}
        return left_out is not None


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
    for name, lowest in (
        ("obil", level.upper()),
        ("uvicorn", "WARNING"),
        ("asyncio", "WARNING"),
        ("opentelemetry", "WARNING"),
    ):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(lowest)
        logger.propagate = False
    for name in ("uvicorn.error", "asyncio"):  # a filter holds for the logger that a line was sent to, not above it
        logging.getLogger(name).filters[:] = [OncePerSecond()]
    return handler
