"""Adapt the probabilities of any river classifier to the class prior of its unlabeled stream, while labels are late.

The public interface is `LabelShiftClassifier`.
"""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base, linear_model
from scipy.special import softmax

from obil.arrays import FloatArray, as_integer
from obil.trackers import BayesBank, PriorTracker

__all__ = ["LabelShiftClassifier"]

# Over how many labels class frequencies are counted, None for all. Which of them is the prior that a classifier learned
# depends on how fast it forgets, so that a regression on all of them finds out.
MEMORIES = (100, 400, 1_600, None)
SLOPE_SD, FREQUENCY_SD, OFFSET_SD = 0.3, 0.5, 1.0  # of the regression's coefficients before any label
REGRESSION_MEMORY = 500  # labels
LARGEST_SCORE, LARGEST_RATIO = 9.0, 15.0  # a classifier that is certain is wrong about that
FEWEST_LABELS = 10  # of each class
CERTAIN = 20.0  # the log ratio of a row whose class is known
START_WEIGHT = 0.1  # of the adapted probabilities: they have to show first that they predict labels better
DEALT = 1e-3  # of the weight that each label moves back to the start weight
DELAY_POWER = 0.25  # a label counts by 1 / (1 + rows since)^power


class LabelShiftClassifier(base.Wrapper, base.Classifier):  # type: ignore[misc]  # river is not checked
    """Move the probabilities of a river classifier to the current class prior, which its unlabeled rows show.

    A classifier that learns online has learned the prior of the labels so far; while labels are late, that is not the
    prior of the rows. What the classifier's probabilities say beyond its prior is a log-likelihood ratio, found by an
    online regression on labels; a tracker reads the current prior from the ratios of all rows. The result is mixed with
    the classifier's own probabilities, by how well each predicted the labels that came.

    Call `predict_proba_one` or `predict_one` once for each row, when it arrives, and `learn_one` when its label comes:
    predicting counts a row.

    Parameters
    ----------
    classifier
        Any classifier with `predict_proba_one`.
    tracker
        What follows the prior, such as `BayesBank()`, which it is if None.
    horizon
        For how many rows a prediction is remembered, to be compared with its label.

    Attributes
    ----------
    prior
        The current prior of each class; empty until every class has ten labels.

    >>> from river import naive_bayes
    >>> model = LabelShiftClassifier(naive_bayes.GaussianNB())
    >>> for i in range(400):
    ...     model.learn_one({"size": float(i % 7)}, i % 7 > 4)
    >>> for _ in range(200):  # rows whose labels are still to come
    ...     probabilities = model.predict_proba_one({"size": 6.0})
    >>> model.prior[True] > 0.9
    True
    """

    _counts: FloatArray  # (memories, K) of labels
    _coefficients: FloatArray  # (1 + memories + K - 1,) of log ratios
    _precision: FloatArray
    _start_precision: FloatArray
    _label_tracker: BayesBank  # of the prior of the labels
    _tracker: PriorTracker

    def __init__(self, classifier: base.Classifier, tracker: PriorTracker | None = None, horizon: int = 10_000) -> None:
        self.classifier = classifier
        self.tracker = tracker
        self.horizon = as_integer("horizon", horizon, 0)
        self._classes: list[Any] = []  # in the order of their first labels
        self._n_labels: list[int] = []  # of each class
        self._rows = 0  # predicted
        self._past: dict[int, tuple[int, dict[Any, float], dict[Any, float]]] = {}  # rows that wait for their labels
        self._weight = START_WEIGHT  # of the adapted probabilities

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    @property
    def prior(self) -> dict[Any, float]:
        """The current prior of each class."""
        return dict(zip(self._classes, self._tracker.prior.tolist(), strict=True)) if self._ready else {}

    @property
    def _ready(self) -> bool:
        return len(self._classes) > 1 and min(self._n_labels) >= FEWEST_LABELS

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class at the current prior, and update the prior with the row."""
        own: dict[Any, float] = self.classifier.predict_proba_one(x, **kwargs)
        if not self._ready or not set(own) <= set(self._classes):
            return own
        log_ratios = np.clip(self._terms(own) @ self._coefficients, -LARGEST_RATIO, LARGEST_RATIO)
        prior = self._tracker.update(log_ratios)  # from before the row
        adapted = dict(zip(self._classes, softmax(log_ratios + np.log(prior)).tolist(), strict=True))
        self._rows += 1
        key = _key(x)
        if key is not None and self.horizon:
            self._past[key] = (self._rows, own, adapted)
            if len(self._past) > self.horizon:
                del self._past[next(iter(self._past))]
        return {one: self._weight * adapted[one] + (1.0 - self._weight) * own.get(one, 0.0) for one in adapted}

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Learn from the label of a row, whenever it comes."""
        key = _key(x)
        predicted = None if key is None else self._past.pop(key, None)
        if predicted is not None:
            self._reweigh(y, *predicted)
        if y not in self._classes:
            self._add_class(y)
        else:
            own = self.classifier.predict_proba_one(x)  # before it learns the label
            if len(self._classes) > 1 and set(own) <= set(self._classes):
                self._learn_ratio(own, self._classes.index(y))
        self._count(self._classes.index(y))
        self.classifier.learn_one(x, y, **kwargs)

    def _terms(self, own: dict[Any, float]) -> FloatArray:
        """Return what log ratios are linear in, (K, 1 + memories + K - 1): log odds, log frequencies, offsets."""
        probabilities = np.clip([own.get(one, 0.0) for one in self._classes], 1e-9, 1.0)
        log_odds = np.clip(np.log(probabilities / probabilities[0]), -LARGEST_SCORE, LARGEST_SCORE)
        log_frequencies = np.log(self._counts / self._counts[:, :1]).T  # (K, memories)
        return np.hstack([log_odds[:, None], log_frequencies, np.eye(len(self._classes))[:, 1:]])

    def _learn_ratio(self, own: dict[Any, float], number: int) -> None:
        """Take one step of a Bayesian logistic regression that forgets; the prior of the labels is given."""
        terms = self._terms(own)
        posterior = softmax(terms @ self._coefficients + np.log(self._label_tracker.prior))
        centred = terms - posterior @ terms
        kept = 1.0 - 1.0 / REGRESSION_MEMORY
        information = centred.T @ (centred * posterior[:, None])
        self._precision = self._start_precision + kept * (self._precision - self._start_precision) + information
        self._coefficients = self._coefficients + np.linalg.solve(self._precision, terms[number] - posterior @ terms)

    def _add_class(self, label: Any) -> None:
        """Start again with one class more."""
        known = len(self._classes)
        counts = np.full((len(MEMORIES), known + 1), 0.5)
        if known:
            counts[:, :-1] = self._counts
        self._classes, self._n_labels, self._counts = [*self._classes, label], [*self._n_labels, 0], counts
        n_memories = len(MEMORIES)
        self._coefficients = np.array([1.0] + [-1.0 / n_memories] * n_memories + [0.0] * known)
        deviations = np.array([SLOPE_SD] + [FREQUENCY_SD] * n_memories + [OFFSET_SD] * known)
        self._precision = self._start_precision = np.diag(deviations**-2.0)
        if known:
            self._label_tracker = BayesBank(counts[-1] / counts[-1].sum())

    def _count(self, number: int) -> None:
        was_ready = self._ready
        self._n_labels[number] += 1
        for counts, memory in zip(self._counts, MEMORIES, strict=True):
            if memory is not None:
                counts[:] = 0.5 + (counts - 0.5) * (1.0 - 1.0 / memory)
            counts[number] += 1.0
        if len(self._classes) > 1:
            known = np.full(len(self._classes), -CERTAIN if number == 0 else 0.0)
            known[0], known[number] = 0.0, CERTAIN if number else 0.0
            self._label_tracker.update(known)
        if self._ready and not was_ready:
            self._tracker = copy.deepcopy(BayesBank() if self.tracker is None else self.tracker)
            self._tracker.start(self._label_tracker.prior)

    def _reweigh(self, label: Any, row: int, own: dict[Any, float], adapted: dict[Any, float]) -> None:
        rate = (1.0 + self._rows - row) ** -DELAY_POWER
        gains = np.array([max(found.get(label, 0.0), 1e-6) for found in (adapted, own)]) ** rate
        weight = self._weight * gains[0] / (self._weight * gains[0] + (1.0 - self._weight) * gains[1])
        self._weight = float((1.0 - DEALT) * weight + DEALT * START_WEIGHT)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classifier": linear_model.LogisticRegression()}


def _key(x: Any) -> int | None:
    """Return what a row is remembered by; None for one that cannot be."""
    try:
        return hash(frozenset(x.items()) if isinstance(x, dict) else x)
    except TypeError:
        return None
