"""What deploy/ starts runs as a user without rights on a system that it cannot write to, by bubblewrap."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import obil
from tests.service.models import saved_model

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
USER = 10_001
READ, WRITE = "--ro-bind", "--bind"
SOURCE = Path(obil.__file__).parents[1]
needs_sandbox = pytest.mark.skipif(
    shutil.which("bwrap") is None or (os.geteuid() == 0 and shutil.which("setpriv") is None),
    reason="bubblewrap (or setpriv) is not installed",
)


@dataclass
class Sandbox:
    """A system of its own: programs and the package can be read, some folders can be written to."""

    mounts: Mapping[str, tuple[Path, str]]  # by the place inside
    environment: Mapping[str, str]
    folder: str = "/"

    def command(self, *command: str) -> list[str]:
        """Return a command that runs there as an ordinary user."""
        libraries = [f"/{name}" for name in ("bin", "lib", "lib64", "sbin") if Path(f"/{name}").exists()]
        system = [argument for place in libraries for argument in _link_or_bind(Path(place))]
        readable = {Path("/usr"), Path(sys.base_prefix), Path(sys.prefix), ROOT, SOURCE}
        places = [*map(str, readable), *self.mounts]
        parents = {str(parent) for place in places for parent in Path(place).parents} - {"/"}
        for parent in sorted(parents):  # otherwise they are made for root alone
            system += ["--perms", "0755", "--dir", parent]
        for path in sorted(map(str, readable)):
            system += ["--ro-bind", path, path]
        for inside, (path, how) in self.mounts.items():
            system += [how, str(path), inside]
        variables = [argument for name, value in self.environment.items() for argument in ("--setenv", name, value)]
        rights = ["--unshare-user", "--uid", str(USER), "--gid", str(USER)]
        lower: list[str] = []
        if os.geteuid() == 0:
            rights, lower = [], ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"]
        return [
            "bwrap", "--unshare-pid", "--unshare-ipc", "--die-with-parent", *rights, "--clearenv", *variables,
            "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp", *system, "--chdir", self.folder,
            "--remount-ro", "/", "--", *lower, *command,
        ]  # fmt: skip

    def run(self, *command: str) -> str:
        """Run a command to its end; return what it prints."""
        ran = subprocess.run(self.command(*command), capture_output=True, text=True, check=False, timeout=120)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def _link_or_bind(path: Path) -> list[str]:
    return ["--symlink", str(path.readlink()), str(path)] if path.is_symlink() else ["--ro-bind", *[str(path)] * 2]


def own_folder(path: Path) -> Path:
    """Return a new folder of the service's user."""
    path.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(path, USER, USER)
    return path


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the machine code of this machine as NUMBA_CACHE_DIR would hold it, instead of compiling for a minute."""
    from numba.core.caching import _CacheLocator

    place = tmp_path_factory.mktemp("machine-code")
    for code in SOURCE.rglob("__pycache__/*.nb[ic]"):
        module = re.match(r"(\w+)\.", code.name)
        assert module is not None
        folder = place / _CacheLocator.get_suitable_cache_subpath(str(code.parents[1] / f"{module[1]}.py"))
        folder.mkdir(exist_ok=True)
        shutil.copy2(code, folder)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place


@contextmanager
def started(sandbox: Sandbox, command: Sequence[str], port: int, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a service there, and stop it by a signal; it must end without an error."""
    with log.open("wb") as output:
        process = subprocess.Popen(sandbox.command(*command), stdout=output, stderr=output)
    try:
        until = time.monotonic() + 240.0
        while "obil serves at" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30.0) as answer:
            assert answer.status == 200
        yield process
    finally:
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            for served in Path(f"/proc/{child}/task/{child}/children").read_text().split() or [child]:
                os.kill(int(served), 15)  # what systemd and a container engine send to the service itself
        process.wait(timeout=60.0)


def decided(port: int, key: str) -> int:
    """Return the status of a decision."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = Request(  # a fixed scheme
        f"http://127.0.0.1:{port}/v1/streams/shop/decisions", json.dumps({"row": [0.1, 0.2, 0.3]}).encode(), headers
    )
    try:
        with urlopen(request, timeout=60.0) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@needs_sandbox
@pytest.mark.slow
def test_the_unit_serves_as_a_user_without_rights(tmp_path: Path, compiled: Path) -> None:
    unit = (DEPLOY / "systemd" / "obil.service").read_text()
    entries = re.findall(r"^(\w+)=(.*)$", unit, flags=re.MULTILINE)
    environment = dict(value.split("=", 1) for name, value in entries if name == "Environment")
    port = free_port()
    environment |= {"OBIL_SERVICE_PORT": str(port), "PATH": "/usr/bin:/bin"}  # as /etc/obil/service.env may set it
    state, cache, model = own_folder(tmp_path / "state"), own_folder(tmp_path / "cache"), tmp_path / "model"
    saved_model(model)
    assert [value for name, value in entries if name.endswith("Directory")] == ["obil", "obil"]
    mounts = {
        "/etc/obil/model": (model, READ), "/opt/obil/cache": (compiled, READ),
        "/opt/obil/.venv": (Path(sys.prefix), READ), "/var/lib/obil": (state, WRITE), "/var/cache/obil": (cache, WRITE),
    }  # fmt: skip
    sandbox = Sandbox(mounts, environment)

    for command in [value.lstrip("-") for name, value in entries if name == "ExecStartPre"]:
        sandbox.run(*shlex.split(command))
    assert list(cache.iterdir())
    (start,) = (shlex.split(value) for name, value in entries if name == "ExecStart")
    refused = subprocess.run(sandbox.command(*start), capture_output=True, text=True, check=False, timeout=120)
    assert refused.returncode != 0
    assert "needs an API key" in refused.stderr
    key = sandbox.run(start[0], "keys", "add", "till", "--scope", "decide").split()[-1]
    with started(sandbox, start, port, tmp_path / "log") as process:
        assert decided(port, "wrong") == 401
        assert decided(port, key) == 200
        assert {file.stat().st_mode & 0o777 for file in state.iterdir()} == {0o600}
    assert process.returncode in (0, 128 + 15, -15), (tmp_path / "log").read_text()
    assert "compiling" not in (tmp_path / "log").read_text()
    assert not [name for name, value in entries if name == "User" and value == "root"]


@needs_sandbox
@pytest.mark.slow
def test_the_container_serves_with_a_read_only_system(tmp_path: Path, compiled: Path) -> None:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    environment = dict(re.findall(r"(\w+)=(\S+)", " ".join(re.findall(r"^ENV (.*)$", text, flags=re.MULTILINE))))
    environment["PATH"] = "/opt/obil/bin:/usr/bin:/bin"
    port = free_port()
    environment |= {"OBIL_SERVICE_PORT": str(port), "LANG": "C.UTF-8"}
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, flags=re.MULTILINE)
    (arguments,) = re.findall(r"^CMD (\[.*\])$", text, flags=re.MULTILINE)
    assert f"USER {USER}:{USER}" in text
    data, model = own_folder(tmp_path / "data"), tmp_path / "model"
    saved_model(model)
    script = tmp_path / "start.sh"
    script.write_text((DEPLOY / "start.sh").read_text())
    script.chmod(0o755)  # as the Containerfile does
    mounts = {
        "/opt/obil/bin": (Path(sys.prefix) / "bin", READ), "/opt/obil/start.sh": (script, READ),
        "/opt/obil/cache": (compiled, READ), "/model": (model, READ), "/data": (data, WRITE),
    }  # fmt: skip
    sandbox = Sandbox(mounts, environment, folder="/data")

    key = sandbox.run(*json.loads(entry), "keys", "add", "till", "--scope", "decide").split()[-1]
    with started(sandbox, [*json.loads(entry), *json.loads(arguments)], port, tmp_path / "log"):
        assert decided(port, key) == 200
        assert {file.stat().st_mode & 0o777 for file in data.iterdir()} == {0o600}
    log = (tmp_path / "log").read_text()
    assert "travel in clear text" in log
    assert "compiling" not in log


@needs_sandbox
def test_the_sandbox_keeps_what_it_promises(tmp_path: Path) -> None:
    sandbox = Sandbox({}, {"PATH": "/usr/bin:/bin"})
    assert sandbox.run("id", "-u").strip() == str(USER)
    ran = subprocess.run(
        sandbox.command("touch", f"{ROOT}/by-the-sandbox"), capture_output=True, text=True, check=False
    )
    assert "Read-only file system" in ran.stderr
