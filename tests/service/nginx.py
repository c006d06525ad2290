"""Run nginx with the configuration of deploy/ in front of workers that listen on ports of their own."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "obil.conf"
PATIENCE = 20.0  # seconds
MAIN = """
daemon off;
pid nginx.pid;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path other;
    uwsgi_temp_path other;
    scgi_temp_path other;
    include obil.conf;
}}
"""


def nginx_program() -> str | None:
    """Return the path of nginx, None where it is not installed."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def skip_without_nginx() -> None:
    """Skip a test that needs nginx, with the reason."""
    if nginx_program() is None:
        pytest.skip("nginx is not installed")


def configuration(port: int, workers: Sequence[int], *, rate: int = 500) -> str:
    """Return the configuration of deploy/ for workers at these ports, without TLS, for clients of this machine."""
    text = CONFIGURATION.read_text()
    lines = "".join(f"    server 127.0.0.1:{worker} fail_timeout=2s;\n" for worker in workers)
    changes = {
        r"(    (# )?server 127\.0\.0\.1:\d+ fail_timeout=2s;\n)+": lines,
        r"listen 443 ssl;": f"listen 127.0.0.1:{port};",
        r" *ssl_certificate.*\n": "",
        r"864\[2-9\]": "|".join(map(str, workers)),
        r"allow 10\.0\.0\.0/8;": "allow 127.0.0.1;",
        r"rate=500r/s": f"rate={rate}r/s",
    }
    for pattern, replacement in changes.items():
        text, n_changed = re.subn(pattern, replacement, text)
        assert n_changed, pattern
    return text


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def proxied(folder: Path, workers: Sequence[int], *, rate: int = 500) -> Iterator[str]:
    """Run nginx in front of workers until the end; yields its address."""
    program, port = nginx_program(), free_port()
    assert program is not None
    folder.mkdir()
    (folder / "nginx.conf").write_text(MAIN.format(user="user root;" if os.geteuid() == 0 else ""))
    (folder / "obil.conf").write_text(configuration(port, workers, rate=rate))
    log = folder / "error.log"
    process = subprocess.Popen([program, "-p", str(folder), "-c", "nginx.conf", "-e", str(log)])
    try:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"nginx does not start: {log.read_text()[-2_000:]}") from None
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE)
