"""The exported graph gives in ONNX Runtime what the model gives in Python, at any prior."""

import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.version import Version
from sklearn.linear_model import LogisticRegression

from obil import InvalidInputError, RatioClassifier
from tests.test_sql import KINDS, asked_scores, model_of

pytest.importorskip("onnx", reason="needs onnx")
pytest.importorskip("onnxruntime", reason="needs onnxruntime")

import onnxruntime

from obil.onnx import export_posterior


def test_they_are_versions_that_know_the_operators() -> None:
    assert Version(version("onnx")) >= Version("1.16")
    assert Version(version("onnxruntime")) >= Version("1.20")


def found_by(path: Path, scores: list[float], prior: float) -> tuple[Any, Any]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    log_ratio, posterior = session.run(
        ["log_ratio", "posterior"], {"score": np.array(scores), "prior": np.array(prior)}
    )
    return log_ratio, posterior


@pytest.mark.parametrize(("kind", "method"), KINDS)
def test_it_gives_what_python_gives(kind: str, method: str, tmp_path: Path) -> None:
    model, scores = model_of(kind, method), asked_scores(kind)
    export_posterior(model, tmp_path / "fraud.onnx")
    rows = np.array(scores)[:, None]
    for prior in (0.001, 0.02, 0.6):
        log_ratio, posterior = found_by(tmp_path / "fraud.onnx", scores, prior)
        np.testing.assert_allclose(log_ratio, model.log_ratios(rows)[:, 1], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(posterior, model.predict_proba(rows, prior=prior)[:, 1], rtol=1e-9, atol=1e-300)


def test_a_missing_score_and_a_prior_outside_give_no_number(tmp_path: Path) -> None:
    export_posterior(model_of("margin"), tmp_path / "fraud.onnx")
    assert math.isnan(found_by(tmp_path / "fraud.onnx", [math.nan], 0.1)[1][0])
    assert math.isnan(found_by(tmp_path / "fraud.onnx", [0.0], 1.5)[1][0])


def test_a_model_of_columns_is_refused(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(300, 2)), np.arange(300) % 2
    with pytest.raises(InvalidInputError, match="the export needs a model that calibrates one score"):
        export_posterior(RatioClassifier(LogisticRegression(), views=False).fit(X, y), tmp_path / "fraud.onnx")
