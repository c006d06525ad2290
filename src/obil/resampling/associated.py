"""Make associated problems: the same rows at a less imbalanced class prior, which is divided out again.

A ratio is that of the most common class to the rarest. Thinning or repeating the rows of a class uniformly leaves
p(x|class) what it is, so the true posterior at any prior gives the true likelihood ratio once that prior is
divided out. What is *learned* from fewer rows is still an estimate, with the bias of its size.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray, as_floats, as_labels, require_positive, require_same_length
from obil.errors import InvalidInputError

METHODS = ("undersample", "oversample", "weight")
RATIOS = (1.0, 2.0, 5.0, 10.0)  # and the original one


@dataclass(frozen=True, slots=True, eq=False)
class AssociatedProblem:
    """Rows to train on, and the class prior they present.

    >>> problem = associated_problem([0, 0, 0, 0, 1], ratio=2, n_classes=2, random_state=0)
    >>> len(problem.rows), problem.training_prior.round(3)
    (3, array([0.667, 0.333]))
    >>> problem.training_prior_at(2.0)  # trained with weight 2 on the negatives
    array([0.8, 0.2])
    """

    rows: IntArray  # (m,) numbers of the training rows in increasing order, with repeats where oversampled
    weights: FloatArray  # (m,) training weight of each; 1 unless method="weight" or rows have weights of their own
    training_prior: FloatArray  # (K,) to divide out: of these rows, with their weights

    def training_prior_at(self, negative_weight: float) -> FloatArray:
        """Return the prior (K,) that a loss with this cost weight on class 0 sees, to be divided out."""
        weighted = self.training_prior.copy()
        weighted[0] *= require_positive("negative_weight", negative_weight)
        prior: FloatArray = weighted / weighted.sum()
        return prior


def target_ratios(n_members: int, original: float) -> tuple[float, ...]:
    """Return the class ratio of each member's problem: 1, 2, 5, 10 and the original, over and over.

    One member gets 1; three get 1, 5 and the original. No target is above the original: on milder data the larger
    ones become the original itself, where every member sees all rows and only its random start is its own.

    >>> target_ratios(5, 42.0)
    (1.0, 2.0, 5.0, 10.0, 42.0)
    >>> target_ratios(3, 42.0), target_ratios(7, 3.0)
    ((1.0, 5.0, 42.0), (1.0, 2.0, 3.0, 3.0, 3.0, 1.0, 2.0))
    """
    if n_members < 1 or n_members != int(n_members):
        raise InvalidInputError(f"n_members must be a whole number of at least 1, got {n_members!r}")
    highest = _as_ratio("original", original)
    ratios = (1.0, 5.0, highest) if n_members == 3 else (*RATIOS, highest)
    return tuple(min(ratios[i % len(ratios)], highest) for i in range(int(n_members)))


def class_ratio(labels: npt.ArrayLike, *, n_classes: int, sample_weight: npt.ArrayLike | None = None) -> float:
    """Return the ratio of the most common class to the rarest (the paper's Qp, for two classes).

    >>> class_ratio([0, 0, 0, 1], n_classes=2)
    3.0
    """
    numbers, weights = _checked(labels, n_classes, sample_weight)
    masses = _masses(numbers, weights, n_classes)
    return float(masses.max() / masses.min())


def associated_problem(
    labels: npt.ArrayLike,
    *,
    ratio: float,
    n_classes: int,
    method: str = "undersample",
    random_state: np.random.Generator | int | None = None,
    sample_weight: npt.ArrayLike | None = None,
) -> AssociatedProblem:
    """Return the problem with the most common class `ratio` times the rarest.

    Parameters
    ----------
    labels
        Class numbers 0 ... K-1 of the training rows; every class needs one.
    ratio
        At least 1. Below the ratio of the rows, classes beyond `ratio` times the rarest are thinned (or those rarer
        than 1/`ratio` of the most common repeated). Above it, the rarest is thinned (or the most common
        repeated): the paper's Algorithm 1 repeats the rarest there, which lowers the ratio. At it nothing is done.
    method
        "undersample" thins uniformly without replacement; "oversample" keeps every row and repeats some, drawn
        with replacement; "weight" keeps every row once and weights the classes, with the total weight unchanged.
    sample_weight
        Population weights of the rows: classes are as large as their weights add up to, and the weights
        multiply those of the method. Rows of weight 0 are left out.

    At least one row of each class remains. Of equally rare classes the last is the rarest, of equally common
    ones the first the most common.

    >>> problem = associated_problem([0] * 90 + [1] * 10, ratio=1, n_classes=2, method="weight")
    >>> problem.weights[[0, -1]].round(3), problem.training_prior
    (array([0.556, 5.   ]), array([0.5, 0.5]))
    """
    target = _as_ratio("ratio", ratio)
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    numbers, weights = _checked(labels, n_classes, sample_weight)
    masses = _masses(numbers, weights, n_classes)
    rng = np.random.default_rng(random_state)
    if method == "oversample":
        rows = _drawn(numbers, weights, _raised(masses, target) / masses, rng)
        row_weights = weights[rows]
    elif method == "undersample":
        rows = _drawn(numbers, weights, _lowered(masses, target) / masses, rng)
        row_weights = weights[rows]
    else:
        rows = np.flatnonzero(weights > 0.0)
        factors = _lowered(masses, target) / masses
        row_weights = weights[rows] * factors[numbers[rows]] * (masses.sum() / (factors @ masses))
    masses = _masses(numbers[rows], row_weights, n_classes)
    return AssociatedProblem(np.asarray(rows, dtype=np.int64), row_weights, masses / masses.sum())


def _checked(labels: npt.ArrayLike, n_classes: int, sample_weight: npt.ArrayLike | None) -> tuple[IntArray, FloatArray]:
    numbers = as_labels(labels, n_classes=n_classes)
    weights = np.ones(len(numbers)) if sample_weight is None else as_floats(sample_weight, "sample_weight")
    if weights.ndim != 1:
        raise InvalidInputError(f"sample_weight must have shape (n,), got {weights.shape}")
    require_same_length(labels=numbers, sample_weight=weights)
    if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
        raise InvalidInputError("sample_weight must be finite and not negative")
    missing = np.flatnonzero(_masses(numbers, weights, n_classes) <= 0.0)
    if n_classes < 2 or len(missing):
        raise InvalidInputError(
            f"a problem needs rows of at least two classes and of every class, got {n_classes} classes "
            f"and none of class {missing.tolist()}"
        )
    return numbers, weights


def _masses(labels: IntArray, weights: FloatArray, n_classes: int) -> FloatArray:
    return np.asarray(np.bincount(labels, weights=weights, minlength=n_classes), dtype=np.float64)


def _lowered(masses: FloatArray, ratio: float) -> FloatArray:
    """Return class sizes (K,) at a ratio, none larger than before."""
    if _is_original(masses, ratio):
        return masses
    lowered: FloatArray = np.minimum(masses, ratio * masses.min())
    rarest = len(masses) - 1 - int(np.argmin(masses[::-1]))
    lowered[rarest] = min(masses[rarest], masses.max() / ratio)
    return lowered


def _raised(masses: FloatArray, ratio: float) -> FloatArray:
    """Return class sizes (K,) at a ratio, none smaller than before."""
    if _is_original(masses, ratio):
        return masses
    raised: FloatArray = np.maximum(masses, masses.max() / ratio)
    common = int(np.argmax(masses))
    raised[common] = max(masses[common], ratio * masses.min())
    return raised


def _is_original(masses: FloatArray, ratio: float) -> bool:
    return bool(np.isclose(ratio, masses.max() / masses.min(), rtol=1e-12, atol=0.0))


def _drawn(labels: IntArray, weights: FloatArray, factors: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return row numbers with each class `factors` (K,) times as large: thinned below 1, repeated above."""
    chosen = []
    for k, factor in enumerate(factors):
        own = np.flatnonzero((labels == k) & (weights > 0.0))
        size = max(1, round(factor * len(own)))
        if size < len(own):
            chosen.append(rng.choice(own, size, replace=False))
        else:
            chosen += [own, rng.choice(own, size - len(own), replace=True)]
    rows: IntArray = np.sort(np.concatenate(chosen))
    return rows


def _as_ratio(name: str, value: float) -> float:
    ratio = require_positive(name, value)
    if ratio < 1.0:
        raise InvalidInputError(f"{name} must be at least 1, got {value!r}")
    return ratio
