"""Predict sets of classes that hold the true class with a stated probability, also while the class prior moves."""

import math
import warnings
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import (
    SMALLEST_PRIOR,
    SUM_TOLERANCE,
    BoolArray,
    FloatArray,
    PriorLike,
    as_floats,
    as_log_ratios,
    require_in,
)
from obil.errors import InvalidInputError
from obil.online.conformal_rows import ROUNDING, ConformalRows, odds_of_classes, reference_rows, scaled_likelihoods
from obil.online.decision import Decisions
from obil.serving.ratio_model import as_ratio_model, labels_to_numbers

KINDS = ("marginal", "class")
SAME_PRIOR = 1.05  # priors within this factor have one threshold: it changes the error rate by at most 5 % of itself
STEPS = 20.0  # errors that feedback takes to move an error rate by about itself


class PredictionSets:
    """Return for each row the set of classes that it may well be: the true one is in it with probability `coverage`.

    Thresholds are conformal: they are read off the held-out rows of the model. Under label shift p(x | class) stays, so
    held-out rows of each class stay right, and only how much each class counts follows the prior.

    Parameters
    ----------
    model
        A fitted `RatioClassifier` or `OBILClassifier`, or what `obil.load` returns.
    coverage
        The probability that a set holds the true class. With `kind="class"` also one for each: {class: probability}.
    kind
        "marginal": over all rows, at the prior that is given: small sets, but a rare class may be covered less.
        "class": for the rows of each class by itself, whatever the prior is; for two classes this is abstention with a
        bound on either error.
    step
        How far one label moves the error rate, as in adaptive conformal inference; (1 - coverage) / 20 if None.

    Attributes
    ----------
    classes_
        The classes, in the order of the columns of every set, (K,).
    coverage
        The coverage asked for of each class, (K,): all the same for "marginal".
    error_rates
        The error rate that thresholds are made for now, (K,): 1 - coverage until labels come.

    Guarantee
    ---------
    With `kind="class"`, P(class in set | class) >= coverage for every class, at any sequence of priors that are known
    before their rows, for any number of held-out rows, if held-out rows and rows to come of a class are exchangeable.
    With `kind="marginal"` that holds over all rows at the true prior, up to the chance in the classes of the held-out
    rows; another prior changes it by at most the sum of |prior given - true prior| times the error rate of each class.
    After labels of n rows, each at most d labels late, the fraction of errors among them is within
    ``(1 + (d + 1) step) / (n step)`` of the one asked for, whatever the rows are: by class, for those of each class.

    >>> from obil import PredictionSets, RatioClassifier
    >>> scores, labels = [-3.0, -2.0, -1.0, 1.0, -1.0, 1.0, 2.0, 3.0] * 10, [0, 0, 0, 0, 1, 1, 1, 1] * 10
    >>> sets = PredictionSets(RatioClassifier.from_scores(scores, labels), coverage=0.8, kind="class")
    >>> found = sets.predict([[-3.0], [0.0], [3.0]])
    >>> found
    array([[ True, False],
           [ True,  True],
           [False,  True]])
    >>> sets.actions(found).tolist()
    ['clear', 'abstain', 'alert']
    """

    def __init__(
        self, model: Any, *, coverage: float | Mapping[Any, float] = 0.9, kind: str = "marginal",
        step: float | None = None,
    ) -> None:  # fmt: skip
        if kind not in KINDS:
            raise InvalidInputError(f"kind must be 'marginal' or 'class', got {kind!r}")
        self._model = as_ratio_model(model)
        self.kind = kind
        self.coverage = _coverage(coverage, self._model.classes_, kind)
        self.error_rates = 1.0 - self.coverage
        self._step = None if step is None else require_in("step", step, 1e-6, 1.0)
        self._rows = ConformalRows.of(self._model.holdout_)
        self._warn_of_few_rows()

    def __repr__(self) -> str:
        return f"PredictionSets(coverage={self.coverage.tolist()}, kind={self.kind!r})"

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, in the order of the columns of every set, (K,)."""
        return self._model.classes_

    def predict(self, X: Any, *, prior: PriorLike | Mapping[Any, float] | None = None) -> BoolArray:
        """Return which classes are in the set of each row, (n, K), changing nothing.

        `prior` is one for all rows, as in `predict_proba`, or one for each row, (n, K); the training prior if None.
        """
        return self.predict_log_ratios(self._model.log_ratios(X), prior=prior)

    def predict_log_ratios(
        self, log_ratios: npt.ArrayLike, *, prior: PriorLike | Mapping[Any, float] | None = None
    ) -> BoolArray:
        """Return the sets of rows whose log ratios, (n, K), are known already, (n, K); `prior` as in `predict`."""
        rows = as_log_ratios(log_ratios, n_classes=self._model.n_classes)
        return self._sets(rows, self._priors(prior, len(rows)))

    def predict_decisions(self, decisions: Decisions) -> BoolArray:
        """Return the sets of rows of a stream, (n, K), each at the prior from before it, with which it was decided.

        Where `decisions.trusted` is False the monitor has found that no prior explains the stream: nothing is
        guaranteed then but what labels restore.
        """
        return self._sets(decisions.log_ratios, decisions.effective_priors)

    def actions(self, prediction_sets: npt.ArrayLike, *, positive: Any = None) -> npt.NDArray[np.str_]:
        """Return what to do with rows of two classes, (n,): "alert", "clear", or "abstain" and send to a person.

        A row is alerted where its set is the positive class alone, cleared where it is the other. With `kind="class"`
        at most 1 - coverage of the negatives are alerted, and of the positives cleared. `positive` is `classes_[1]` if
        None.
        """
        sets = self._as_sets(np.asarray(prediction_sets))
        if self._model.n_classes != 2:
            raise InvalidInputError(
                f"actions are for two classes, this model has {self._model.n_classes}: use the sets themselves"
            )
        number = 1 if positive is None else int(labels_to_numbers([positive], self.classes_)[0])
        alone = sets.sum(axis=1) == 1
        return np.where(alone, np.where(sets[:, number], "alert", "clear"), "abstain")

    def feedback(self, prediction_set: npt.ArrayLike, label: Any) -> None:
        """Learn from the true label of a row whether its set, (K,), as it was given out, held it.

        After an error sets grow, after a hit they shrink a little, so that the long-run coverage is right under concept
        drift too. Labels may come late and in any order. With "class" a label counts for its own class.
        """
        number = int(labels_to_numbers([label], self.classes_)[0])
        missed = 1.0 - float(self._as_sets(np.asarray(prediction_set)[None])[0, number])
        allowed = 1.0 - self.coverage[number]
        step = allowed / STEPS if self._step is None else self._step
        moved = slice(None) if self.kind == "marginal" else number
        self.error_rates = self.error_rates.copy()
        self.error_rates[moved] += step * (allowed - missed)

    def _sets(self, log_ratios: FloatArray, priors: FloatArray) -> BoolArray:
        likelihoods = scaled_likelihoods(log_ratios)
        found = np.empty(log_ratios.shape, dtype=np.bool_)
        starts = [*reference_rows(priors, SAME_PRIOR).tolist(), len(log_ratios)]
        for start, end in pairwise(starts):
            # scores and thresholds at one and the same prior, from before these rows: else ranks would not compare
            at = priors[start]
            least = self._rows.thresholds(at, self.error_rates, by_class=self.kind == "class")
            found[start:end] = odds_of_classes(likelihoods[start:end], at) >= least
        return found

    def _priors(self, prior: PriorLike | Mapping[Any, float] | None, n_rows: int) -> FloatArray:
        """Return the prior of each row, (n, K)."""
        if prior is None or isinstance(prior, Mapping) or np.ndim(prior) < 2:
            one = self._model.prior_ if prior is None else self._model.as_prior(prior)
            return np.tile(one, (n_rows, 1))
        values = as_floats(prior, "prior")
        if values.shape != (n_rows, self._model.n_classes):
            raise InvalidInputError(
                f"prior has the shape {values.shape}: priors of rows must be ({n_rows}, {self._model.n_classes})"
            )
        wrong = ~((values >= SMALLEST_PRIOR).all(axis=1) & (abs(values.sum(axis=1) - 1.0) <= SUM_TOLERANCE))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInputError(f"the prior of row {row} must be positive and sum to 1, got {values[row].tolist()}")
        return np.ascontiguousarray(values)

    def _as_sets(self, sets: npt.NDArray[Any]) -> BoolArray:
        if sets.dtype != bool or sets.ndim != 2 or sets.shape[1] != self._model.n_classes:
            raise InvalidInputError(
                f"prediction sets must be true or false for each of {self._model.n_classes} classes, got {sets.dtype} "
                f"in shape {sets.shape}: give what predict returned"
            )
        return sets

    def _warn_of_few_rows(self) -> None:
        """Warn of classes with so few held-out rows that nothing can leave them out."""
        weights, allowed = self._rows.next_weights, 1.0 - self.coverage
        if self.kind == "class":
            for k in np.flatnonzero(weights > allowed * (1.0 + weights) + ROUNDING).tolist():
                needed = math.ceil(1.0 / allowed[k] - 1e-9) - 1
                warnings.warn(
                    f"class {self.classes_.tolist()[k]!r:.80} has {1.0 / weights[k]:.0f} held-out rows and is in every "
                    f"set: a coverage of {self.coverage[k]:g} needs {needed}",
                    stacklevel=3,
                )


def _coverage(coverage: float | Mapping[Any, float], classes: npt.NDArray[Any], kind: str) -> FloatArray:
    """Return the coverage asked for of each class, (K,)."""
    names = classes.tolist()
    if not isinstance(coverage, Mapping):
        return np.full(len(names), require_in("coverage", coverage, 1e-6, 1.0 - 1e-6))
    if kind != "class" or set(coverage) != set(names):
        raise InvalidInputError(
            f"a coverage by class must name every one of {names} and have kind='class', got {list(coverage)} with "
            f"kind={kind!r}"
        )
    return np.array([require_in("coverage", coverage[name], 1e-6, 1.0 - 1e-6) for name in names])
