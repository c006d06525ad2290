"""A process that loads and serves networks never imports what trained them."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from obil.datasets.gaussian_stream import GaussianClasses
from obil.serving.files import load, save
from tests.cli.cases import obil
from tests.serving.ensembles import as_model
from tests.serving.test_records import GOLDEN

HEAVY = ("torch", "sklearn", "pandas", "skops", "matplotlib", "onnx", "onnxscript")
WARNINGS = ("-W", "error", "-W", "ignore:the prior stays at the start prior")  # models without views are served too
SERVE = """
    import json, sys
    import numpy as np
    import obil
    model, rows = obil.load(sys.argv[1]), np.load(sys.argv[2])
    online = obil.OnlineClassifier(model)
    decisions = online.decide_many(rows)
    for row in rows[:10]:
        online.decide(row)
    online.predict_proba(rows[:5])
    heavy = sorted({name.split(".")[0] for name in sys.modules} & set(sys.argv[3].split(",")))
    print(json.dumps({"n": len(decisions), "heavy": heavy, "log_ratios": model.log_ratios(rows)[:, 1:].tolist()}))
"""


def served(folder: Path, rows: np.ndarray, tmp_path: Path) -> dict[str, object]:
    """Decide the rows in a fresh interpreter; return how many, what heavy modules it held, and the log ratios."""
    np.save(tmp_path / "rows.npy", rows)
    done = subprocess.run(
        [sys.executable, *WARNINGS, "-c", textwrap.dedent(SERVE), folder, tmp_path / "rows.npy", ",".join(HEAVY)],
        check=True, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    told: dict[str, object] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("fusion", ["dropout", "mean"])
def test_a_network_ensemble_is_served_without_torch_scikit_learn_or_pandas(fusion: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    from obil.estimators.obil_classifier import OBILClassifier

    classes = GaussianClasses.spread(2.5, n_features=3)
    training = classes.draw(np.full(400, 0.2), random_state=0)
    model = OBILClassifier(member="mlp", n_members=2, fusion=fusion, random_state=0)
    model.fit(training.features, training.labels)
    save(model, tmp_path / "model")
    rows = classes.draw(np.full(1_000, 0.1), random_state=1).features
    told = served(tmp_path / "model", rows, tmp_path)
    assert told["heavy"] == []
    assert told["n"] == 1_000
    assert np.array(told["log_ratios"]).tobytes() == load(tmp_path / "model").log_ratios(rows)[:, 1:].tobytes()
    np.testing.assert_allclose(told["log_ratios"], model.log_ratios(rows)[:, 1:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["network_1", "network_1_gated"])
def test_golden_networks_and_trees_are_served_without_what_made_them(name: str, tmp_path: Path) -> None:
    rows = np.column_stack([np.linspace(-3.0, 3.0, 1_000), np.arange(1_000) % 3])
    rows[::7, 0] = np.nan
    told = served(GOLDEN.parent / name, rows, tmp_path)
    assert told["heavy"] == []
    assert told["n"] == 1_000


def test_a_torch_module_is_served_without_torch_or_onnx(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    from obil.serving.networks.onnx_scorer import OnnxScorer
    from tests.serving.torch_networks import exported

    _, network, rows = exported("mlp")
    model = as_model(OnnxScorer(network, "tanh", np.array([0.8, 0.2])))
    save(model, tmp_path / "model")
    told = served(tmp_path / "model", rows, tmp_path)
    assert told["heavy"] == []
    assert told["n"] == len(rows)
    assert np.array(told["log_ratios"]).tobytes() == model.log_ratios(rows)[:, 1:].tobytes()


def test_a_wrapped_estimator_is_loaded_without_torch(tmp_path: Path) -> None:
    """skops imports whatever scikit-learn has that can be imported, and torch with it where it is installed."""
    from sklearn.naive_bayes import GaussianNB

    from obil.estimators.ratio_classifier import RatioClassifier

    training = GaussianClasses.spread(2.5, n_features=3).draw(np.full(200, 0.3), random_state=0)
    save(RatioClassifier(GaussianNB()).fit(training.features, training.labels), tmp_path / "model")
    told = served(tmp_path / "model", training.features, tmp_path)
    assert "skops" in told["heavy"]
    assert "torch" not in told["heavy"]


def test_torch_can_be_imported_after_a_wrapped_estimator_was_written() -> None:
    pytest.importorskip("torch", reason="needs the torch extra")
    program = """
        import sys
        from sklearn.naive_bayes import GaussianNB
        from obil.serving.estimator_file import write_estimator
        write_estimator(GaussianNB().fit([[0.0], [1.0]], [0, 1]))
        assert "torch" not in sys.modules
        import torch
        assert torch.ones(1).item() == 1.0
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


@pytest.mark.parametrize("model", ["hist_gradient_boosting", "logistic", "random_forest", "neural_network"])
def test_a_model_of_obil_fit_decides_without_torch_or_scikit_learn(model: str, tmp_path: Path) -> None:
    import pandas as pd

    rng = np.random.default_rng(0)
    ill = rng.random(400) < 0.3
    age, ward = rng.normal(50 + 9 * ill, 9.0).round(1), rng.choice(list("ABC"), 400)
    table = pd.DataFrame({"age": age, "ward": ward, "ill": np.where(ill, "yes", "no")})
    table.loc[::9, "age"] = np.nan
    table.to_csv(tmp_path / "train.csv", index=False)
    fit = obil("fit", tmp_path / "train.csv", "--target", "ill", "--out", tmp_path / "model", "--model", model)
    assert fit.exit_code == 0, fit.output
    program = """
        import sys
        import obil
        online = obil.OnlineClassifier(obil.load("model"))
        for age in range(500):
            online.decide({"age": float(age % 90), "ward": "ABZ"[age % 3]})
        online.decide_many({"age": [None, 40.0] * 250, "ward": ["A", "unseen"] * 250})
        assert online.n_rows == 1_000
        heavy = {"torch", "sklearn", "skops", "pandas"} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore:the prior stays at the start prior",
            "-c",
            textwrap.dedent(program),
        ],
        check=True,
        cwd=tmp_path,
    )
