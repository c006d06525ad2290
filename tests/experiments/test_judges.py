"""The experiment on judges compares with intervals that are what their names say."""

import numpy as np
import pytest
from scipy.optimize import minimize

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
from experiments import judges
from experiments.judge_intervals import (
    Counts,
    integrated,
    maximum_likelihood,
    ppi,
    ppi_plus_plus,
    profile_likelihood,
    rogan_gladen,
    rogan_gladen_exact,
)
from obil import prevalence_from_judge

# true positive, false negative, false positive, true negative; judged positive, judged negative
SAMPLES = Counts(*np.array([[8, 2, 3, 15, 80, 168], [1, 1, 0, 26, 20, 228], [9, 8, 5, 6, 120, 128]]).T)
LARGE = Counts(
    *(10_000 * np.array([[40, 10, 10, 40, 260, 240]]).T)
)  # prevalence .533 of the judged, .5 of the labelled


def raw(counts: Counts, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Verdicts of the judged items, verdicts and truth of the labelled ones."""
    own = [int(count[row]) for count in counts]
    seen, labels = np.repeat([1, 0, 1, 0], own[:4]), np.repeat([1, 1, 0, 0], own[:4])
    return np.repeat([1, 0], own[4:]), seen, labels


@pytest.mark.parametrize("random_sample", [False, True])
def test_ours_is_the_public_function(random_sample: bool) -> None:
    low, high = integrated(SAMPLES, level=0.9, random_sample=random_sample)
    for row in range(3):
        found = prevalence_from_judge(*raw(SAMPLES, row), random_sample=random_sample)
        np.testing.assert_allclose(found.interval[1], [low[row], high[row]], atol=1e-9)


@pytest.mark.parametrize("in_logit", [False, True])
@pytest.mark.parametrize("weight", [1.0, None])
def test_prediction_powered_intervals_are_those_of_the_items_themselves(weight: float | None, in_logit: bool) -> None:
    low, high = (ppi if weight else ppi_plus_plus)(SAMPLES, level=0.9, in_logit=in_logit)
    for row in (0, 2):
        judged, seen, labels = raw(SAMPLES, row)
        n, n_judged = len(labels), len(judged)
        tuned = np.cov(labels, seen)[0, 1] / (seen.var(ddof=1) + n / n_judged * judged.var(ddof=1))
        at = weight or tuned
        centre = labels.mean() + at * (judged.mean() - seen.mean())
        variance = (labels - at * seen).var(ddof=1) / n + at**2 * judged.var(ddof=1) / n_judged
        half = 1.6448536 * np.sqrt(variance)
        wanted = centre + np.array([-half, half])
        if in_logit:
            logits = np.log(centre / (1.0 - centre)) + np.array([-half, half]) / (centre * (1.0 - centre))
            wanted = 1.0 / (1.0 + np.exp(-logits))
        np.testing.assert_allclose([low[row], high[row]], np.clip(wanted, 0.0, 1.0), atol=1e-6)


@pytest.mark.parametrize("random_sample", [False, True])
def test_the_ends_of_a_profile_interval_are_where_the_likelihood_has_fallen_by_as_much(random_sample: bool) -> None:
    sample = Counts(*np.array([[9, 1, 1, 17, 110, 138]]).T)
    low, high = profile_likelihood(sample, level=0.9, random_sample=random_sample)
    counts = np.array(sample, dtype=float)[:, 0]

    def log_likelihood(prevalence: float, sensitivity: float, alarm_rate: float) -> float:
        rate = prevalence * sensitivity + (1.0 - prevalence) * alarm_rate
        logs = np.log([sensitivity, 1 - sensitivity, alarm_rate, 1 - alarm_rate, rate, 1 - rate])
        labelled = 10 * np.log(prevalence) + 18 * np.log(1.0 - prevalence) if random_sample else 0.0
        return float(counts @ logs + labelled)

    def profile(prevalence: float) -> float:
        bounds = [(1e-6, 1 - 1e-6)] * 2
        return -minimize(lambda at: -log_likelihood(prevalence, *at), [0.7, 0.3], bounds=bounds, tol=1e-12).fun

    best = max(profile(prevalence) for prevalence in np.linspace(0.05, 0.95, 181))
    for end in (low[0], high[0]):
        assert best - profile(end) == pytest.approx(2.7055 / 2.0, abs=0.02)


def test_with_many_labels_all_agree_with_what_they_estimate() -> None:
    """Sensitivity and specificity .8, a rate of .52: (.52 + .8 - 1) / .6 by the verdicts, and .5 by the labels."""
    for found in (
        rogan_gladen(LARGE, level=0.9),
        rogan_gladen_exact(LARGE, level=0.9),
        profile_likelihood(LARGE, level=0.9, random_sample=False),
    ):
        assert found[0][0] < 0.32 / 0.6 < found[1][0]
        assert found[1][0] - found[0][0] < 0.02
    sure = 0.5 + 0.6 * (0.52 * 500 + 0.5 * 100) / 600 - 0.3  # strata at the rate of all items
    low, high = maximum_likelihood(LARGE, level=0.9)
    assert low[0] < sure < high[0]
    assert ppi_plus_plus(LARGE, level=0.9)[0][0] < sure < ppi_plus_plus(LARGE, level=0.9)[1][0]


def test_a_judge_that_may_be_no_better_than_chance_leaves_everything_possible() -> None:
    low, high = rogan_gladen_exact(SAMPLES, level=0.9)
    assert (low[2], high[2]) == (0.0, 1.0)
    none = Counts(*np.array([[0, 0, 3, 25, 100, 148]]).T)  # no positive item is labelled
    for low, high in (rogan_gladen_exact(none, level=0.9), profile_likelihood(none, level=0.9, random_sample=False)):
        assert high[0] == 1.0
        assert low[0] < 0.3


def test_a_cell_counts_how_often_the_truth_is_inside() -> None:
    """400 samples of 90 %: below .85 by chance once in 2,000."""
    settings = {"n_items": 276, "n_labels": 28, "level": 0.9, "n_samples": 400, "enough": 0.88}
    cell = {"kind": "same", "judge": [0.8, 0.9], "prevalence": 0.3, "labelled": 0.3}
    result = judges.run(cell, settings)
    assert set(result["methods"]) == set(judges.METHODS)
    coverage, width = result["methods"]["integrated"]
    assert 0.85 < coverage < 0.96
    assert 0.15 < width < 0.3
    assert judges.run(cell, settings) == result
    found = judges.figures([(cell, result)], settings)
    assert found["same.integrated.least"] == coverage == found["same.0.8_0.9.0.3_0.3.integrated.coverage"]
    assert found["same.integrated.against_exact"] < 0.5
    shifted = judges.run(cell | {"kind": "shifted", "labelled": 0.9}, settings)
    assert shifted["methods"]["ppi"][0] < 0.5 < 0.85 < shifted["methods"]["integrated"][0]


def test_the_real_files_are_drawn_from_where_they_are_at_hand(data_file) -> None:
    data_file("judges/llm_judges.csv")
    settings = {"n_items": 276, "n_labels": 28, "level": 0.9, "n_real_samples": 100}
    cells = judges.cells(settings | {"judges": [], "prevalences": [], "shifted": []})
    assert len(cells) == 3 * 3 + 3 * 2 * 2
    result = judges.run(cells[0], settings)
    assert result["about"]["prevalence"] == pytest.approx(133 / 325)
    assert result["methods"]["integrated"][0] > 0.75
    fused = judges.run({"kind": "fused", "file": cells[0]["file"]}, settings)
    assert set(fused["methods"]) == {"integrated"}
