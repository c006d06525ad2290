"""Say which scope a request needs, from its method and path alone, so that a route added later is closed at first."""

_OPEN = frozenset({"/", "/healthz", "/readyz", "/favicon.ico"})


def needed_scope(method: str, path: str) -> str | None:
    """Return the scope that a request needs, None where it needs no key.

    >>> needed_scope("POST", "/v1/streams/shop/decisions"), needed_scope("GET", "/healthz")
    ('decide', None)
    >>> needed_scope("DELETE", "/v1/streams/shop")
    'admin'
    """
    if method == "POST" and path.startswith("/v1/streams/"):
        if path.endswith("/decisions"):
            return "decide"
        if path.endswith("/labels"):
            return "label"
    if method in ("GET", "HEAD"):
        return None if path in _OPEN or path.startswith("/static/") else "read"
    return "admin"
