"""Name why a request is refused, with the HTTP status each has.

RefusedError
├── BadInputError         422   a value breaks a rule; names the column or the field
├── NotUnderstoodError    400   the body is not JSON, or not CSV, as it says it is
├── NoKeyError            401   no API key, or one that is wrong, expired or revoked
├── WrongScopeError       403   the key may not do this
├── ForeignHostError      403   the Host or the Origin of the request is not this service's
├── UnknownStreamError    404   no stream has this name
├── UnknownDecisionError  404   nothing is kept under this id
├── TooLargeError         413   the body has more bytes, or more rows, than the service takes
├── UnsupportedTypeError  415   the body is of a type that is not read here
├── StreamExistsError     409   a stream of this name has other settings
├── KeyReusedError        409   an idempotency key came with another body
├── ModelRefusedError     409   the gate refuses the new model, or it does not fit the streams
├── NotStoredError        503   the store is full or lost: nothing of this request was kept, try again
├── ModelChangedError     503   another model took over while the rows were on their way: nothing was kept, try again
└── BusyError             503   as many watch the events as the service lets
"""

from obil.errors import ObilError


class RefusedError(ObilError):
    """The root: a request that changed nothing."""

    status = 422
    code = "refused"

    def __init__(self, message: str, *, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where  # the column or field, where one is to blame


class BadInputError(RefusedError):
    """A value breaks the rule that the message states."""

    status, code = 422, "bad_input"


class NotUnderstoodError(RefusedError):
    """The body is not JSON, or not CSV, as it says it is."""

    status, code = 400, "not_understood"


class NoKeyError(RefusedError):
    """No API key came, or one that is wrong, expired or revoked."""

    status, code = 401, "no_key"


class WrongScopeError(RefusedError):
    """The key may not do this."""

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
    """Nothing is kept under this id."""

    status, code = 404, "unknown_decision"


class TooLargeError(RefusedError):
    """The body has more bytes, or more rows, than the service takes."""

    status, code = 413, "too_large"


class UnsupportedTypeError(RefusedError):
    """The body is of a type that is not read here."""

    status, code = 415, "unsupported_type"


class StreamExistsError(RefusedError):
    """A stream of this name has other settings."""

    status, code = 409, "stream_exists"


class KeyReusedError(RefusedError):
    """An idempotency key came before, with another body."""

    status, code = 409, "key_reused"


class ModelRefusedError(RefusedError):
    """The gate refuses the new model, or it does not fit the streams."""

    status, code = 409, "model_refused"


class NotStoredError(RefusedError):
    """The store is full or lost: nothing of this request was kept."""

    status, code = 503, "not_stored"


class ModelChangedError(RefusedError):
    """Rows were read for a model that another one has replaced since."""

    status, code = 503, "model_changed"


class BusyError(RefusedError):
    """As many watch the events as the service lets."""

    status, code = 503, "busy"
