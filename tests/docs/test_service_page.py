"""The page on the service, docs/service.md, runs from its first command to its last against a real server."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import tests.docs.blocks as pages

PAGE = "docs/service.md"
PORT = 8642  # that the page names
# an answer that is an error fails; the server needs a moment to start, a minute or two where it compiles
PATIENT = "--fail-with-body --retry 200 --retry-delay 1 --retry-connrefused"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def script_of(port: int) -> str:
    """Return the blocks of the page, in their order, as one script that stops at the first failure."""
    parts = ["set -euo pipefail"]
    for block in pages.blocks_of(PAGE, "console", "python"):
        if block.not_run is not None:
            continue
        if block.language == "python":
            parts.append(f"python <<'END_OF_BLOCK'\n{block.code}END_OF_BLOCK")
        else:
            code = "\n".join(line.removeprefix("$ ") for line in block.code.splitlines())
            parts.append(code.replace("curl -s", f"curl -s {PATIENT}"))
    script = "\n".join(parts)
    assert "obil serve model/ " in script
    return script.replace("obil serve model/ ", f"obil serve model/ --port {port} ").replace(f":{PORT}", f":{port}")


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    if not find_spec("fastapi"):
        pytest.skip("needs obil[service]")
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("needs curl and bash")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    said = tmp_path / "said.txt"
    with said.open("w") as out:
        shell = subprocess.Popen(
            ["bash", "-c", script_of(free_port())],
            cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = shell.wait(timeout=280)
        finally:
            os.killpg(shell.pid, signal.SIGTERM)  # the server, too
    text = said.read_text()
    assert code == 0, text
    assert '"id":"order 1"' in text.replace(": ", ":"), text
