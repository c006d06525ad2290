"""A few rounds of `make test-crash`, so that what proves durability does not rot."""

from pathlib import Path

import pytest

from tests.crash.rounds import CrashRounds, run_rounds
from tests.service.models import saved_model
from tests.service.service_process import ServiceLauncher


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_or_doubled_by_kill_9(tmp_path: Path) -> None:
    folder = saved_model(tmp_path / "model")
    launcher = ServiceLauncher(folder, tmp_path)
    try:
        rounds = CrashRounds(launcher, folder, str(tmp_path / "streams.db"), seed=3)
        assert run_rounds(rounds, 3, lambda _line: None) == []
    finally:
        launcher.close()
    assert rounds.counts["kills of a service"] >= 3
    assert rounds.counts["acknowledged decisions"] > 100
    assert rounds.counts["acknowledged erasures"] > 0
    assert rounds.counts["states compared"] == 12
