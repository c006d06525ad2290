"""The prevalence of a batch comes with an interval that holds the truth and knows the calibrator's doubt."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier
from obil.online.estimate_prior import estimate_prior
from obil.serving.calibrators import Quantity, ScoreMap
from obil.serving.ratio_model import RatioModel
from tests.online.cases import pair_model, pair_scores, pair_stream, triangle_model, triangle_scores


@dataclass(frozen=True)
class Sure:
    """A map that does not doubt itself."""

    own: ScoreMap

    def apply(self, scores: np.ndarray) -> np.ndarray:
        return self.own.apply(scores)

    def variance_of(self, quantity: Quantity) -> np.ndarray:
        return np.zeros_like(quantity(self))

    @property
    def n_classes(self) -> int:
        return self.own.n_classes


def without_doubt(model: RatioModel) -> RatioModel:
    assert model.evidence is not None
    return replace(model, evidence=replace(model.evidence, calibrator=Sure(model.evidence.calibrator)))


@pytest.mark.parametrize("prior", [0.02, 0.1, 0.4])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(prior: float) -> None:
    """40 times 90 %: fewer than 31 happens by chance once in 200; experiments/calibration counts 200."""
    held = 0
    for seed in range(40):
        found = estimate_prior(pair_model(600, seed=seed), pair_scores(1_000, prior, seed=1_000 + seed))
        held += bool(found.interval[1, 0] <= prior <= found.interval[1, 1])
        assert found.n_rows == 1_000
        assert found.interval[1, 0] <= found.prior[1] <= found.interval[1, 1]
    assert held >= 31


@pytest.mark.parametrize("calibration", ["affine", "isotonic"])
def test_the_calibrators_doubt_widens_the_interval(calibration: str) -> None:
    stream = pair_stream(400, 0.2, 0)
    model = RatioClassifier.from_scores(
        stream.log_ratios[:, 1], stream.labels, kind="margin", calibration=calibration, random_state=0
    ).model_
    batch = pair_stream(5_000, 0.1, 1).log_ratios[:, 1]
    whole, rows_alone = estimate_prior(model, batch), estimate_prior(without_doubt(model), batch)
    assert whole.prior.tobytes() == rows_alone.prior.tobytes()
    assert np.ptp(whole.interval[1]) > 1.3 * np.ptp(rows_alone.interval[1])


def test_three_classes_have_an_interval_each() -> None:
    truth = [0.2, 0.3, 0.5]
    model = triangle_model()
    found = estimate_prior(model, triangle_scores(3_000, truth, seed=1), level=0.999)
    assert found.interval.shape == (3, 2)
    assert (found.interval[:, 0] <= truth).all()
    assert (truth <= found.interval[:, 1]).all()
    rows_alone = estimate_prior(without_doubt(model), triangle_scores(3_000, truth, seed=1), level=0.999)
    assert (np.ptp(found.interval, axis=1) > np.ptp(rows_alone.interval, axis=1)).all()


def test_a_higher_level_is_wider() -> None:
    rows = pair_scores(500, 0.1, seed=2)
    widths = [np.ptp(estimate_prior(pair_model(400), rows, level=level).interval[1]) for level in (0.5, 0.9, 0.99)]
    assert widths == sorted(widths)


def test_no_rows_and_no_model_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no rows"):
        estimate_prior(pair_model(400), np.empty(0))
    with pytest.raises(InvalidInputError, match="not fitted"):
        estimate_prior(RatioClassifier(LogisticRegression()), [[0.0]])
