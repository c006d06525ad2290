"""A package that cannot write beside itself, for a user without a home, still imports and tracks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import obil

CHECK = """
import os, pathlib
import obil
folder = pathlib.Path(obil.__file__).parent
assert str(folder).startswith(os.environ["COPY"]), folder
for place in (folder, folder / "trackers", pathlib.Path.home()):
    try:
        (place / "probe").write_text("x")
    except OSError:
        continue
    raise SystemExit(f"could write to {place}: this run proves nothing")
from obil.trackers import OnlineEM  # the smallest kernel: it is compiled here, and thrown away
tracker = OnlineEM(.05)
tracker.update_many([[0.0, -3.0]] * 50)
assert 0.0 < tracker.prior[1] < 0.05, tracker.prior
print("tracked")
"""


def without_override() -> list[str]:
    """Return the command that makes root obey permissions, or nothing for an ordinary user."""
    if os.geteuid() != 0:
        return []
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    try:
        subprocess.run([*command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"root overrides permissions, and setpriv cannot drop that here: {error}")
    return command


def test_a_read_only_install_without_a_home_imports_and_tracks(tmp_path: Path) -> None:
    command = without_override()
    home = tmp_path / "home"
    home.mkdir()
    copy = tmp_path / "site" / "obil"
    shutil.copytree(Path(obil.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    for path in tmp_path.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    dropped = ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {
        "HOME": str(home),
        "COPY": str(copy),
        "PYTHONPATH": str(copy.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        ran = subprocess.run(
            [*command, sys.executable, "-c", CHECK],
            check=False,
            capture_output=True,
            text=True,
            env=environment,
            cwd=home,
        )
    finally:
        for path in folders:  # so that pytest can clean up
            path.chmod(0o755)
    assert ran.returncode == 0, ran.stderr[-2000:] + ran.stdout
    assert ran.stdout.strip() == "tracked"
