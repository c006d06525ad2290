"""A classifier that is only an ONNX file is calibrated on held-out rows, and served and saved like any other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError, ModelFileError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.online_classifier import OnlineClassifier
from obil.serving.files import load, save
from tests.serving.onnx_models import linear, with_labels, with_zipmap

PAIR = GaussianClasses.spread(2.0, n_features=3)
STREAM = PAIR.draw(np.full(4_000, 0.25), random_state=0)
FRESH = PAIR.draw(np.full(2_000, 0.5), random_state=1)


def written(model: Any, tmp_path: Path) -> Path:
    path = tmp_path / "classifier.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def exact_weights() -> tuple[np.ndarray, np.ndarray]:
    """Return weight (3, 1) and bias (1,) of the exact log ratio, which is linear."""
    ones = np.vstack([np.zeros(3), np.eye(3)])
    values = PAIR.log_ratios(ones)[:, 1]
    return (values[1:] - values[0]).astype(np.float32)[:, None], values[:1].astype(np.float32)


def forms() -> dict[str, Any]:
    """The same classifier, trained at a prior of 1/3 and too confident by half, in every form a file may have."""
    weight, bias = exact_weights()
    weight, bias = 1.5 * weight, 1.5 * bias - np.float32(np.log(2.0))
    both = np.hstack([np.zeros_like(weight), weight]), np.append(np.float32(0.0), bias)
    labelled = with_labels()
    for tensor, values in zip(labelled.graph.initializer, both, strict=True):
        tensor.raw_data = values.astype(np.float32).tobytes()
    return {
        "a logit": linear(weight, bias),
        "two logits": linear(*both),
        "a probability": linear(weight, bias, end="Sigmoid"),
        "two probabilities": linear(*both, end="Softmax"),
        "labels and probabilities": labelled,
    }


@pytest.mark.parametrize("name", forms())
def test_calibrated_ratios_are_the_exact_ones_in_whatever_form_the_file_gives_them(name: str, tmp_path: Path) -> None:
    """4,000 held-out rows leave an offset of about .05 and a slope of about .03."""
    path = written(forms()[name], tmp_path)
    model = RatioClassifier.from_onnx(path, STREAM.features, STREAM.labels)
    kind = "probability" if "probabilit" in name else "margin"
    assert model.model_.scorer.head == kind
    found = model.log_ratios(FRESH.features)[:, 1]
    np.testing.assert_allclose(found, FRESH.log_ratios[:, 1], rtol=0.12, atol=0.25)
    path.unlink()  # the model folder needs it no more
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.log_ratios(FRESH.features).tobytes() == model.log_ratios(FRESH.features).tobytes()
    online = OnlineClassifier(loaded)
    assert online.decide(FRESH.features[0]).label in (0, 1)
    assert model.predict_proba(FRESH.features[:5], prior=0.01).shape == (5, 2)


def test_a_torch_module_that_was_exported_elsewhere_is_calibrated(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    from obil.networks.onnx_export import export_onnx

    weight, bias = exact_weights()
    module = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Sigmoid())
    with torch.no_grad():
        module[0].weight.copy_(torch.from_numpy(weight.T))
        module[0].bias.copy_(torch.from_numpy(bias))
    path = tmp_path / "module.onnx"
    path.write_bytes(export_onnx(module, torch.zeros(2, 3)).content)
    model = RatioClassifier.from_onnx(path, STREAM.features, np.where(STREAM.labels == 1, "fraud", "clean"))
    assert model.classes_.tolist() == ["clean", "fraud"]  # the column is of the second
    assert np.corrcoef(model.log_ratios(FRESH.features)[:, 1], FRESH.log_ratios[:, 1])[0, 1] > 0.99


def test_settings_are_those_of_from_scores(tmp_path: Path) -> None:
    path = written(linear(*exact_weights()), tmp_path)
    model = RatioClassifier.from_onnx(path, STREAM.features, STREAM.labels, calibration="isotonic", random_state=0)
    assert model.model_.calibration == "isotonic"
    with pytest.raises(InvalidInputError, match="probabilit"):
        RatioClassifier.from_onnx(path, STREAM.features, STREAM.labels, kind="probability")
    with pytest.raises(InvalidInputError, match="kind must be"):
        RatioClassifier.from_onnx(path, STREAM.features, STREAM.labels, kind="logit")


def test_what_cannot_be_calibrated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot read"):
        RatioClassifier.from_onnx(tmp_path / "nothing.onnx", STREAM.features, STREAM.labels)
    path = written(with_zipmap(), tmp_path)
    with pytest.raises(ModelFileError, match="without ZipMap"):
        RatioClassifier.from_onnx(path, STREAM.features, STREAM.labels)
    path = written(linear(), tmp_path)
    with pytest.raises(InvalidInputError, match=r"rows must have shape \(n, 3\)"):
        RatioClassifier.from_onnx(path, STREAM.features[:, :2], STREAM.labels)
    with pytest.raises(InvalidInputError, match="1 or 3 columns"):
        RatioClassifier.from_onnx(path, STREAM.features, STREAM.labels + (np.arange(4_000) % 2))
