"""Send HTTP requests over one persistent connection, and retry where that is safe.

ServiceError             the service refused: status, code, message, where, request_id
└── NotReachedError      no response came, however often it was tried
"""

import json
import threading
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from random import SystemRandom
from typing import Any
from urllib.parse import urlencode, urlsplit

from obil.errors import InvalidInputError, ObilError
from obil.service.records import Record, read

FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0  # seconds between two attempts
UNAVAILABLE = 503  # nothing of the request was stored
LOST = (502, 504)  # a proxy got no response: the request may have been handled


class ServiceError(ObilError):
    """The service refused a request; it changed nothing.

    >>> error = ServiceError("there is no stream 'shop'", status=404, code="unknown_stream")
    >>> error.status, error.code
    (404, 'unknown_stream')
    """

    def __init__(
        self, message: str, *, status: int, code: str, where: str | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.where = status, code, message, where
        self.request_id = request_id  # as in the log of the service


class NotReachedError(ServiceError):
    """No response came: it is unknown whether the request was handled.

    >>> issubclass(NotReachedError, ServiceError)
    True
    """


class ServiceConnection:
    """One connection, opened when it is needed and reopened when it was lost; threads take turns.

    The parameters are those of `Client`; `url` may have a path where a proxy adds one.
    """

    def __init__(self, url: str, key: str | None, *, timeout: float, retries: int) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InvalidInputError(f"url must look like http://127.0.0.1:8642, got {url!r:.200}")
        if retries < 0 or timeout <= 0.0:
            raise InvalidInputError(f"retries must be 0 or more and timeout above 0, got {retries} and {timeout}")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._path, self._retries = parts.path.rstrip("/"), retries
        self._headers = {"Accept": "application/json, application/problem+json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        with self._lock:
            self._connection.close()

    def record(self, kind: type[Record], method: str, path: str, *body: Mapping[str, Any], **how: Any) -> Record:
        """Return the response to a request as a record."""
        return read(kind, self.request(method, path, *body, **how))

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        repeatable: bool = True,
        tar: bytes | None = None,
    ) -> Any:
        """Return the decoded response; a `repeatable` request may be sent again if its response was lost."""
        headers, content = dict(self._headers), None
        if body is not None:
            headers["Content-Type"], content = "application/json", _as_json(body)
        if tar is not None:
            headers["Content-Type"], content = "application/x-tar", tar
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{self._path}{path}{'?' + urlencode(given) if given else ''}"
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                response, text = self._exchange(method, target, content, headers, fresh=not repeatable)
            except (OSError, HTTPException) as error:
                if last or not repeatable:
                    reason = str(error) or type(error).__name__
                    raise NotReachedError(
                        f"the service did not respond: {reason}", status=0, code="not_reached"
                    ) from error
                _wait(attempt)
                continue
            if not last and (response.status == UNAVAILABLE or (repeatable and response.status in LOST)):
                _wait(attempt)
                continue
            if response.status >= 300:
                raise _refusal(response.status, text)
            return json.loads(text) if text else None
        raise AssertionError("the last attempt returns or raises")

    def _exchange(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str], *, fresh: bool
    ) -> tuple[HTTPResponse, bytes]:
        with self._lock:
            if fresh:  # the other side may have closed an idle connection, which is noticed too late
                self._connection.close()
            try:
                self._connection.request(method, target, content, dict(headers))
                response = self._connection.getresponse()
                return response, response.read()
            except BaseException:
                self._connection.close()  # half a response must not be read as the next one
                raise


def _as_json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, default=_plain, separators=(",", ":")).encode()
    except ValueError:
        raise InvalidInputError(
            "numbers must be finite: send None for a missing value "
            "(a DataFrame: frame.astype(object).where(frame.notna(), None).to_dict('records'))"
        ) from None


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return value.tolist()
    raise InvalidInputError(f"a cell must be a number, a string, a bool or None, got {type(value).__name__}")


def _refusal(status: int, text: bytes) -> ServiceError:
    try:
        problem = json.loads(text)
        return ServiceError(
            problem["detail"],
            status=status,
            code=problem["code"],
            where=problem["where"],
            request_id=problem["request_id"],
        )
    except (ValueError, KeyError, TypeError):  # a proxy answered
        return ServiceError(f"the response has status {status}", status=status, code="unknown")


def _wait(attempt: int) -> None:
    longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt)
    time.sleep(SystemRandom().uniform(longest / 2.0, longest))  # randomized, so that many clients do not retry at once
