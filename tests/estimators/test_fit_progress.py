"""How far a fit is shows on standard error, where it is asked for."""

import numpy as np
import pytest
from rich.console import Console
from sklearn.linear_model import LogisticRegression

from obil import RatioClassifier
from obil.estimators.fit_progress import fit_progress
from obil.estimators.fit_scorer import N_VIEWS


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    return rng.normal(size=(200, 4)) + labels[:, None], labels


def test_a_ratio_classifier_counts_its_fits_only_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    silent = RatioClassifier(LogisticRegression(), random_state=0).fit(*rows())
    assert capsys.readouterr() == ("", "")
    told = RatioClassifier(LogisticRegression(), random_state=0, verbose=1).fit(*rows())
    shown = capsys.readouterr()
    n_fits = 5 + 5 * N_VIEWS
    assert shown.out == ""
    assert f"Fitting LogisticRegression on 200 rows: 100%, {n_fits} of {n_fits}" in shown.err
    assert shown.err.count("\n") <= 10
    X, _ = rows()
    np.testing.assert_array_equal(silent.log_ratios(X), told.log_ratios(X))


def test_a_refit_is_counted_too(capsys: pytest.CaptureFixture[str]) -> None:
    RatioClassifier(LogisticRegression(), cv=3, ensemble=False, views=False, random_state=0, verbose=1).fit(*rows())
    assert "100%, 4 of 4" in capsys.readouterr().err


def test_a_terminal_gets_a_bar_with_the_rate_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(force_terminal=True, width=120, record=True, stderr=True)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    with fit_progress("Fitting", verbose=1) as show:
        assert show is not None
        show(3, 4)
    text = console.export_text()
    assert "75%" in text
    assert "3 of 4" in text
    assert "s left" in text
