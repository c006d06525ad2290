"""Find the data files that some tests need, or say why such a test is skipped."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


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
