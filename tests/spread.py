"""Spread the tests over workers: a file stays on one, its fixtures are made once; files that take long come first."""

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

# what starts a Java machine shares one; what takes longest must not be begun last
LONGEST_FIRST = (
    "tests/spark/",
    "tests/estimators/",
    "tests/experiments/",
    "tests/service/",
    "tests/cli/",
    "tests/monitor/",
    "tests/online/",
    "tests/evaluation/",
    "tests/",
)
TOGETHER = ("tests/spark/",)


class FileScheduling(LoadFileScheduling):
    """Hands a worker that is done the next file of the longest folder."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # not by the number of tests in a file: it says little about the time

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))


def rank(nodeid: str) -> int:
    """Return when a test is to be begun: the lower, the earlier."""
    folders = [number for number, folder in enumerate(LONGEST_FIRST) if nodeid.startswith(folder)]
    return folders[0] if folders else len(LONGEST_FIRST)
