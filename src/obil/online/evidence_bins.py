"""Divide log ratios into bins by a model's held-out rows, so that the counts of rows are their evidence."""

import hashlib
import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, logsumexp

from obil.arrays import FloatArray, IntArray
from obil.compiled import compiled
from obil.serving.holdout import Holdout
from obil.trackers.calibration_spread import thinned_rows
from obil.trackers.pass_search import estimate_by_passes
from obil.trackers.passes import PassEvidence

MOST_ROWS = 20_000  # held-out rows of a class that the bins are made from
RARE = 0.01  # each class is separated from the others at this prior, and at equal ones
LEAST_SPREAD = 1e-9  # of the variance of a posterior, within a bin that is divided further
SMALLEST = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceBins:
    """A tree of thresholds on the log ratios of one class against the others, and what a bin says about the class.

    Bins are divided where posteriors differ most within them, at equal priors and at rare ones: a count of rows by bin
    loses the less of the prior's likelihood the more bins there are, and is evidence of any rows by the same model.

    >>> bins = EvidenceBins.of(Holdout.of([[0.0, -2.0], [0.0, 0.0], [0.0, 2.0]] * 10, [0, 0, 1] * 10), most=2)
    >>> bins.counts([[0.0, 2.1], [0.0, 1.9], [0.0, -3.0]])
    array([1, 2])
    """

    columns: IntArray  # (N,) the class whose log ratio is compared; -1 at a bin
    thresholds: FloatArray  # (N,) rows up to it go to the lower node
    nodes: IntArray  # (N, 2) the lower and the higher node; of a bin its number
    probabilities: FloatArray  # (B, K) of each bin by class

    @classmethod
    def of(cls, holdout: Holdout, *, most: int) -> "EvidenceBins":
        """Return at most so many bins."""
        rows = thinned_rows(holdout.labels, n_classes=holdout.n_classes, most=MOST_ROWS)
        part = Holdout(holdout.log_ratios[rows], holdout.labels[rows], holdout.weights[rows])
        against_rest, equal = _against_rest(part.log_ratios), np.full(part.n_classes, 1.0 / part.n_classes)
        columns, thresholds, nodes = _tree(against_rest, part, most)
        found = np.empty(len(rows), dtype=np.int64)
        _place(against_rest, columns, thresholds, nodes, found)
        weights = part.weights_at(equal)
        # at the most likely prior, and no other, the probabilities of each class sum to 1 over the bins
        own = estimate_by_passes(lambda at: PassEvidence.of(part.log_ratios, at, weights=len(rows) * weights), equal)
        ratios = np.exp(part.log_ratios - logsumexp(part.log_ratios, axis=1, b=own.prior, keepdims=True))  # (n, K)
        columns_of_classes = (weights[:, None] * ratios).T
        probabilities = np.stack([np.bincount(found, weights=column) for column in columns_of_classes], axis=1)
        return cls(columns, thresholds, nodes, np.maximum(probabilities, SMALLEST))

    @property
    def n_bins(self) -> int:
        """How many bins there are, B."""
        return len(self.probabilities)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return int(self.probabilities.shape[1])

    @property
    def digest(self) -> str:
        """What distinguishes these bins from others."""
        exact = np.concatenate([self.columns, self.nodes.ravel(), np.rint(1e6 * self.thresholds).astype(np.int64)])
        return hashlib.sha256(exact.astype("<i8").tobytes()).hexdigest()

    def counts(self, log_ratios: npt.ArrayLike) -> IntArray:
        """Return how many rows of log ratios, (n, K), are in each bin, (B,)."""
        rows = np.asarray(log_ratios, dtype=np.float64)
        found = np.empty(len(rows), dtype=np.int64)
        _place(_against_rest(rows), self.columns, self.thresholds, self.nodes, found)
        return np.bincount(found, minlength=self.n_bins).astype(np.int64)


def _against_rest(log_ratios: FloatArray) -> FloatArray:
    """Return the log ratio of each class against the mean of the others, (n, K)."""
    n_classes = log_ratios.shape[1]
    others = [np.delete(log_ratios, k, axis=1) for k in range(n_classes)]
    rest = np.stack([logsumexp(rows, axis=1) for rows in others], axis=1) - np.log(n_classes - 1.0)
    return np.asarray(log_ratios - rest)


def _tree(against_rest: FloatArray, part: Holdout, most: int) -> tuple[IntArray, FloatArray, IntArray]:
    """Divide the bin within which posteriors differ most, again and again."""
    n_classes = part.n_classes
    splits = [(k, prior) for k in range(n_classes) for prior in (1.0 / n_classes, RARE)]
    weights, values = [], []  # (2 K, n)
    for k, prior in splits:
        at = np.full(n_classes, (1.0 - prior) / (n_classes - 1.0))
        at[k] = prior
        weights.append(part.weights_at(at))
        values.append(expit(against_rest[:, k] + logit(prior)))
    every, ties = np.arange(len(against_rest)), count()
    weight, value = np.array(weights), np.array(values)
    totals = np.maximum(_spreads(weight, value)[0], SMALLEST)
    columns, thresholds, nodes = [-1], [0.0], [[0, 0]]
    heap: list[tuple[float, int, int, int, float, IntArray, IntArray]] = []

    def push(node: int, rows: IntArray) -> None:
        spreads, means = _spreads(weight[:, rows], value[:, rows])
        relative = spreads / totals
        best = int(np.argmax(relative))
        k, prior = splits[best]
        threshold = float(logit(means[best]) - logit(prior))
        lower = against_rest[rows, k] <= threshold
        if relative[best] > LEAST_SPREAD and 0 < lower.sum() < len(rows):
            heapq.heappush(heap, (-float(relative.sum()), next(ties), node, k, threshold, rows[lower], rows[~lower]))

    push(0, every)
    for n_bins in range(1, most):
        if not heap:
            break
        _, _, node, k, threshold, low, high = heapq.heappop(heap)
        number, columns[node], thresholds[node] = nodes[node][0], k, threshold
        nodes[node] = [len(nodes), len(nodes) + 1]
        columns += [-1, -1]
        thresholds += [0.0, 0.0]
        nodes += [[number, number], [n_bins, n_bins]]
        push(len(nodes) - 2, low)
        push(len(nodes) - 1, high)
    return np.array(columns, dtype=np.int64), np.array(thresholds), np.array(nodes, dtype=np.int64)


def _spreads(weights: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the summed squares about the mean by line, and the means."""
    means = (weights * values).sum(axis=1) / np.maximum(weights.sum(axis=1), SMALLEST)
    return (weights * (values - means[:, None]) ** 2).sum(axis=1), np.clip(means, 1e-12, 1.0 - 1e-12)


@compiled
def _place(
    against_rest: FloatArray, columns: IntArray, thresholds: FloatArray, nodes: IntArray, found: IntArray
) -> None:
    """Find the bin of each row."""
    for i in range(len(against_rest)):
        node = 0
        while columns[node] >= 0:
            node = nodes[node, 0 if against_rest[i, columns[node]] <= thresholds[node] else 1]
        found[i] = nodes[node, 0]
