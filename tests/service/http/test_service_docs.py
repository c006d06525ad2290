"""What docs/service.md and deploy/ show runs, and what they name exists."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import obil
from obil.service import refusals
from obil.service.running import open_service
from obil.service.service_settings import ServiceSettings
from obil.serving.ratio_model import RatioModel
from tests.service.conftest import ROW, Served
from tests.service.serving import serving

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "service.md").read_text()
DEPLOY_PAGE = (ROOT / "docs" / "deploy.md").read_text()
JSON_EXAMPLES = re.findall(r"<!-- (\w+) (\S+) -->\n```json\n(.*?)```", PAGE, flags=re.DOTALL)
ADDRESS = "http://127.0.0.1:8642"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, model: RatioModel) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    obil.save(model, folder / "model")
    with serving(open_service(folder / "model", ServiceSettings(store=str(folder / "streams.db")))) as address:
        yield address


def test_every_json_example_is_taken_as_it_stands(served: Served) -> None:
    assert len(JSON_EXAMPLES) >= 5
    for number, (method, path, text) in enumerate(JSON_EXAMPLES):
        # the settings of a stream can only be given to a new one
        name = f"new-{number}" if path.endswith("{stream}") else "shop"
        answer = served.client.request(method, path.replace("{stream}", name), json=json.loads(text))
        assert answer.status_code in {200, 201}, (text, answer.text)
        if path.endswith("labels"):
            assert answer.json()["unknown"] == []


def test_the_decision_and_the_refusal_shown_have_the_fields_of_real_ones(served: Served) -> None:
    shown = [json.loads(text) for text in re.findall(r"(?<!-->\n)```json\n(.*?)```", PAGE, flags=re.DOTALL)]
    decision, refusal = shown
    answer = served.client.post("/v1/streams/shop/decisions", json={"row": ROW})
    assert list(answer.json()["decisions"][0]) == list(decision)
    answer = served.client.post("/v1/streams/shop/decisions", json={"row": ROW | {"amount": "ten"}})
    real = answer.json()
    assert list(real) == list(refusal)
    assert {name: real[name] for name in ("type", "title", "status", "detail", "instance", "code", "where")} == {
        name: refusal[name] for name in ("type", "title", "status", "detail", "instance", "code", "where")
    }


def test_every_route_of_the_service_is_on_the_page(served: Served) -> None:
    documented = served.client.get("/openapi.json").json()["paths"]
    for path, methods in documented.items():
        if not path.startswith(("/v1/", "/v2/")) and path not in {"/healthz", "/readyz", "/metrics"}:
            continue
        for method in methods:
            last = path if path.startswith(("/v1/", "/v2/")) else path[1:]
            assert re.search(rf"`(?:{method.upper()} )?/?{re.escape(last)}[`?]", PAGE), f"{method} {path}"


def test_every_refusal_is_on_the_page_with_its_status() -> None:
    kinds = [
        kind for kind in vars(refusals).values() if isinstance(kind, type) and kind.__module__ == refusals.__name__
    ]
    for kind in kinds:
        if kind is not refusals.RefusedError:
            anchor = f'<a id="{kind.code}"></a>'  # where the type of the problem leads
            assert re.search(rf"^\| {kind.status} \|.*{anchor}`{kind.code}`", PAGE, flags=re.MULTILINE), kind


def test_every_setting_is_on_the_page_with_its_default() -> None:
    for name, field in ServiceSettings.model_fields.items():
        lines = [
            line for line in PAGE.splitlines() if line.startswith("|") and f"`OBIL_SERVICE_{name.upper()}`" in line
        ]
        assert len(lines) == 1, name
        default = field.default
        shown = {None: "none", (): "[]", False: "false"}.get(
            default, f"{default:g}" if type(default) is float else default
        )
        assert str(shown) in lines[0].split("|")[2], name
    for name in re.findall(r"OBIL_SERVICE_([A-Z_]+)", PAGE + DEPLOY_PAGE):
        assert name.lower() in ServiceSettings.model_fields, name


def test_the_python_example_runs(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert ADDRESS in block
    exec(block.replace(ADDRESS, address), {})  # our own docs
    assert "422 bad_input amount" in capsys.readouterr().out


def test_the_plain_http_example_runs(address: str) -> None:
    example = ROOT / "examples" / "service_http.py"
    ran = subprocess.run([sys.executable, str(example), address], capture_output=True, text=True, check=True)
    assert "repeated: True" in ran.stdout
    assert "refused with 422 bad_input" in ran.stdout
    assert "1 rows" in ran.stdout


def commands(page: str) -> list[str]:
    """Return the commands of a page's console blocks; continued lines are joined."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL):
        found += [command.strip() for command in re.split(r"^\$ ", block, flags=re.MULTILINE) if command.strip()]
    return found


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="curl or bash is missing")
def test_the_commands_of_the_page_run_in_an_empty_folder(tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "obil").write_text(f"#!{sys.executable}\nfrom obil.cli.main import app\napp()\n")
    (bin_folder / "obil").chmod(0o755)
    source = str(Path(obil.__file__).parents[1])
    environment = os.environ | {"PATH": f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment |= {"PYTHONPATH": source}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    work = tmp_path / "work"
    work.mkdir()
    service = None
    answers: list[Any] = []
    try:
        for command in commands(PAGE):
            if command.startswith("obil serve "):
                arguments = [*command.removesuffix("&").split(), "--port", port]
                service = subprocess.Popen(arguments, cwd=work, env=environment, stderr=subprocess.PIPE, text=True)
                assert service.stderr is not None
                assert service.stderr.readline().startswith("obil opens model")
                assert f"http://127.0.0.1:{port}/" in service.stderr.readline()
                continue
            ran = subprocess.run(
                ["bash", "-c", command.replace("8642", port)],
                cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=200,
            )  # fmt: skip
            assert ran.returncode == 0, (command, ran.stderr)
            if "curl" in command:
                answers += [line if "text/csv" in command else json.loads(line) for line in ran.stdout.splitlines()]
        assert not any("code" in answer for answer in answers), answers
        first, told, state, history, *table, why, retried, again = answers
        assert first["decisions"][0]["id"] == "order 1"
        assert told["known"] == 1
        assert state["rows"] == 1
        assert history["columns"]["row"] == [1.0]
        assert [line.split(",")[0] for line in table] == ["id", "A-1", "A-2"]
        assert why["decision"] == first["decisions"][0]
        assert (retried["repeated"], again["repeated"]) == (False, True)
        assert retried["decisions"] == again["decisions"]
    finally:
        if service is not None:
            service.terminate()
            deadline = time.monotonic() + 60.0
            while service.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            assert service.stderr is not None
            service.stderr.close()
