"""Every recipe of the page on integrations runs as it is printed there, against the real library."""

import re
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from packaging.version import Version
from sklearn.linear_model import LogisticRegression

import obil
from obil.trackers import FixedPrior

PAGE = Path(__file__).parent.parent / "docs" / "integrations.md"
LEAST = {"duckdb": "1.1", "polars": "1.20", "pyarrow": "15", "onnx": "1.16", "onnxruntime": "1.20"}


def recipe(heading: str) -> str:
    """Return the Python code below a heading of the page."""
    section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    [found] = [part for part in section if part.splitlines()[0] == heading]
    return "\n".join(re.findall(r"```python\n(.*?)```", found, flags=re.DOTALL))


def run(heading: str, **given: Any) -> dict[str, Any]:
    """Run that code with these names, and return all names after it."""
    names: dict[str, Any] = {"obil": obil, **given}
    exec(compile(recipe(heading), f"docs/integrations.md: {heading}", "exec"), names)
    return names


def needs(*libraries: str) -> None:
    for name in libraries:
        pytest.importorskip(name, reason=f"needs {name}")
        assert Version(version(name)) >= Version(LEAST[name]), f"{name} is too old: {version(name)}"


def rows_of(n_rows: int = 600, *, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n_rows) < 0.3).astype(int)
    return pd.DataFrame({"size": rng.normal(1.5 * labels), "age": rng.normal(-1.0 * labels)}), labels


@pytest.fixture(scope="module")
def model() -> obil.RatioClassifier:
    X, y = rows_of()
    return obil.RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(X, y)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*Inferred schema contains integer")
def test_mlflow(model: obil.RatioClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no database
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    X, _ = rows_of(seed=1)
    table = run("MLflow", model=model, X=X)["table"]
    mlflow.set_tracking_uri(before)
    np.testing.assert_allclose(table["posterior"], model.predict_proba(X, prior=0.02)[:, 1], rtol=1e-12)


def test_river(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("river", reason="needs river")
    X, y = rows_of(3_000)
    dataset = [(x, bool(label)) for x, label in zip(X.to_dict("records"), y, strict=True)]
    assert run("river", dataset=dataset)["model"].prior[True] == pytest.approx(0.3, abs=0.1)
    assert "LogLoss" in capsys.readouterr().out


def test_duckdb(model: obil.RatioClassifier) -> None:
    needs("duckdb", "pyarrow")
    import duckdb

    rows, _ = rows_of(5_000, seed=1)
    with duckdb.connect() as connection:
        connection.register("rows", rows.assign(id=range(len(rows))))
        names = run("DuckDB", model=model, connection=connection)
        found = names["table"].df().sort_values("id")
    np.testing.assert_allclose(found["posterior"], model.predict_proba(rows, prior=0.02)[:, 1], rtol=1e-12)


def test_polars(model: obil.RatioClassifier) -> None:
    needs("polars")
    import polars as pl

    rows, _ = rows_of(1_000, seed=1)
    found = run("polars", model=model, table=pl.from_pandas(rows))["scored"]
    np.testing.assert_allclose(found["posterior"], model.predict_proba(rows, prior=0.02)[:, 1], rtol=1e-12)


def test_scikit_learns_threshold_tools(model: obil.RatioClassifier) -> None:
    X, y = rows_of(seed=1)
    names = run("scikit-learn's thresholds", model=model, X=X, y=y)
    online = obil.OnlineClassifier(
        model,
        costs=obil.Costs(false_positive=1, false_negative=20),
        prior=0.02,
        tracker=FixedPrior(),
        monitor=False,
        horizon=0,
    )
    decided = online.decide_many(X).labels
    assert 0 < decided.sum() < len(decided)
    assert names["fixed"].predict(X).tolist() == decided.tolist()
    assert decided.tolist() != model.predict(X).tolist()


def test_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from tests.test_kafka import Cluster

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    scored = obil.RatioClassifier.from_scores(rng.normal(size=400), rng.integers(2, size=400))
    cluster = Cluster()
    cluster.write([{"row": [0.5], "id": i} for i in range(30)], topic="payments")
    with pytest.warns(UserWarning, match="the prior stays at the start prior"):
        run("Kafka", model=scored, brokers=cluster.config["bootstrap.servers"])
    assert {one["id"] for one in cluster.read()} == set(range(30))


def test_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("onnx", "onnxruntime")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=400), rng.integers(2, size=400)
    scored = obil.RatioClassifier.from_scores(scores, labels)
    found = run("ONNX", model=scored, scores=scores)["posterior"]
    np.testing.assert_allclose(found, scored.predict_proba(scores[:, None], prior=0.02)[:, 1], rtol=1e-9)


class TinyNetwork:
    """Gives logits as a network of transformers does: a tensor in an attribute of what it returns."""

    def __call__(self, size: Any) -> Any:
        import torch

        return SimpleNamespace(logits=torch.stack([torch.zeros_like(size), 2.0 * size, -size], dim=1).bfloat16())


def test_hugging_face_logits() -> None:
    needs_torch = pytest.importorskip("torch", reason="needs torch")
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    size = rng.normal(np.array([0.0, 1.5, -1.5])[y])
    batches = [{"size": needs_torch.tensor(part)} for part in np.array_split(size, 5)]
    names = run("Hugging Face logits", network=TinyNetwork(), held_out=batches, y=y, batch=batches[0])
    posteriors = names["posteriors"]
    assert posteriors.shape == (180, 3)
    assert posteriors[:, 2].mean() < 0.05
    assert names["model"].model_.describe().splitlines()[0].endswith("a margin that another system computed")


def test_verdicts_of_a_language_model() -> None:
    rng = np.random.default_rng(0)
    answers = np.array(["no", "unsure", "yes"])

    def judged(is_harmful: np.ndarray) -> list[str]:
        draws = [rng.choice(answers, p=[0.1, 0.2, 0.7] if one else [0.7, 0.25, 0.05]) for one in is_harmful]
        return [str(one) for one in draws]

    y, new = rng.random(2_000) < 0.3, rng.random(4_000) < 0.05
    names = run("Verdicts of a language model", verdicts=judged(y), y=y, new_verdicts=judged(new))
    estimate = names["estimate"]
    low, high = estimate.interval[1]
    assert low < new.mean() < high
    raw = np.mean([one == "yes" for one in names["new_verdicts"]])
    assert abs(estimate.prior[1] - new.mean()) < abs(raw - new.mean()) / 2.0
    ratios = names["model"].model_.log_ratios(np.array([[0.0], [1.0], [2.0]]))[:, 1]
    np.testing.assert_allclose(ratios, np.log([0.1 / 0.7, 0.2 / 0.25, 0.7 / 0.05]), atol=0.35)
