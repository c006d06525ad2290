"""Long work says what it does: in place on a terminal, in plain lines elsewhere."""

import sys
from pathlib import Path

import pytest

from obil.cli.progress import show_step, shows_progress, working
from tests.cli.cases import obil


def test_a_step_is_a_plain_line_on_stderr_and_only_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_step("Fitting...")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show_step("Replaying...")
    assert tuple(capsys.readouterr()) == ("", "Fitting...\n")


def test_a_status_shows_on_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with working("Scoring..."):
        assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with working("Scoring..."):
        pass
    assert "Scoring..." in capsys.readouterr().err


def test_fits_are_counted_on_a_terminal_or_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [shows_progress(stated) for stated in (False, True)] == [False, True]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert shows_progress(False)


def test_fit_and_backtest_count_their_fits_and_replays_where_asked_for(here: Path) -> None:
    fit = ["fit", "train.csv", "--target", "ill", "--model", "logistic", "--drop", "score,id,ward", "--out", "other"]
    assert "per minute" not in obil(*fit).stderr
    said = obil(*fit, "--progress").stderr
    assert "100%, 25 of 25" in said  # five folds, and four views of them
    assert "0 s left" in said
    lines = [f"{row},{line}" for row, line in enumerate((here / "train.csv").read_text().splitlines()[1:])]
    (here / "timed.csv").write_text("\n".join(["at,id,size,pulse,ward,ill,score", *lines]))
    backtest = ["backtest", "timed.csv", "--target", "ill", "--time", "at", "--model", "logistic", "--drop", "score,id"]
    said = obil(*backtest, "--progress").stderr
    assert "Replaying 200 rows: 100%, 16 of 16" in said
