"""Define why a request is refused, each with its HTTP status.

RefusedError
├── BadInputError         422   a value breaks a rule; names the column or the field
├── NotUnderstoodError    400   the body is not the JSON or CSV that its Content-Type says
├── NoKeyError            401   no API key, or one that is wrong, expired or revoked
├── WrongScopeError       403   the key lacks the scope
├── ForeignHostError      403   the Host or the Origin of the request is not this service's
├── UnknownStreamError    404   no stream has this name
├── UnknownDecisionError  404   no decision has this id
├── TooLargeError         413   the body has more bytes or rows than the service accepts
├── UnsupportedTypeError  415   the service does not read this content type
├── StreamExistsError     409   a stream of this name exists with other settings
├── KeyReusedError        409   the idempotency key was used with another body
├── ModelRefusedError     409   the deployment gate refuses the new model, or it does not fit the streams
├── NotStoredError        503   the store is full or unavailable: nothing was stored, try again
├── ModelChangedError     503   the model was replaced during the request: nothing was stored, try again
└── BusyError             503   as many event streams are open as the service allows
"""

from obil.errors import ObilError


class RefusedError(ObilError):
    """The root: a request that changed nothing."""

    status = 422
    code = "refused"

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where  # the column or field that is wrong, if it is one


class BadInputError(RefusedError):
    """A value breaks the rule that the message states."""

    status, code = 422, "bad_input"


class NotUnderstoodError(RefusedError):
    """The body is not the JSON or CSV that its Content-Type says."""

    status, code = 400, "not_understood"


class NoKeyError(RefusedError):
    """The API key is missing, wrong, expired or revoked."""

    status, code = 401, "no_key"


class WrongScopeError(RefusedError):
    """The key lacks the scope."""

    status, code = 403, "wrong_scope"

    def __init__(self, message: str, *, caller: str) -> None:
        super().__init__(message)
        self.caller = caller  # for the log


class ForeignHostError(RefusedError):
    """The Host or the Origin of the request is not this service's."""

    status, code = 403, "foreign_host"


class UnknownStreamError(RefusedError):
    """No stream has this name."""

    status, code = 404, "unknown_stream"


class UnknownDecisionError(RefusedError):
    """No decision has this id."""

    status, code = 404, "unknown_decision"


class TooLargeError(RefusedError):
    """The body has more bytes or rows than the service accepts."""

    status, code = 413, "too_large"


class UnsupportedTypeError(RefusedError):
    """The service does not read this content type."""

    status, code = 415, "unsupported_type"


class StreamExistsError(RefusedError):
    """A stream of this name exists with other settings."""

    status, code = 409, "stream_exists"


class KeyReusedError(RefusedError):
    """The idempotency key was used with another body."""

    status, code = 409, "key_reused"


class ModelRefusedError(RefusedError):
    """The deployment gate refuses the new model, or it does not fit the streams."""

    status, code = 409, "model_refused"


class NotStoredError(RefusedError):
    """The store is full or unavailable: nothing of this request was stored."""

    status, code = 503, "not_stored"


class ModelChangedError(RefusedError):
    """The model was replaced after the rows were read for it."""

    status, code = 503, "model_changed"


class BusyError(RefusedError):
    """As many event streams are open as the service allows."""

    status, code = 503, "busy"
