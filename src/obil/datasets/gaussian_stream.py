"""Draw streams of normal classes, where the log ratio of every row and of any of its features is known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.errors import InvalidInputError


class Stream(NamedTuple):
    """Rows in time order with what a real stream hides: their labels, true priors and exact log ratios.

    >>> from obil.datasets import GaussianClasses, prior_paths
    >>> classes = GaussianClasses.pair(2.0)
    >>> stream = classes.draw(prior_paths.constant(100, 0.2), random_state=0)
    >>> stream.log_ratios.shape
    (100, 2)
    """

    features: FloatArray  # (n, d)
    labels: IntArray  # (n,)
    priors: FloatArray  # (n, K) the true prior of each row
    log_ratios: FloatArray  # (n, K) exact


@dataclass(frozen=True, slots=True, eq=False)
class GaussianClasses:
    """K normal classes in d dimensions with one covariance.

    >>> classes = GaussianClasses.pair(separation=2.0)
    >>> classes.log_ratios([[1.0]])  # halfway between the means
    array([[0., 0.]])
    """

    means: FloatArray  # (K, d)
    covariance: FloatArray  # (d, d)

    def __post_init__(self) -> None:
        means = np.atleast_2d(np.asarray(self.means, dtype=np.float64))
        covariance = np.atleast_2d(np.asarray(self.covariance, dtype=np.float64))
        if len(means) < 2 or covariance.shape != (means.shape[1], means.shape[1]):
            raise InvalidInputError(
                f"means (K, d) with K >= 2 need a covariance (d, d), got {means.shape} and {covariance.shape}"
            )
        if not (np.isfinite(means).all() and np.isfinite(covariance).all()):
            raise InvalidInputError("means and covariance must be finite")
        if not np.allclose(covariance, covariance.T) or np.linalg.eigvalsh(covariance).min() <= 0.0:
            raise InvalidInputError("the covariance must be symmetric and positive definite")
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "covariance", covariance)

    @classmethod
    def pair(cls, separation: float) -> "GaussianClasses":
        """Return two unit-variance classes in one dimension, `separation` apart."""
        return cls(np.array([[0.0], [separation]]), np.eye(1))

    @classmethod
    def spread(cls, separation: float, *, n_features: int, correlation: float = 0.0) -> "GaussianClasses":
        """Return two classes `separation` standard deviations apart in all, all features contributing equally.

        `correlation` is that of any two features given the class: with it, feature subsets overlap.

        >>> GaussianClasses.spread(3.0, n_features=9).means[1].round(6).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        """
        covariance = np.full((n_features, n_features), correlation)
        np.fill_diagonal(covariance, 1.0)
        direction = np.ones(n_features)
        scale = separation / np.sqrt(direction @ np.linalg.solve(covariance, direction))
        return cls(np.stack([np.zeros(n_features), scale * direction]), covariance)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.means)

    def log_ratios(self, features: npt.ArrayLike, *, subset: Sequence[int] | None = None) -> FloatArray:
        """Return the exact log p(x|k) - log p(x|0) of rows (n, d), or of some of their features, (n, K)."""
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.means.shape[1]:
            raise InvalidInputError(f"features must have shape (n, {self.means.shape[1]}), got {rows.shape}")
        chosen = np.arange(self.means.shape[1]) if subset is None else np.asarray(subset, dtype=np.int64)
        means = self.means[:, chosen]
        # with one covariance the quadratic terms cancel and the ratio is linear in x
        directions = np.linalg.solve(self.covariance[np.ix_(chosen, chosen)], (means - means[0]).T)  # (s, K)
        offsets = np.einsum("ks,sk->k", means + means[0], directions) / 2.0
        exact: FloatArray = rows[:, chosen] @ directions - offsets
        exact[:, 0] = 0.0
        return exact

    def draw(self, priors: npt.ArrayLike, *, random_state: int | np.random.Generator) -> Stream:
        """Draw one row for each entry of a prior path: (n,) of P1 for two classes, or (n, K).

        >>> stream = GaussianClasses.pair(2.0).draw([0.5, 0.5], random_state=0)
        >>> stream.log_ratios.shape
        (2, 2)
        """
        path = np.asarray(priors, dtype=np.float64)
        if path.ndim == 1 and self.n_classes == 2:
            path = np.stack([1.0 - path, path], axis=1)
        if path.ndim != 2 or path.shape[1] != self.n_classes:
            raise InvalidInputError(f"priors must have shape (n, {self.n_classes}), got {path.shape}")
        if not ((path >= 0.0).all() and (abs(path.sum(axis=1) - 1.0) <= 1e-6).all()):
            raise InvalidInputError("every row of priors must be non-negative and sum to 1")
        rng = np.random.default_rng(random_state)
        uniforms = rng.random(len(path))
        labels = np.minimum((uniforms[:, None] >= np.cumsum(path, axis=1)).sum(axis=1), self.n_classes - 1)
        noise = rng.standard_normal((len(path), self.means.shape[1])) @ np.linalg.cholesky(self.covariance).T
        features = self.means[labels] + noise
        return Stream(features, labels.astype(np.int64), path, self.log_ratios(features))
