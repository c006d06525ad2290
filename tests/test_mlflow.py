"""What MLflow stores and serves decides as the model does, at any prior, and holds no pickle."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from packaging.version import Version
from sklearn.linear_model import LogisticRegression

from obil import Costs, InvalidInputError, ModelFileError, OnlineClassifier, RatioClassifier
from obil.policies import CostPolicy
from obil.trackers import FixedPrior

pytest.importorskip("mlflow", reason="needs mlflow-skinny")
# of files as a store, that an example would be better, and that integers cannot be missing
IGNORED = (":FutureWarning", ".*An input example was not:UserWarning", ".*Inferred schema contains integer:UserWarning")
pytestmark = pytest.mark.filterwarnings(*(f"ignore:{message}" for message in IGNORED))
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import mlflow
from mlflow.exceptions import MlflowException

from obil.mlflow import log_model, save_model


def test_it_is_a_version_that_names_models_and_not_an_old_one_that_pip_fell_back_to() -> None:
    assert Version(version("mlflow-skinny")) >= Version("3.1")
    assert Version(mlflow.__version__) >= Version("3.1")


@pytest.fixture(autouse=True)
def _own_tracking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no database
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    mlflow.set_tracking_uri(before)


def rows_of(n_rows: int = 600, n_classes: int = 2) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(n_classes, size=n_rows) * (rng.random(n_rows) < 0.5)
    return pd.DataFrame({"size": rng.normal(1.5 * labels), "age": rng.normal(-1.0 * labels)}), labels


def model_of(n_classes: int = 2) -> RatioClassifier:
    X, y = rows_of(n_classes=n_classes)
    return RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(X, y)


def decided(model: RatioClassifier, rows: Any, prior: Any, **settings: Any) -> pd.DataFrame:
    settings |= {"tracker": FixedPrior(), "prior": prior, "monitor": False, "horizon": 0}
    return pd.DataFrame(OnlineClassifier(model, **settings).decide_many(rows).columns())


def test_a_logged_model_decides_as_python_does_at_the_prior_of_each_call() -> None:
    model, (rows, _) = model_of(), rows_of()
    costs = CostPolicy(Costs(false_positive=1.0, false_negative=20.0))
    with mlflow.start_run():
        info = log_model(model, "fraud", policy=costs)
    served = mlflow.pyfunc.load_model(info.model_uri)
    for prior in (0.02, 0.6):
        found = served.predict(rows, params={"prior": prior})
        pd.testing.assert_frame_equal(found, decided(model, rows, prior, policy=costs), check_exact=True)
    found = served.predict(rows)
    pd.testing.assert_frame_equal(found, decided(model, rows, model.prior_[1], policy=costs), check_exact=True)
    assert served.metadata.get_params_schema().to_dict()[0]["name"] == "prior"


def test_more_classes_take_a_probability_for_each(tmp_path: Path) -> None:
    model, (rows, _) = model_of(3), rows_of(n_classes=3)
    save_model(model, str(tmp_path / "served"))
    served = mlflow.pyfunc.load_model(str(tmp_path / "served"))
    prior = [0.7, 0.2, 0.1]
    found = served.predict(rows, params={"prior": prior})
    pd.testing.assert_frame_equal(found, decided(model, rows, prior), check_exact=True)
    assert found.columns.tolist()[:3] == ["log_ratio_1", "log_ratio_2", "posterior_0"]
    with pytest.raises(MlflowException, match="must be a 1D array"):
        served.predict(rows, params={"prior": 0.1})


def test_a_prior_that_is_none_is_refused(tmp_path: Path) -> None:
    save_model(model_of(), str(tmp_path / "served"))
    served = mlflow.pyfunc.load_model(str(tmp_path / "served"))
    with pytest.raises(InvalidInputError, match="prior"):
        served.predict(rows_of()[0], params={"prior": 1.5})


def test_nothing_that_is_stored_is_a_pickle(tmp_path: Path) -> None:
    save_model(model_of(), str(tmp_path / "served"))
    stored = [path for path in (tmp_path / "served").rglob("*") if path.is_file()]
    assert {path.suffix for path in stored} <= {"", ".json", ".safetensors", ".skops", ".txt", ".yaml"}
    assert not any(path.read_bytes().startswith(b"\x80") for path in stored)  # as every pickle since protocol 2 does
    described = (tmp_path / "served" / "MLmodel").read_text()
    assert "loader_module: obil.mlflow" in described
    assert "python_model" not in described


def test_a_changed_file_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    save_model(model_of(), str(tmp_path / "served"))
    [arrays] = (tmp_path / "served").rglob("*.safetensors")
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelFileError, match="was changed"):
        mlflow.pyfunc.load_model(str(tmp_path / "served"))


def test_an_example_gives_the_types_of_all_columns(tmp_path: Path) -> None:
    model, (rows, _) = model_of(), rows_of()
    save_model(model, str(tmp_path / "served"), input_example=rows.head(3))
    served = mlflow.pyfunc.load_model(str(tmp_path / "served"))
    assert served.metadata.get_input_schema().input_names() == ["size", "age"]
    assert served.metadata.get_output_schema().input_names() == ["log_ratio", "posterior", "decision"]
    found = served.predict(rows, params={"prior": 0.02})
    pd.testing.assert_frame_equal(found, decided(model, rows, 0.02), check_exact=True)
    with pytest.raises(MlflowException, match="missing inputs"):
        served.predict(rows[["size"]])


def test_the_rule_can_be_another_when_it_is_loaded(tmp_path: Path) -> None:
    model, (rows, _) = model_of(), rows_of()
    save_model(model, str(tmp_path / "served"), policy="f1")
    served = mlflow.pyfunc.load_model(str(tmp_path / "served"), model_config={"policy": "recall:0.9"})
    found = served.predict(rows, params={"prior": 0.02})
    pd.testing.assert_frame_equal(found, decided(model, rows, 0.02, policy="recall:0.9"), check_exact=True)


def test_settings_of_mlflow_are_passed_on_and_a_stream_is_refused() -> None:
    model = model_of()
    with mlflow.start_run():
        info = log_model(model, metadata={"team": "risk"}, registered_model_name="fraud")
    assert info.metadata["team"] == "risk"
    assert mlflow.pyfunc.load_model("models:/fraud/1").predict(rows_of()[0]).shape == (600, 3)
    with pytest.raises(InvalidInputError, match="gives no calibrated log ratios"):
        log_model(OnlineClassifier(model, tracker=FixedPrior()))
