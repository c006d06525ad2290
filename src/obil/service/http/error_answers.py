"""Answer every refusal in one shape: a code, the rule that was broken, where, and the request's id."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from obil.errors import InvalidInputError
from obil.service.refusals import RefusedError

REQUEST_ID = "obil.request_id"  # its place in the scope of a request
ERROR_CODE = "obil.error_code"  # there, where a request was refused
_CODES = {404: "not_found", 405: "method_not_allowed"}
_MESSAGES = {404: "there is nothing at this path", 405: "this path does not take that method"}


def error_body(code: str, message: str, where: str | None, request_id: str) -> bytes:
    """Return the body of an answer to a request that was refused."""
    error = {"code": code, "message": message, "where": where, "request_id": request_id}
    # text of the request may stand in it, half surrogate pairs too: ASCII takes them all
    return json.dumps({"error": error}).encode()


def refusal_headers(status: int) -> dict[str, str]:
    """Return the headers that a status asks for."""
    if status == 401:
        return {"www-authenticate": "Bearer"}
    return {"retry-after": "1"} if status == 503 else {}


def install_error_answers(app: FastAPI) -> None:
    """Let an app answer what it refuses, and what the framework refuses, in the one shape."""

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        return _answer(request, error.status, error.code, str(error), error.where, refusal_headers(error.status))

    @app.exception_handler(InvalidInputError)
    async def invalid(request: Request, error: InvalidInputError) -> Response:
        return _answer(request, 422, "bad_input", str(error), None)

    @app.exception_handler(RequestValidationError)
    async def wrong_parameter(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = str(first["loc"][-1])[:128]
        return _answer(request, 422, "bad_input", f"{where}: {first['msg']}", where)

    @app.exception_handler(Exception)  # a bug: the caller learns its request's id and nothing else
    async def failed(request: Request, _error: Exception) -> Response:
        return _answer(request, 500, "internal", "the service has failed", None)

    @app.exception_handler(HTTPException)
    async def no_such_route(request: Request, error: HTTPException) -> Response:
        status = error.status_code
        message = _MESSAGES.get(status, str(error.detail))
        return _answer(request, status, _CODES.get(status, "refused"), message, None, error.headers)


def _answer(
    request: Request,
    status: int,
    code: str,
    message: str,
    where: str | None,
    headers: Mapping[str, Any] | None = None,
) -> Response:
    request.scope[ERROR_CODE] = code
    body = error_body(code, message, where, request.scope.get(REQUEST_ID, ""))
    return Response(body, status, headers, media_type="application/json")
