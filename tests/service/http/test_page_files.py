import pytest

pytest.importorskip("fastapi", reason="the service needs the extra 'service'")
pytest.importorskip("httpx", reason="the page is asked for with httpx (extra 'dev')")

import asyncio
import re
from pathlib import Path

import httpx
from fastapi import FastAPI

import obil.service
from obil.service.http.app import page_files, page_routes

FOLDER = Path(obil.service.__file__).parent / "page"


@pytest.fixture(scope="module")
def ask():
    app = FastAPI()
    app.include_router(page_routes())

    def ask(path, method="GET", **headers):
        async def one():
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client:
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                return await client.request(method, path, headers=named)

        return asyncio.run(one())

    return ask


def test_serves_the_page(ask):
    answer = ask("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.content == (FOLDER / "index.html").read_bytes()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("main.js", "text/javascript; charset=utf-8"),
        ("page.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("uplot/LICENSE", "text/plain; charset=utf-8"),
    ],
)
def test_names_each_kind_of_file_so_that_a_browser_takes_it(ask, path, kind):
    answer = ask(f"/static/{path}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == kind
    assert answer.content == (FOLDER / path).read_bytes()


def test_sends_a_file_once_and_then_304(ask):
    first = ask("/static/main.js")
    again = ask("/static/main.js", If_None_Match=f'"another", W/{first.headers["etag"]}')
    assert again.status_code == 304
    assert again.content == b""
    assert ask("/static/main.js", If_None_Match='"another"').status_code == 200


@pytest.mark.parametrize("path", ["../page_files.py", "..%2fpage_files.py", "%2e%2e/refusals.py", "", "uplot", "no.js"])
def test_leads_to_no_file_outside_the_page(ask, path):
    assert ask(f"/static/{path}").status_code == 404


def test_answers_a_question_for_the_headers_alone(ask):
    answer = ask("/", "HEAD")
    assert answer.status_code == 200
    assert answer.content == b""


def test_every_file_that_a_file_names_is_there():
    known = page_files()
    named = set(re.findall(r'(?:href|src)="/static/([^"]+)"', known["index.html"].content.decode()))
    for path, file in known.items():
        if path.endswith(".js") and "/" not in path:
            named |= set(re.findall(r'from "\./([^"]+)"', file.content.decode()))
    assert named <= set(known)
    ours = {path for path in known if path.endswith((".js", ".css", ".svg"))}
    assert ours <= named, "a file that nothing names is never loaded"


def test_the_page_holds_no_inline_style_or_script():
    text = page_files()["index.html"].content.decode()
    assert not re.search(r"\sstyle=|<style|\son\w+=|<script>", text)
    scripts = [file.content.decode() for path, file in page_files().items() if path.endswith(".js") and "/" not in path]
    assert not [text for text in scripts if re.search(r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(", text)]
