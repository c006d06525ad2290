"""The compiled bank is the algorithm of the design, written out plainly."""

import numpy as np
import pytest

from obil.arrays import FloatArray
from obil.trackers import BayesBank
from tests.trackers.cases import start_prior

MEMORIES = (50, 150, 500, 1_500, 5_000, 15_000, 50_000, None)
FLOORS = np.array([1e-6, 3e-4, 3e-3])


def matched(counts: FloatArray, responsibilities: FloatArray) -> FloatArray:
    """Return the Dirichlet with the mean and second moment of the exact posterior, as the design states them."""
    total = counts.sum()
    mean = (counts + responsibilities) / (total + 1.0)
    later = (1.0 - responsibilities) * counts * (counts + 1.0) + responsibilities * (counts + 1.0) * (counts + 2.0)
    second = later.sum() / ((total + 1.0) * (total + 2.0))
    return np.asarray((1.0 - second) / (second - (mean**2).sum()) * mean)


def distance(one: FloatArray, other: FloatArray) -> float:
    if one.size == 2:
        return float(abs(np.log(one[1] / one[0]) - np.log(other[1] / other[0])))
    return float(abs(one - other).sum())


def plain_bank(rows: FloatArray, start: FloatArray, n_snapshots: int) -> FloatArray:
    """Return the prior before each row and after the last, (n + 1, K)."""
    fixed = 10.0 * start
    filters = [fixed.copy() for _ in MEMORIES]
    snapshots: list[FloatArray] = []
    visits: list[int] = []
    weights = np.full((3, len(filters)), 1.0 / len(filters))
    uses = weights.copy()
    rates = np.full(3, 1.0 / 3.0)
    priors = [start]
    for t, row in enumerate(rows):
        experts = np.array([counts / counts.sum() for counts in filters] + snapshots)
        ratios = np.exp(row - row.max())
        evidence = experts @ ratios
        rate_evidence = weights @ evidence
        switch_rate = np.maximum(1.0 / (t + 2.0), FLOORS)[:, None]
        past = uses / uses.sum(axis=1, keepdims=True)
        weights = (1.0 - switch_rate) * weights * evidence / rate_evidence[:, None]
        weights = weights + switch_rate * (past / 2.0 + 1.0 / (2.0 * len(experts)))
        uses = uses + weights
        least = max(1.0 / (t + 2.0), 1e-6)
        rates = (1.0 - least) * rates * rate_evidence / (rates @ rate_evidence) + least / 3.0
        for m, memory in enumerate(MEMORIES):
            kept = 1.0 if memory is None else 1.0 - 1.0 / memory
            responsibilities = experts[m] * ratios / evidence[m]
            filters[m] = kept * matched(filters[m], responsibilities) + (1.0 - kept) * 0.02 * fixed
        experts = np.array([counts / counts.sum() for counts in filters] + snapshots)
        prior = rates @ weights @ experts
        if (t + 1) % 100 == 0 and n_snapshots:
            distances = [distance(prior, kept) for kept in snapshots]
            if distances and min(distances) < 0.3:  # seen before: average it in
                slot = int(np.argmin(distances))
                visits[slot] += 1
                snapshots[slot] = snapshots[slot] + (prior - snapshots[slot]) / visits[slot]
            elif len(snapshots) < n_snapshots:
                snapshots.append(prior)
                visits.append(1)
                weights = np.column_stack([weights, np.zeros(3)])
                uses = np.column_stack([uses, np.zeros(3)])
            else:
                slot = int(np.argmin((rates @ uses)[len(filters) :]))
                snapshots[slot], visits[slot] = prior, 1
                weights[:, len(filters) + slot] = uses[:, len(filters) + slot] = 0.0
                weights = weights / weights.sum(axis=1, keepdims=True)
            experts = np.array([counts / counts.sum() for counts in filters] + snapshots)
            prior = rates @ weights @ experts
        priors.append(prior / prior.sum())
    return np.array(priors)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("n_snapshots", [0, 2, 8])
def test_the_compiled_bank_agrees_with_the_plain_one(n_classes: int, n_snapshots: int) -> None:
    # seed 0: regimes of 250 rows, so that snapshots are stored, used again and, with room for two, replaced
    rng = np.random.default_rng(0)
    rows = rng.normal(scale=1.5, size=(2_000, n_classes))
    rows[:, 0] = 0.0
    for block, part in enumerate(np.split(rows, 8)):
        part[:, 1 + block % (n_classes - 1)] += (3.0, -2.0, 0.5, -4.0)[block % 4]
        part[:, -1] += (-2.0, 4.0)[block % 2]
    bank = BayesBank(start_prior(n_classes), n_snapshots=n_snapshots)
    found = np.vstack([bank.update_many(rows), bank.prior])
    # tolerance: the same sums in another order, 2,000 times over
    np.testing.assert_allclose(found, plain_bank(rows, start_prior(n_classes), n_snapshots), atol=1e-9)
    if n_snapshots:
        assert bank.state()["memory"]["seen"][1] >= 2
