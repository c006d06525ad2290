"""Define why a request is refused, each with its HTTP status and code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from obil.errors import InvalidInputError, ObilError


class RefusedError(ObilError):
    """The root: a request that changed nothing."""

    status: ClassVar[int] = 422
    code: ClassVar[str] = "refused"

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where  # the column or field that is wrong, if it is one

    def __init_subclass__(cls, *, status: int, code: str) -> None:
        cls.status, cls.code = status, code


class BadInputError(RefusedError, status=422, code="bad_input"):
    """A value breaks the rule that the message states."""


class NotUnderstoodError(RefusedError, status=400, code="not_understood"):
    """The body is not the JSON or CSV that its Content-Type says."""


class MalformedError(RefusedError, status=400, code="malformed"):
    """The request is not plain HTTP/1.1: a proxy might see another end of it than this service does."""


class NoKeyError(RefusedError, status=401, code="no_key"):
    """The API key is missing, wrong, expired or revoked."""


class WrongScopeError(RefusedError, status=403, code="wrong_scope"):
    """The key lacks the scope."""

    def __init__(self, message: str, *, caller: str) -> None:
        super().__init__(message)
        self.caller = caller  # for the log


class UploadsOffError(RefusedError, status=403, code="uploads_off"):
    """The service takes no models over HTTP."""


class ForeignHostError(RefusedError, status=403, code="foreign_host"):
    """The Host or the Origin of the request is not this service's."""


class UnknownStreamError(RefusedError, status=404, code="unknown_stream"):
    """No stream has this name."""


class UnknownDecisionError(RefusedError, status=404, code="unknown_decision"):
    """No decision has this id."""


class UnknownModelError(RefusedError, status=404, code="unknown_model"):
    """The service has no model of this name or version."""


class TooSlowError(RefusedError, status=408, code="too_slow"):
    """The head or the body did not arrive in time."""


class TooLargeError(RefusedError, status=413, code="too_large"):
    """The body has more bytes or rows than the service accepts."""


class UnsupportedTypeError(RefusedError, status=415, code="unsupported_type"):
    """The service does not read this content type."""


class StreamExistsError(RefusedError, status=409, code="stream_exists"):
    """A stream of this name exists with other settings."""


class KeyReusedError(RefusedError, status=409, code="key_reused"):
    """The idempotency key was used with another body."""


class ErasedError(RefusedError, status=410, code="erased"):
    """The decision, or the request of this idempotency key, was stored and erased since."""


class ModelRefusedError(RefusedError, status=409, code="model_refused"):
    """The deployment gate refuses the model, it cannot be loaded, or it does not fit the streams."""


class TooManyRequestsError(RefusedError, status=429, code="too_many_requests"):
    """The key has as many requests in progress as a key may have."""


class NotStoredError(RefusedError, status=503, code="not_stored"):
    """The store is full or unavailable: nothing of this request was stored."""


class ModelChangedError(RefusedError, status=503, code="model_changed"):
    """The model was replaced after the rows were read for it."""


class BusyError(RefusedError, status=503, code="busy"):
    """The service has as many requests, large bodies or event streams as it allows."""


@contextmanager
def as_bad_input(where: str | None = None, *also: type[Exception]) -> Iterator[None]:
    """Refuse input that the library refuses, with its message; `where` names the field."""
    caught: tuple[type[Exception], ...] = (InvalidInputError, *also)
    try:
        yield
    except RefusedError:
        raise
    except caught as error:
        raise BadInputError(str(error), where=where) from None
