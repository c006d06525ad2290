"""Name why a request is refused, with the HTTP status each has.

RefusedError
├── BadInputError         422   a value breaks a rule; names the column or the field
├── UnknownStreamError    404   no stream has this name
├── StreamExistsError     409   a stream of this name has other settings
├── KeyReusedError        409   an idempotency key came with another body
├── ModelRefusedError     409   the gate refuses the new model, or it does not fit the streams
└── NotStoredError        503   the store is full or lost: nothing of this request was kept, try again
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


class UnknownStreamError(RefusedError):
    """No stream has this name."""

    status, code = 404, "unknown_stream"


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
