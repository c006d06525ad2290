import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_every_test_is_found_or_skipped_where_no_extra_is_installed() -> None:
    """What `make test` begins with on a machine of a newcomer; whole runs have all extras."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.no_extras", "--collect-only", "-q", "-m", "not slow"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]
    assert "needs the torch extra" in done.stdout
    assert "the service needs obil[service]" in done.stdout
