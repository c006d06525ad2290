"""Long work says what it does: in place on a terminal, in plain lines elsewhere."""

import sys

import pytest

from obil.cli.progress import show_step, working


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
