"""Answer every refusal with problem details (RFC 9457)."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import Scope

from obil.errors import InvalidInputError
from obil.service.refusals import RefusedError

REQUEST_ID = "obil.request_id"  # its key in the scope of a request
ERROR_CODE = "obil.error_code"  # there, once a request is refused
CONTENT_TYPE = "application/problem+json"
TYPES = "https://github.com/obil/obil/blob/main/docs/service.md#"  # followed by the code
_IN_PATHS = "/%:@!$&'()*+,;=-._~"  # RFC 3986
_HEADERS = {
    "malformed": {"connection": "close"},  # what follows on this connection may not be a request
    "no_key": {"www-authenticate": "Bearer"},
    "too_slow": {"connection": "close"},
    "unsupported_type": {"accept-encoding": "identity"},
    **{code: {"retry-after": "1"} for code in ("too_many_requests", "not_stored", "busy", "model_changed")},
}
_NO_ROUTE = {
    404: ("not_found", "there is nothing at this path"),
    405: ("method_not_allowed", "this path does not take that method"),
}


class Problem(BaseModel):
    """Why a request was refused, as problem details (RFC 9457)."""

    type: str = Field(
        description="What kind of problem it is; the page says more.",
        json_schema_extra={"format": "uri-reference"},
        examples=[f"{TYPES}bad_input"],
    )
    title: str = Field(description="The same for each problem of a type.", examples=["Bad input"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["column 'amount' must hold a number, got 'ten' in row 0"])
    instance: str | None = Field(
        description="The path of the request; null if none was read.",
        json_schema_extra={"format": "uri-reference"},
        examples=["/v1/streams/shop-7/decisions"],
    )
    code: str = Field(description="The last part of the type.", examples=["bad_input"])
    where: str | None = Field(description="The column or field that is wrong, if it is one.", examples=["amount"])
    request_id: str | None = Field(description="As in the log of the service.")


def refusal(scope: Scope, error: Exception) -> Response:
    """Return the response to a request that the service or the framework refuses."""
    status, code, detail, where = 422, "bad_input", str(error), getattr(error, "where", None)
    headers: Mapping[str, str] | None = None
    if isinstance(error, RefusedError):
        status, code, headers = error.status, error.code, _HEADERS.get(error.code)
    elif isinstance(error, RequestValidationError):
        first = error.errors()[0]
        where = str(first["loc"][-1])[:128]
        detail = f"{where}: {first['msg']}"
    elif isinstance(error, HTTPException):
        status, headers = error.status_code, error.headers
        code, detail = _NO_ROUTE.get(status, ("refused", str(error.detail)))
    elif not isinstance(error, InvalidInputError):  # a bug: the caller gets the request's id and nothing else
        status, code, detail, where = 500, "internal", "the service has failed", None
    scope[ERROR_CODE] = code
    path = scope.get("raw_path") or scope["path"].encode(errors="replace")
    instance = quote(path.partition(b"?")[0], safe=_IN_PATHS)
    for_v2 = detail if scope["path"].startswith("/v2/") else None  # the Open Inference Protocol reads this member
    body = _body(status, code, detail, instance=instance, where=where, request_id=scope.get(REQUEST_ID), error=for_v2)
    return Response(body, status, headers, media_type=CONTENT_TYPE)


def refusal_body(error: RefusedError) -> bytes:
    """Return the body of the response to what never became a request."""
    return _body(error.status, error.code, str(error))


def _body(status: int, code: str, detail: str, **known: str | None) -> bytes:
    problem: dict[str, Any] = {
        "type": f"{TYPES}{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": detail,
        "instance": known.get("instance"),
        "code": code,
        "where": known.get("where"),
        "request_id": known.get("request_id"),
    }
    if known.get("error") is not None:
        problem["error"] = known["error"]
    # the detail may quote the request, unpaired surrogates included: ASCII can hold them all
    return json.dumps(problem).encode()


def install_error_responses(app: FastAPI) -> None:
    """Answer everything that the app or the framework refuses in the one form."""

    async def refused(request: Request, error: Exception) -> Response:
        return refusal(request.scope, error)

    for kind in (RefusedError, InvalidInputError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, refused)
