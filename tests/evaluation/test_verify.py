"""Verifying takes the user's own labels and ends in a verdict with its reasons."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from obil.calibration.gate import Gate
from obil.errors import InvalidInputError
from obil.evaluation.verify import verify
from tests.calibration.rows import held_out, three_classes

QUICK = Gate(n_simulations=60)


def scores(classes: list[object]) -> SimpleNamespace:
    return SimpleNamespace(classes_=np.array(classes), log_ratios=np.asarray)


def test_the_users_own_labels_are_understood() -> None:
    rows = held_out(2000, 0.1, 0)
    model = scores(["ok", "fraud"])
    verification = verify(model, rows.log_ratios, model.classes_[rows.labels], gate=QUICK)
    assert verification.verdict.decision == "deploy"
    assert verification.diagnosis.holdout.counts.tolist() == rows.counts.tolist()
    text = "\n".join(verification.lines())
    assert f"{rows.counts[1]} fraud" in text
    assert "calibration error at equal class priors" in text
    assert "the ratio is off by up to" in text
    assert verification.verdict.sentence in text
    assert json.loads(json.dumps(verification.to_json(), allow_nan=False))["classes"] == ["ok", "fraud"]


def test_a_biased_model_is_refused_and_the_lines_say_so() -> None:
    rows = held_out(5000, 0.05, 0, bias=2.0)
    verification = verify(scores([0, 1]), rows.log_ratios, rows.labels, gate=QUICK)
    assert verification.verdict.decision == "refuse"
    assert any(line.startswith("Refuse: ") for line in verification.lines())


def test_three_classes_are_verified() -> None:
    rows = three_classes(3000, 0)
    model = scores(["a", "b", "c"])
    lines = verify(model, rows.log_ratios, model.classes_[rows.labels], gate=QUICK).lines()
    assert sum(line.startswith("offset of ") for line in lines) == 2


def test_weights_define_the_population() -> None:
    rows = held_out(2000, 0.1, 0)
    weights = np.where(rows.labels == 1, 0.5, 1.0)
    diagnosis = verify(scores([0, 1]), rows.log_ratios, rows.labels, sample_weight=weights, gate=QUICK).diagnosis
    assert diagnosis.own.prior[1] == pytest.approx(rows.counts[1] / 2 / (rows.counts[0] + rows.counts[1] / 2))


def test_unknown_labels_and_missing_classes_are_refused() -> None:
    rows = [[0.0, 1.0], [0.0, -1.0]]
    with pytest.raises(InvalidInputError, match=r"the classes are .*, got the label 'maybe'"):
        verify(scores(["no", "yes"]), rows, ["no", "maybe"])
    with pytest.raises(InvalidInputError, match=r"every class needs a labelled row, got none of \['yes'\]"):
        verify(scores(["no", "yes"]), rows, ["no", "no"])
    with pytest.raises(InvalidInputError, match="equally long"):
        verify(scores(["no", "yes"]), rows, ["no", "yes", "no"])


def test_a_verification_and_its_verdict_print_as_text_and_escape_html() -> None:
    rows = held_out(2000, 0.1, 0)
    model = scores(["<ok>", "fraud"])
    verification = verify(model, rows.log_ratios, model.classes_[rows.labels], gate=QUICK)
    text = str(verification).splitlines()
    assert text[0] == "Verdict: deploy"
    assert text[1:] == list(verification.lines())
    page = verification._repr_html_()
    assert "&lt;ok&gt;" in page
    assert "<ok>" not in page
    assert str(verification.verdict).splitlines()[:2] == [
        "Verdict: deploy",
        "figure        found  allowed  refused above  chance alone",
    ]
    assert verification.verdict._repr_html_().startswith("<table><caption>Verdict: deploy</caption>")
