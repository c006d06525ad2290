"""Serve the files of the page: read once at start, with an ETag, and nothing else."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page, with the headers it is sent with."""

    content: bytes
    content_type: str

    @property
    def etag(self) -> str:
        """The hash of the content, so that a browser downloads it once."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    def response(self, request: Request) -> Response:
        """Return the file, or 304 if the browser has it already."""
        # files refer to each other without a version: revalidate each time
        headers = {"ETag": self.etag, "Cache-Control": "no-cache"}
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if self.etag in known:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.content_type, headers=headers)


def page_files() -> dict[str, PageFile]:
    """Return all files of the page by their path.

    >>> page_files()["index.html"].content_type
    'text/html; charset=utf-8'
    """
    return dict(_files_of(files("obil.service").joinpath("page"), ""))


def page_routes() -> APIRouter:
    """Return the routes `/` and `/static/...`, with the files read once."""
    router = APIRouter(include_in_schema=False)
    known = page_files()

    @router.api_route("/", methods=["GET", "HEAD"])
    def index(request: Request) -> Response:
        return known["index.html"].response(request)

    @router.api_route("/static/{path:path}", methods=["GET", "HEAD"])
    def static(path: str, request: Request) -> Response:
        # looked up among the known names: no path leads out of the folder
        if path not in known:
            raise HTTPException(404, "the page has no such file")
        return known[path].response(request)

    return router


def _files_of(folder: Traversable, prefix: str) -> Iterator[tuple[str, PageFile]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _files_of(entry, f"{path}/")
        else:
            kind = next((kind for end, kind in CONTENT_TYPES.items() if entry.name.endswith(end)), None)
            if kind is not None:  # what an editor or a file system leaves behind is no part of the page
                yield path, PageFile(entry.read_bytes(), kind)
