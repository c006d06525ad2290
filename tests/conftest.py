"""Settings of all tests, and the data files that some of them need."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# a shared machine can be slow at any moment, so no example fails for taking long; continuous integration
# replays the same examples each time, everywhere else new ones are tried
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture
def data_file() -> Callable[[str], Path]:
    """Return the path of a file in the folder that OBIL_DATA names; skip the test where it is absent."""

    def find(name: str) -> Path:
        folder = os.environ.get("OBIL_DATA")
        if not folder:
            pytest.skip(f"needs {name}: OBIL_DATA names no folder")
        path = Path(folder) / name
        if not path.is_file():
            pytest.skip(f"needs {name}, which is not in {folder}")
        return path

    return find
