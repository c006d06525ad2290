"""Make problems by SMOTE, and measure how far a problem bends the log ratios that are learned from it.

SMOTE puts new rows on the lines between neighbours of a class. That is another p(x|class), narrower and smoother
than the true one, so unlike thinning, repeating and weighing it changes the ratio that a posterior gives back.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from experiments.paper_formulas import log_ratios_from_posterior
from obil.arrays import FloatArray, IntArray, as_floats, as_labels, require_in, require_same_length
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.resampling.associated import METHODS, associated_problem, class_ratio

# features (m, d), class numbers (m,) and weights (m,) -> a function of features (n, d) that gives posteriors (n, K)
Fit: TypeAlias = Callable[[FloatArray, IntArray, FloatArray], Callable[[FloatArray], npt.ArrayLike]]


class SmoteProblem(NamedTuple):
    """Rows to train on, most of the rarer classes made up, and the class prior they present."""

    features: FloatArray  # (m, d)
    labels: IntArray  # (m,)
    training_prior: FloatArray  # (K,) to be divided out; it cannot undo what SMOTE did to the ratio


class Distortion(NamedTuple):
    """How learned log ratios relate to the true ones: a line through them, and the error that is left to feel."""

    offset: float  # learned = offset + slope x true, by least squares; 0 where nothing is bent
    slope: float  # 1 where nothing is bent
    rms: float  # of learned minus true


def smote_problem(
    X: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    ratio: float,
    k_neighbors: int = 5,
    random_state: np.random.Generator | int | None = None,
) -> SmoteProblem:
    """Return rows with the rarer classes raised to 1/`ratio` of the most common one by SMOTE (imbalanced-learn).

    `ratio` is at least 1 and at most that of the rows: synthetic rows cannot raise it. Features are finite numbers.

    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> smote_problem(X, [0] * 30 + [1] * 10, ratio=1, random_state=0).training_prior
    array([0.5, 0.5])
    """
    try:
        from imblearn.over_sampling import SMOTE  # an extra
    except ImportError:
        raise InvalidInputError(
            "SMOTE problems need imbalanced-learn: pip install 'obil[experiments]'; or use undersampling or weights"
        ) from None
    rows = as_floats(X, "X")
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise InvalidInputError(f"X must be finite numbers of shape (n, d) for SMOTE, got shape {rows.shape}")
    values = np.asarray(labels)
    n_classes = max(2, int(values.max(initial=0)) + 1) if values.dtype.kind in "iub" else 2
    numbers = as_labels(labels, n_classes=n_classes)
    require_same_length(X=rows, labels=numbers)
    original = class_ratio(numbers, n_classes=n_classes)
    target = require_in("ratio", ratio, 1.0, original)
    counts = np.bincount(numbers, minlength=n_classes)
    wanted = np.maximum(counts, np.round(counts.max() / target)).astype(np.int64)
    fewest = int(counts[wanted > counts].min(initial=len(rows)))
    if not 1 <= k_neighbors < fewest:
        raise InvalidInputError(
            f"k_neighbors must be at least 1 and below the rarest class's {fewest} rows, got {k_neighbors!r}"
        )
    seed = int(np.random.default_rng(random_state).integers(2**31))
    smote = SMOTE(
        sampling_strategy={k: int(wanted[k]) for k in range(n_classes)}, k_neighbors=k_neighbors, random_state=seed
    )
    made, made_labels = smote.fit_resample(rows, numbers)
    made_counts = np.bincount(made_labels, minlength=n_classes)
    return SmoteProblem(
        np.asarray(made, dtype=np.float64), np.asarray(made_labels, dtype=np.int64), made_counts / made_counts.sum()
    )


def ratio_distortion(
    fit: Fit,
    classes: GaussianClasses,
    *,
    counts: Sequence[int],
    ratio: float = 1.0,
    methods: Sequence[str] = (*METHODS, "smote"),
    n_repeats: int = 20,
    n_fresh: int = 2_000,
    k_neighbors: int = 5,
    random_state: np.random.Generator | int | None = None,
) -> dict[str, Distortion]:
    """Measure how far log ratios learned from each kind of problem are from the truth, averaged over fresh draws.

    Parameters
    ----------
    fit
        Takes features, class numbers and weights and returns a function from features to posteriors.
    classes
        Where the rows come from: their log ratios are known exactly.
    counts
        Training rows of each class, (K,).
    ratio
        The class ratio of the problems.
    methods
        Any of "undersample", "oversample", "weight", "smote", "none" (the rows as they are). All see the same rows.
    n_repeats, n_fresh
        How many training sets are drawn, and on how many fresh rows per class each is measured.
    """
    unknown = set(methods) - {*METHODS, "smote", "none"}
    if unknown or not methods:
        raise InvalidInputError(f"methods must be among {', '.join(METHODS)}, smote, none; got {sorted(unknown)}")
    if len(counts) != classes.n_classes or min(counts) < 1 or n_repeats < 1 or n_fresh < 2:
        raise InvalidInputError(
            f"counts must hold a positive number for each of {classes.n_classes} classes, got {list(counts)}"
        )
    measured: dict[str, list[Distortion]] = {method: [] for method in methods}
    for rng in np.random.default_rng(random_state).spawn(n_repeats):
        features, labels = _draw(classes, counts, rng)
        fresh, _ = _draw(classes, [n_fresh] * classes.n_classes, rng)
        truth = classes.log_ratios(fresh)[:, 1:].ravel()
        for method in methods:
            own = rng.spawn(1)[0]
            if method == "smote":
                rows, numbers, training_prior = smote_problem(
                    features, labels, ratio=ratio, k_neighbors=k_neighbors, random_state=own
                )
                weights = np.ones(len(rows))
            else:
                problem = associated_problem(
                    labels,
                    ratio=ratio if method != "none" else class_ratio(labels, n_classes=classes.n_classes),
                    n_classes=classes.n_classes,
                    method=method if method != "none" else "weight",
                    random_state=own,
                )
                rows, numbers, training_prior = features[problem.rows], labels[problem.rows], problem.training_prior
                weights = problem.weights
            posteriors = fit(rows, numbers, weights)(fresh)
            learned = log_ratios_from_posterior(posteriors, training_prior)[:, 1:].ravel()
            slope, offset = np.polyfit(truth, learned, 1)
            rms = np.sqrt(np.mean((learned - truth) ** 2))
            measured[method].append(Distortion(float(offset), float(slope), float(rms)))
    return {
        method: Distortion(*(float(value) for value in np.mean(figures, axis=0)))
        for method, figures in measured.items()
    }


def _draw(classes: GaussianClasses, counts: Sequence[int], rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    labels = np.repeat(np.arange(classes.n_classes), counts)
    features = classes.draw(np.eye(classes.n_classes)[labels], random_state=rng).features
    return features, labels
