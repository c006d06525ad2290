"""A wrapped river classifier passes river's checks, and predicts better where the prior moves and labels are late."""

import math
import pickle
from collections import deque
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from packaging.version import Version

from obil import InvalidInputError
from obil.trackers import FixedPrior

pytest.importorskip("river", reason="needs river")

from river import checks, evaluate, linear_model, metrics, naive_bayes, preprocessing, tree

from obil.river import LabelShiftClassifier

SHIFT, STILL, RARE = (0.05, 0.35, 0.05, 0.2), (0.1,) * 4, (0.01, 0.05, 0.01, 0.03)
Row = tuple[dict[str, float], bool]


def test_it_is_the_version_whose_checks_are_run() -> None:
    assert Version(version("river")) >= Version("0.22")


def linear() -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


WRAPPED = {
    "linear": linear,
    "bayes": naive_bayes.GaussianNB,
    "tree": tree.HoeffdingTreeClassifier,
}
CHECKS = [
    pytest.param(make, check, id=f"{name}-{number}-{check.__name__}")
    for name, make in WRAPPED.items()
    for number, check in enumerate(checks.yield_checks(LabelShiftClassifier(make())))
]


@pytest.mark.parametrize(("make", "check"), CHECKS)
def test_rivers_own_checks(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    model = LabelShiftClassifier(make())
    if check.__name__ not in model.classifier._unit_test_skips():
        check(model)


def rows_of(priors: tuple[float, ...], *, n_rows: int = 8_000, seed: int = 0) -> list[Row]:
    """Return rows whose prior jumps, and whose distribution given the class does not."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n_rows) < np.repeat(priors, n_rows // len(priors))
    X = rng.normal(size=(n_rows, 4)) + labels[:, None] * [1.5, -1.0, 0.0, 0.0]
    return [(dict(zip("abcd", row, strict=True)), bool(y)) for row, y in zip(X.tolist(), labels, strict=True)]


def log_loss(model: Any, rows: list[Row], *, delay: int) -> float:
    """Return the mean log loss after the first quarter, where each label comes `delay` rows late."""
    waiting: deque[Row] = deque()
    losses = []
    for x, y in rows:
        found = min(max(model.predict_proba_one(x).get(True, 0.0), 1e-6), 1.0 - 1e-6)
        losses.append(-math.log(found if y else 1.0 - found))
        waiting.append((x, y))
        if len(waiting) > delay:
            model.learn_one(*waiting.popleft())
    return float(np.mean(losses[len(rows) // 4 :]))


@pytest.mark.parametrize("name", WRAPPED)
def test_it_lowers_log_loss_where_the_prior_moves_and_labels_are_late(name: str) -> None:
    rows = rows_of(SHIFT)
    models = WRAPPED[name](), LabelShiftClassifier(WRAPPED[name]())
    bare, adapted = (log_loss(model, rows, delay=1_000) for model in models)
    print(f"shift {name}: bare {bare:.4f} adapted {adapted:.4f}")
    assert adapted < 0.97 * bare


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("priors", [STILL, RARE], ids=["still", "rare"])
def test_it_costs_little_where_nothing_moves_or_a_class_is_rare(name: str, priors: tuple[float, ...]) -> None:
    rows = rows_of(priors)
    models = WRAPPED[name](), LabelShiftClassifier(WRAPPED[name]())
    bare, adapted = (log_loss(model, rows, delay=1_000) for model in models)
    print(f"{priors} {name}: bare {bare:.4f} adapted {adapted:.4f}")
    assert adapted < bare + 0.01


def learned(rows: list[Row], model: Any) -> Any:
    for x, y in rows:
        model.predict_proba_one(x)
        model.learn_one(x, y)
    return model


def test_the_prior_follows_rows_without_labels() -> None:
    rows = rows_of((0.1, 0.1, 0.5, 0.5))
    model = LabelShiftClassifier(naive_bayes.GaussianNB())
    assert model.prior == {}
    learned(rows[:4_000], model)
    assert model.prior[True] == pytest.approx(0.1, abs=0.04)
    for x, _ in rows[4_000:]:
        model.predict_proba_one(x)
    assert model.prior[True] == pytest.approx(0.5, abs=0.08)


def test_rivers_evaluation_with_a_delay_gives_what_the_wrapper_is_for() -> None:
    rows = rows_of(SHIFT, n_rows=6_000)
    found = []
    for model in (naive_bayes.GaussianNB(), LabelShiftClassifier(naive_bayes.GaussianNB())):
        found.append(evaluate.progressive_val_score(rows, model, metrics.LogLoss(), delay=500).get())
    assert found[1] < 0.97 * found[0]


def test_more_than_two_classes_and_a_class_that_comes_late() -> None:
    rng = np.random.default_rng(0)
    model = LabelShiftClassifier(naive_bayes.GaussianNB())
    for i in range(3_000):
        label = str(rng.choice(["a", "b", "c"], p=[0.6, 0.4, 0.0] if i < 500 else [0.6, 0.3, 0.1]))
        x = {"size": rng.normal("abc".index(label) * 2.0)}
        assert not i or sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)
        model.learn_one(x, label)
    assert model.prior == pytest.approx({"a": 0.6, "b": 0.3, "c": 0.1}, abs=0.06)
    assert model.predict_one({"size": 4.5}) == "c"


def test_a_pickled_one_continues_bit_for_bit() -> None:
    rows = rows_of(SHIFT, n_rows=2_000)
    model = learned(rows[:1_000], LabelShiftClassifier(naive_bayes.GaussianNB()))
    copied = pickle.loads(pickle.dumps(model))
    for x, y in rows[1_000:]:
        assert model.predict_proba_one(x) == copied.predict_proba_one(x)
        model.learn_one(x, y)
        copied.learn_one(x, y)


def test_the_horizon_bounds_what_is_remembered() -> None:
    rows = rows_of(STILL, n_rows=2_000)
    model = learned(rows[:1_000], LabelShiftClassifier(naive_bayes.GaussianNB(), horizon=50))
    for x, _ in rows[1_000:]:
        model.predict_proba_one(x)
    assert len(model._past) == 50
    with pytest.raises(InvalidInputError, match="horizon must be an integer"):
        LabelShiftClassifier(naive_bayes.GaussianNB(), horizon=-1)


class Lengths(naive_bayes.MultinomialNB):
    """Takes rows that are lists."""

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Any:
        return super().predict_proba_one({"n": len(x)})

    def learn_one(self, x: Any, y: Any) -> None:
        super().learn_one({"n": len(x)}, y)


def test_rows_that_cannot_be_remembered_are_predicted_and_learned() -> None:
    model = LabelShiftClassifier(Lengths())
    for i in range(100):
        assert not i or sum(model.predict_proba_one(["a"] * (1 + i % 3)).values()) == pytest.approx(1.0)
        model.learn_one(["a"] * (1 + i % 3), i % 3 == 2)
    assert set(model.prior) == {False, True}
    assert not model._past


def test_the_tracker_is_the_users_and_is_not_changed() -> None:
    tracker = FixedPrior()
    model = learned(rows_of(SHIFT, n_rows=2_000), LabelShiftClassifier(naive_bayes.GaussianNB(), tracker))
    prior = model.prior
    for x, _ in rows_of((0.5,), n_rows=500):
        model.predict_proba_one(x)
    assert model.prior == prior
    assert tracker.start(0.3).prior[1] == pytest.approx(0.3)
