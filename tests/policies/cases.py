"""Held-out rows and policies for several tests."""

import numpy as np

from obil.bayes.costs import Costs
from obil.datasets.gaussian_stream import GaussianClasses
from obil.policies import AlertBudget, CostPolicy, FBetaPolicy, GMeanPolicy, Policy, PrecisionFloor, RecallFloor
from obil.serving.holdout import Holdout

SEPARATION = 2.5

POLICIES: list[Policy] = [
    CostPolicy(),
    CostPolicy(Costs(false_positive=1.0, false_negative=30.0, true_positive=0.5)),
    CostPolicy(Costs.from_matrix([[0, 1, 2], [1, 0, 1], [3, 1, 0]], classes=["a", "b", "c"])),
    FBetaPolicy(),
    FBetaPolicy(2),
    GMeanPolicy(),
    RecallFloor(0.9),
    PrecisionFloor(0.8),
    AlertBudget(0.01),
]
TABLED: list[Policy] = [policy for policy in POLICIES if not isinstance(policy, CostPolicy)]


def gaussian_holdout(n_rows: int = 20_000, *, prior: float = 0.05, seed: int = 0) -> Holdout:
    """Return held-out rows whose log ratios are exact."""
    stream = GaussianClasses.pair(SEPARATION).draw(np.full(n_rows, prior), random_state=seed)
    return Holdout.of(stream.log_ratios, stream.labels)


def binary_rows(log_ratios: list[float] | np.ndarray) -> np.ndarray:
    """Return log ratios (n, 2) whose column 1 is given."""
    column = np.asarray(log_ratios, dtype=np.float64)
    return np.stack([np.zeros(len(column)), column], axis=1)
