"""Lead the busiest requests straight to their endpoints, past the work that the framework does for others."""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

Endpoint = Callable[[Request], Awaitable[Response]]


class StraightRoute(NamedTuple):
    """A POST route whose endpoint reads the request itself: nothing is resolved, validated or opened for it."""

    path: str  # as the document has it: /v1/streams/{stream}/decisions
    endpoint: Endpoint


class StraightRoutes:
    """Knows the busiest paths, all of the form /v1/streams/{stream}/word."""

    def __init__(self, routers: Iterable[APIRouter], paths: Iterable[str]) -> None:
        wanted = {path: path.rpartition("/")[2] for path in paths}
        self._by_word = {
            wanted[route.path]: StraightRoute(route.path, route.endpoint)
            for router in routers
            for route in router.routes
            if isinstance(route, APIRoute) and route.path in wanted and route.methods == {"POST"}
        }
        self._form = re.compile(rf"/v1/streams/([^/]+)/({'|'.join(map(re.escape, self._by_word)) or '(?!)'})")

    def find(self, method: str, path: str) -> tuple[StraightRoute, str] | None:
        """Return the route of a request and the stream in its path, if it is one of the busiest."""
        found = self._form.fullmatch(path) if method == "POST" else None
        return None if found is None else (self._by_word[found[2]], found[1])
