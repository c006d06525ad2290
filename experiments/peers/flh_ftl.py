"""Follow the leading history over means of one-row estimates, each from its own birth on (Baby et al. 2023)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.peers.black_box import BlackBoxPeer
from experiments.peers.simplex import SMALLEST_PRIOR, project_to_simplex
from obil.arrays import FloatArray, IntArray, PriorLike, require_in
from obil.compiled import compiled
from obil.errors import InvalidStateError

# At most three experts of each power of two are alive at once, so this is room for more than 2^40 rows.
N_SLOTS = 128


class FLHFTLMemory(NamedTuple):
    """A slot an expert: a slot whose death is 0 is free."""

    prior: FloatArray  # (K,)
    counts: IntArray  # (E, K) predictions each expert has seen
    weights: FloatArray  # (E,)
    births: IntArray  # (E,) rows seen before the expert
    deaths: IntArray  # (E,) the number of rows seen at which it goes
    seen: IntArray  # (1,)


class FLHFTL(BlackBoxPeer):
    """Weigh experts that each average C^-1 e_vote since their birth by their squared loss so far.

    After t rows an expert is born with weight 1 / (t + 1); it says the start prior until its first row. A
    row with the one-row estimate q multiplies the weight of an expert that said m by
    exp(-learning_rate |m - q|^2). The prior is the weighted mean, projected onto the simplex.

    Of the experts, one a row, those of Hazan and Seshadhri (2009) are kept: the one born after t = r 2^j
    rows, r odd, lives 2^(j+2) + 1 rows, and the first lives for ever: about 2 log2(t) in all, of every age.

    Parameters
    ----------
    prior
        The prior to start from, also the training prior unless that is given.
    confusion
        (K, K) frequencies of predictions for each true class (columns); see `from_holdout`.
    training_prior
        The prior at which classes are predicted.
    learning_rate
        None takes the paper's sigma^2 / (8 K), sigma being the smallest singular value of C: at that rate
        the squared loss is exp-concave on the ball that holds the one-row estimates.
    """

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        confusion: npt.ArrayLike,
        training_prior: PriorLike | None = None,
        learning_rate: float | None = None,
    ) -> None:
        super().__init__(
            prior,
            confusion=confusion,
            training_prior=training_prior,
            learning_rate=None if learning_rate is None else require_in("learning_rate", learning_rate, 0.0, 1e6),
        )

    def _lay_out(self, start: FloatArray) -> FLHFTLMemory:
        rate = self._settings["learning_rate"]
        if rate is None:
            rate = float(np.linalg.norm(np.asarray(self._settings["confusion"]), ord=-2)) ** 2 / (8.0 * start.size)
        self._rate = float(rate)
        memory = FLHFTLMemory(
            prior=start.copy(),
            counts=np.zeros((N_SLOTS, start.size), dtype=np.int64),
            weights=np.zeros(N_SLOTS),
            births=np.zeros(N_SLOTS, dtype=np.int64),
            deaths=np.zeros(N_SLOTS, dtype=np.int64),
            seen=np.zeros(1, dtype=np.int64),
        )
        memory.weights[0], memory.births[0], memory.deaths[0] = 1.0, 0, np.iinfo(np.int64).max
        return memory

    def _follow(self, predictions: IntArray, priors: FloatArray) -> None:
        memory: FLHFTLMemory = self._memory
        _follow_leaders(predictions, priors, *memory, self._inverse, self._start, self._rate)

    def _check_memory(self) -> None:
        super()._check_memory()
        memory: FLHFTLMemory = self._memory
        if (memory.weights < 0.0).any() or abs(float(memory.weights.sum()) - 1.0) > 1e-6:
            raise InvalidStateError("the weights of FLHFTL must be non-negative and sum to 1")


@compiled
def _follow_leaders(
    predictions: IntArray,
    priors: FloatArray,
    prior: FloatArray,
    counts: IntArray,
    weights: FloatArray,
    births: IntArray,
    deaths: IntArray,
    seen: IntArray,
    inverse: FloatArray,
    start: FloatArray,
    rate: float,
) -> None:
    n_slots, n_classes = counts.shape
    means = np.empty((n_slots, n_classes))
    losses = np.zeros(n_slots)
    mixed = np.empty(n_classes)
    for e in range(n_slots):
        if deaths[e] > 0:
            _mean_estimate(counts[e], seen[0] - births[e], inverse, start, means[e])
    for t in range(predictions.size):
        priors[t] = prior
        prediction = predictions[t]
        seen[0] += 1
        least = np.inf
        for e in range(n_slots):
            if 0 < deaths[e] <= seen[0]:  # its weight goes to the others, in proportion
                deaths[e] = 0
                weights[e] = 0.0
            if deaths[e] > 0:
                losses[e] = 0.0
                for k in range(n_classes):
                    losses[e] += (means[e, k] - inverse[k, prediction]) ** 2
                if weights[e] > 0.0:
                    least = min(least, losses[e])
        total = 0.0
        for e in range(n_slots):
            if deaths[e] > 0:
                # only ratios of weights matter: the best factor is 1, so that they never all vanish
                weights[e] *= np.exp(-rate * max(losses[e] - least, 0.0))
                total += weights[e]
                counts[e, prediction] += 1
                _mean_estimate(counts[e], seen[0] - births[e], inverse, start, means[e])
        newborn_weight = 1.0 / (seen[0] + 1.0)
        newborn = 0
        while deaths[newborn] > 0:
            newborn += 1
        for e in range(n_slots):
            weights[e] *= (1.0 - newborn_weight) / total
        power = seen[0] & -seen[0]  # 2^j, the largest power of two that divides t
        weights[newborn] = newborn_weight
        births[newborn] = seen[0]
        deaths[newborn] = seen[0] + 4 * power + 1
        counts[newborn] = 0
        means[newborn] = start
        mixed[:] = 0.0
        for e in range(n_slots):
            if deaths[e] > 0:
                for k in range(n_classes):
                    mixed[k] += weights[e] * means[e, k]
        project_to_simplex(mixed, SMALLEST_PRIOR, prior)


@compiled
def _mean_estimate(counts: IntArray, n_rows: int, inverse: FloatArray, start: FloatArray, mean: FloatArray) -> None:
    if n_rows == 0:
        mean[:] = start
        return
    for k in range(counts.size):
        mean[k] = 0.0
        for i in range(counts.size):
            mean[k] += inverse[k, i] * counts[i]
        mean[k] /= n_rows
