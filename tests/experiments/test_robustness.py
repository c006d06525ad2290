"""The stresses do what they say: noise of the stated size, faults of the stated error, crossings where they are."""

import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
from experiments import robustness, robustness_page, robustness_plots
from experiments.plots import style
from experiments.stress import contest, drift, miscalibration, noise
from obil.datasets.gaussian_stream import GaussianClasses
from obil.datasets.named_set import load_named
from obil.errors import InvalidInputError
from obil.estimators.ratio_classifier import RatioClassifier


def settings() -> dict[str, Any]:
    config = tomllib.loads(Path(robustness.__file__).with_suffix(".toml").read_text())
    return config["settings"] | config["quick"]


def test_the_spread_is_that_within_a_class_and_codes_have_none() -> None:
    rows = np.array([[0.0, 0.0], [2.0, 1.0], [10.0, 0.0], [np.nan, 1.0], [14.0, 0.0]])
    labels = np.array([0, 0, 1, 1, 1])
    np.testing.assert_allclose(contest.within_class_spread(rows, labels), [np.sqrt(0.4 * 1.0 + 0.6 * 4.0), 0.0])


def test_f1_is_that_of_a_count() -> None:
    assert contest.f1(np.array([True, True, True, False]), np.array([1, 1, 0, 1])) == pytest.approx(4.0 / 6.0)
    assert contest.f1(np.zeros(3, dtype=bool), np.array([1, 0, 0])) == 0.0


def test_a_crossing_lies_between_the_steps_or_at_the_start_or_nowhere() -> None:
    x = [0.02, 0.1, 0.3]
    assert robustness.first_crossing(x, np.array([0.2, 0.1, -0.1])) == pytest.approx(0.2)
    assert robustness.first_crossing(x, np.array([-0.1, 0.1, 0.2])) == 0.0
    assert robustness.first_crossing(x, np.array([0.1, 0.0, 0.2])) is None


@pytest.fixture(scope="module")
def model() -> RatioClassifier:
    stream = GaussianClasses.pair(2.0).draw(np.full(4_000, 0.1), random_state=0)
    return RatioClassifier(LogisticRegression(), random_state=0).fit(stream.features, stream.labels)


def test_the_smallest_fault_that_reaches_an_error_is_taken(model: RatioClassifier) -> None:
    own = settings() | {"targets": [0.1, 0.3]}
    faults = miscalibration.faults_of(model.holdout_, own)
    for family in ("too high", "too low", "too unsure"):
        errors = [
            miscalibration.balanced_error(miscalibration.distorted(model.model_, f).holdout_) for f in faults[family]
        ]
        assert errors[0] < 0.05
        np.testing.assert_allclose(errors[1:], [0.1, 0.3], atol=0.03)
    assert faults["too high"][1].shift > 0.0 > faults["too low"][1].shift
    assert faults["too unsure"][1].slope < 1.0 < faults["too sure"][1].slope


def test_a_distorted_model_scores_as_its_held_out_rows_say(model: RatioClassifier) -> None:
    fault = miscalibration.Fault(slope=0.5, shift=1.0)
    wrong, rows = miscalibration.distorted(model.model_, fault), np.array([[0.0], [1.0], [3.0]])
    np.testing.assert_allclose(wrong.log_ratios(rows), fault.of(model.model_.log_ratios(rows)))
    np.testing.assert_allclose(wrong.holdout_.log_ratios[:, 1], 0.5 * model.holdout_.log_ratios[:, 1] + 1.0)
    n_sources = 1 + model.model_.n_views  # inputs, which stand after them, are no log ratios
    scored, before = wrong.score(rows).evidence, model.model_.score(rows).evidence
    np.testing.assert_allclose(scored[:, :, :n_sources], fault.of(before[:, :, :n_sources]))
    np.testing.assert_array_equal(scored[:, :, n_sources:], before[:, :, n_sources:])
    right, own = model.model_.evidence_holdout, wrong.evidence_holdout
    np.testing.assert_allclose(own.log_ratios, fault.of(right.log_ratios))


def test_with_a_calibrated_model_the_true_prior_is_hard_to_beat(model: RatioClassifier) -> None:
    stream = GaussianClasses.pair(2.0).draw(np.full(5_000, 0.4), random_state=1)
    scores = model.model_.score(stream.features)
    arrivals = contest.Arrivals(scores.log_ratios, scores.evidence_from(0), stream.labels, 0.4)
    found = contest.scores_of_methods(model.model_, arrivals)
    assert set(found) == set(contest.METHODS) - {"SMOTE"}
    assert found["true prior"] > found["training prior"] + 0.02
    assert found["bank"] == pytest.approx(found["true prior"], abs=0.01)


def test_a_prior_that_hardly_moves_is_tracked_and_one_that_races_is_not() -> None:
    found = drift.run({"part": "drift", "seed": 0}, settings())
    assert set(found["0.001"]) == set(drift.TRACKERS)
    assert {*contest.METHODS, *drift.TRACKERS} == set(robustness_plots.LOOK)
    assert found["0.001"]["bank"] < found["0.001"]["mean of the path"]
    assert found["0.1"]["mean of the path"] < min(
        found["0.1"][name] for name in drift.TRACKERS if name != "mean of the path"
    )


def both_sets() -> dict[str, Any]:
    """Return settings with two sets, one of which the paper's ensemble has as well."""
    return settings() | {"sets": ["mammography", "sick_euthyroid"], "paper_sets": ["mammography"], "splits": 2}


def at_both(own: dict[str, Any], **values: float) -> dict[str, float]:
    """Measures named as `means_at` names them, the same at every factor: .5 where nothing else is said."""
    measures = dict.fromkeys(contest.METHODS, 0.5) | values
    return {f"{factor:g}/{name}": value for factor in own["factors"] for name, value in measures.items()}


def made_up(own: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Two splits of two sets, and two paths: noise lowers the bank at Qp/4 alone, faults raise BBSE.

    The paper's ensemble has one set, and .2 less of F1 under noise.
    """
    alarms = dict.fromkeys(robustness_page.ALARMS.values(), 1.0)
    results: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for split, name in product(range(2), own["sets"]):
        noisy = {
            f"{size:g}": at_both(own, **alarms) | {"0.25/bank": 0.8 - 0.1 * size + 0.02 * split}
            for size in own["noise"]
        }
        shared = dict.fromkeys(miscalibration.VERDICTS, 0.25) | {"slope": 1.0, "shift": 0.0}
        faults = {
            f"{family}/{step}": at_both(own, BBSE=0.4 + 0.2 * step) | shared | {"ece": 0.02 + 0.1 * step}
            for family in miscalibration.FAMILIES
            for step in range(2)
        }
        for model, sets in ((contest.BOOSTING, own["sets"]), (contest.PAPER, own["paper_sets"])):
            lower = 0.2 if model == contest.PAPER else 0.0
            if name in sets:
                of = {"set": name, "split": split, "model": model}
                weaker = {level: {key: value - lower for key, value in at.items()} for level, at in noisy.items()}
                results += [({"part": "noise"} | of, weaker), ({"part": "miscalibration"} | of, faults)]
    for seed in range(2):
        costs = {f"{d:g}": dict.fromkeys(drift.TRACKERS, 3.0 + seed) for d in own["drifts"]}
        results.append(({"part": "drift", "seed": seed}, costs))
    return results


def test_factors_stay_apart_and_every_mean_has_the_spread_of_its_runs() -> None:
    own = both_sets()
    figures = robustness.figures(made_up(own), own)
    assert figures["noise/mammography/0/0.25/bank"] == pytest.approx(0.81)
    assert figures["noise/mammography/0/4/bank"] == 0.5
    assert figures["sd noise/mammography/0/0.25/bank"] == pytest.approx(np.std([0.8, 0.82], ddof=1))
    assert figures["sd drift/0.01/bank"] == pytest.approx(np.std([3.0, 4.0], ddof=1))
    assert figures["sd miscalibration/too low/1/4/BBSE"] == pytest.approx(0.0)
    # the paper's three claims: F1 lost at noise up to .2, the lead at ECE below .10, and where that is gone
    assert figures["loss/mammography/0.25/bank"] == pytest.approx(0.02 / 0.81)
    assert figures["loss/mammography/4/bank"] == 0.0
    assert figures["lead/too low/4/bank"] == pytest.approx(0.5 / 0.4 - 1.0)
    # from .02 to .12 BBSE gains .2, and .11 are enough
    assert figures["crossing/too high/0.25/bank/BBSE"] == pytest.approx(0.075)
    assert "crossing/too high/0.25/bank/SMOTE" not in figures
    # the paper's ensemble apart, with its own claims
    assert figures["paper/noise/mammography/0/0.25/bank"] == pytest.approx(0.61)
    assert figures["paper/loss/mammography/0.25/bank"] == pytest.approx(0.02 / 0.61)
    assert "paper/noise/sick_euthyroid/0/0.25/bank" not in figures
    part = robustness_page.part_of(figures)
    assert part["sd noise/mammography/0/0.25/bank"] == figures["sd noise/mammography/0/0.25/bank"]


def test_the_paper_s_f1_stands_beside_its_own_set_and_shift_alone() -> None:
    own = both_sets()
    page = robustness_page.table(robustness.figures(made_up(own), own), own)
    assert page.count("| the paper's F1 |") == 2  # of boosting and of the paper's ensemble
    assert "on `mammography` and 1 of the 2 splits" in page
    beside = page.partition("`mammography`, Qp/4")[2].partition("`mammography`, 4 Qp")[0]
    assert "| the paper's F1 | 0.82 |  | 0.61 | below 0.35 |" in beside
    assert "| bank | 0.810 ± 0.014 |" in beside
    assert "not up to 0.12" in page
    assert "| mammography | Qp/4 | below 5% |" in page
    assert "| Qp/4 | bank | above 10% | +25.0% |" in page
    assert "| the paper on a moving average | well suited | well suited |  |" in page


def test_the_plots_have_one_row_per_shift_and_one_panel_with_the_paper_s_points() -> None:
    own = both_sets()
    record = {"figures": robustness.figures(made_up(own), own), "settings": own}
    with style():
        drawn = robustness.plots(record)
    assert set(drawn) == {"robustness", "robustness_paper", "robustness_drift"}
    assert sum(axes.get_visible() for axes in drawn["robustness_paper"].axes) == 2 * 1 + 2 * 3
    shown = [axes for axes in drawn["robustness"].axes if axes.get_visible()]
    assert len(shown) == 2 * 2 + 2 * 3
    with_claim = [axes for axes in shown if "F1 in the paper" in axes.get_legend_handles_labels()[1]]
    assert [axes.get_title(loc="left") for axes in with_claim] == ["(a) Noise, mammography, Qp/4"]


def test_noise_lowers_f1_on_a_real_set() -> None:
    try:
        load_named("sick_euthyroid")
    except InvalidInputError as error:
        pytest.skip(str(error))
    own = settings() | {"factors": [0.25], "n_rows": 2_000, "noise": [0.0, 1.0]}
    found = noise.run({"part": "noise", "set": "sick_euthyroid", "split": 0, "model": contest.BOOSTING}, own)
    measures = {*contest.METHODS, *robustness_page.ALARMS.values()}
    assert set(found["0"]) == {f"0.25/{measure}" for measure in measures}
    assert all(found["1"][f"0.25/{method}"] < found["0"][f"0.25/{method}"] - 0.2 for method in contest.METHODS)
