"""Descend the estimated loss of the re-weighted classifier, one projected step per row (ROGD, Wu et al. 2021)."""

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from experiments.peers.black_box import BlackBoxPeer
from experiments.peers.simplex import project_to_simplex
from obil.arrays import (
    FloatArray,
    IntArray,
    PriorLike,
    as_integer,
    as_labels,
    as_log_ratios,
    require_in,
    require_same_length,
)
from obil.compiled import compiled
from obil.trackers.bbse import confusion_of_predictions


class ROGDMemory(NamedTuple):
    """The prior that the classifier is re-weighted to, (K,)."""

    prior: FloatArray


class ROGD(BlackBoxPeer):
    """Step the prior against the gradient of the loss it causes, with the one-row estimate for the truth.

    The classifier re-weighted to the prior p errs on class i with probability 1 - P_p(i | x), in the mean
    over held-out rows of class i: the paper's smooth surrogate of the 0-1 loss, l_i(p). A row's prediction gives
    the estimate q = C^-1 e_vote, and the step is ``p <- project(p - step_size * sum_i q_i grad l_i(p))``. This loss is
    not proper: its minimum is at a prior somewhat more extreme than q.

    The gradient visits every held-out row it is given, for every row of the stream, so that
    `from_holdout` draws the same number of rows of each class, `n_holdout` in all, without replacement.

    Parameters
    ----------
    prior
        The prior to start from, also the training prior unless that is given.
    confusion
        (K, K) frequencies of predictions for each true class (columns); see `from_holdout`.
    holdout_log_ratios, holdout_labels
        (n, K) and (n,): the held-out rows the gradient is a mean over.
    training_prior
        The prior at which classes are predicted.
    step_size
        The paper's eta; its theory asks for sqrt(2 / T) over the largest gradient.
    floor
        The smallest prior a class may have. The gradient grows as 1 / p, so that near the edge of the
        simplex any fixed step overshoots: the regret bound needs a domain on which it is bounded.
    """

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        confusion: npt.ArrayLike,
        holdout_log_ratios: npt.ArrayLike,
        holdout_labels: npt.ArrayLike,
        training_prior: PriorLike | None = None,
        step_size: float = 1e-3,
        floor: float = 0.01,
    ) -> None:
        rows = as_log_ratios(holdout_log_ratios)
        labels = as_labels(holdout_labels, n_classes=rows.shape[1])
        require_same_length(holdout_log_ratios=rows, holdout_labels=labels)
        super().__init__(
            prior,
            confusion=confusion,
            training_prior=training_prior,
            holdout_log_ratios=rows.tolist(),
            holdout_labels=labels.tolist(),
            step_size=require_in("step_size", step_size, 0.0, 1e6),
            floor=require_in("floor", floor, 1e-9, 1.0 / rows.shape[1]),
        )

    @classmethod
    def from_holdout(
        cls,
        log_ratios: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        prior: PriorLike,
        n_holdout: int = 1_000,
        random_state: int | np.random.Generator = 0,
        **settings: Any,
    ) -> Self:
        """Build the peer from held-out rows: all of them for the confusion, `n_holdout` for the gradient."""
        rows = as_log_ratios(log_ratios)
        true = as_labels(labels, n_classes=rows.shape[1])
        confusion = confusion_of_predictions(rows, true, prior=prior)
        per_class = max(1, as_integer("n_holdout", n_holdout, 1) // rows.shape[1])
        shuffled = np.random.default_rng(random_state).permutation(true.size)
        chosen = np.concatenate([shuffled[true[shuffled] == k][:per_class] for k in range(rows.shape[1])])
        return cls(
            prior,
            confusion=confusion,
            training_prior=prior,
            holdout_log_ratios=rows[chosen],
            holdout_labels=true[chosen],
            **settings,
        )

    def _lay_out(self, start: FloatArray) -> ROGDMemory:
        rows = as_log_ratios(self._settings["holdout_log_ratios"], n_classes=start.size)
        self._labels = as_labels(self._settings["holdout_labels"], n_classes=start.size)  # (n,)
        self._ratios = np.exp(rows - rows.max(axis=1, keepdims=True))  # (n, K), a row's scale cancels
        counts = np.bincount(self._labels, minlength=start.size)
        # q_i / n_i for each prediction: the weight of one held-out row of class i
        self._frequencies = self._inverse / np.maximum(counts, 1)[:, None]  # (K classes, K predictions)
        return ROGDMemory(start.copy())

    def _follow(self, predictions: IntArray, priors: FloatArray) -> None:
        memory: ROGDMemory = self._memory
        step_size, floor = self._settings["step_size"], self._settings["floor"]
        _descend(predictions, priors, *memory, self._ratios, self._labels, self._frequencies, step_size, floor)

    def _check_memory(self) -> None:
        """Check nothing more: the prior is the whole memory."""


@compiled
def _descend(
    predictions: IntArray,
    priors: FloatArray,
    prior: FloatArray,
    ratios: FloatArray,
    labels: IntArray,
    fractions: FloatArray,
    step_size: float,
    floor: float,
) -> None:
    """With Z = p . r, grad_j of P_p(i | x) = p_i r_i / Z is (delta_ij r_i - P_p(i | x) r_j) / Z."""
    n_holdout, n_classes = ratios.shape
    ascent = np.empty(n_classes)  # the gradient of the mean P_p(true class | x)
    stepped = np.empty(n_classes)
    for t in range(predictions.size):
        priors[t] = prior
        ascent[:] = 0.0
        for n in range(n_holdout):
            true = labels[n]
            evidence = 0.0
            for k in range(n_classes):
                evidence += prior[k] * ratios[n, k]
            own = fractions[true, predictions[t]] * ratios[n, true] / evidence
            against = own * prior[true] / evidence
            for k in range(n_classes):
                ascent[k] -= against * ratios[n, k]
            ascent[true] += own
        for k in range(n_classes):
            stepped[k] = prior[k] + step_size * ascent[k]
        project_to_simplex(stepped, floor, prior)
