"""Track a binary prior from the evidence of whole batches: forgetful filters, weighted by how well they predict."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from scipy.special import expit, logsumexp, softmax

from obil.arrays import FloatArray, PriorLike, as_floats, as_prior, require_in
from obil.errors import InvalidInputError, InvalidStateError
from obil.trackers.evidence import LARGEST_LOGIT, N_NODES, BinaryEvidence

# Rows each filter remembers; None never forgets.
MEMORIES: tuple[float | None, ...] = (500, 1_500, 5_000, 15_000, 50_000, None)
# Least probability per row that the best filter changes: all are run at once and weighted by their evidence.
SWITCHING_RATES = (1e-6, 3e-4, 3e-3)
N_POINTS = 2_049  # of the grid that filters are integrated on: .014 apart in the logit
KIND = "batch_bank"
FIELDS = ("log_likelihoods", "weights", "rate_weights")


class BatchBank:
    """Track the prior of a stream from log-likelihoods of batches at Chebyshev nodes, which add up.

    The state of a filter is a log-likelihood too: it is discounted by the rows of a batch, whose log-likelihood is then
    added. Filters of several memories are weighted by how well each predicted the batches so far, at three switching
    rates at once, as `BayesBank` does row by row. The prior changes between batches only, so a batch should hold no
    more rows than the prior may lag.

    Parameters
    ----------
    prior
        The prior of two classes to start from.
    memories
        Rows each filter remembers, None for one that never forgets.
    switching_rates
        Probability per row that the best filter changes.
    start_rows
        How many rows the start prior counts for, however much is forgotten.

    >>> bank = BatchBank(0.5)
    >>> bank.update(BinaryEvidence.of([[0.0, -9.0]] * 400))  # rows that all look negative, against 30 at one half
    >>> bool(bank.prior[1] < 0.1)
    True
    """

    def __init__(
        self,
        prior: PriorLike,
        *,
        memories: Sequence[float | None] = MEMORIES,
        switching_rates: Sequence[float] = SWITCHING_RATES,
        start_rows: float = 30.0,
    ) -> None:
        self._start = as_prior(prior, n_classes=2)
        if not memories or not switching_rates:
            raise InvalidInputError("a bank needs at least one memory and one switching rate")
        self._memories = [m if m is None else require_in("a memory", m, 2.0, 1e12) for m in memories]
        self._rates = [require_in("a switching rate", r, 1e-12, 0.5) for r in switching_rates]
        self._start_rows = require_in("start_rows", start_rows, 1e-3, 1e9)
        n_filters, n_rates = len(self._memories), len(self._rates)
        self._log_likelihoods = np.zeros((n_filters, N_NODES))
        self._weights = np.full((n_rates, n_filters), 1.0 / n_filters)
        self._rate_weights = np.full(n_rates, 1.0 / n_rates)
        self._seen = 0

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return self._seen

    @property
    def prior(self) -> FloatArray:
        """The prior to decide the next batch with, (2,)."""
        means = self._posteriors() @ _grid()[0]
        positive = float(self._rate_weights @ self._weights @ means)
        return np.array([1.0 - positive, positive])

    def update(self, evidence: BinaryEvidence) -> None:
        """Update by a batch: filters that predicted it gain weight, then each adds it to its log-likelihood."""
        if evidence.n_rows == 0:
            return
        batch = _grid()[1] @ evidence.log_likelihoods
        predicted = logsumexp(np.log(np.maximum(self._posteriors(), 1e-300)) + batch, axis=1)  # (M,)
        gains = np.exp(predicted - predicted.max())
        won = self._weights * gains
        totals = won.sum(axis=1)
        mixed = self._rate_weights * totals
        n_rates, n_filters = self._weights.shape
        for j, rate in enumerate(self._rates):
            stays = (1.0 - rate) ** evidence.n_rows
            self._weights[j] = stays * won[j] / totals[j] + (1.0 - stays) / n_filters
        stays = (1.0 - min(self._rates)) ** evidence.n_rows
        self._rate_weights = stays * mixed / mixed.sum() + (1.0 - stays) / n_rates
        for m, memory in enumerate(self._memories):
            kept = 1.0 if memory is None else (1.0 - 1.0 / memory) ** evidence.n_rows
            self._log_likelihoods[m] = kept * self._log_likelihoods[m] + evidence.log_likelihoods
        self._log_likelihoods -= self._log_likelihoods.max(axis=1, keepdims=True)  # only differences matter
        self._seen += evidence.n_rows

    def state(self) -> dict[str, Any]:
        """Return everything needed to resume bit for bit, as plain JSON values."""
        return {
            "kind": KIND,
            "settings": {
                "prior": self._start.tolist(),
                "memories": list(self._memories),
                "switching_rates": list(self._rates),
                "start_rows": self._start_rows,
            },
            **{name: getattr(self, f"_{name}").tolist() for name in FIELDS},
            "rows": self._seen,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return a bank that resumes exactly where the one that made `state` stopped."""
        try:
            if state["kind"] != KIND:
                raise InvalidStateError(f"this is the state of {state['kind']!r:.40}, not of a batch bank")
            bank = cls(**state["settings"])
            saved = {name: as_floats(state[name], name) for name in FIELDS}
            rows = int(state["rows"])
        except (KeyError, TypeError, InvalidInputError) as error:
            raise InvalidStateError(f"this state of a batch bank is damaged: {error}") from None
        for name, values in saved.items():
            own = getattr(bank, f"_{name}")
            if values.shape != own.shape or not np.isfinite(values).all():
                raise InvalidStateError(f"{name} must hold finite numbers in shape {own.shape}, got {values.shape}")
            setattr(bank, f"_{name}", values)
        for weights in (*bank._weights, bank._rate_weights):
            if (weights < 0.0).any() or abs(float(weights.sum()) - 1.0) > 1e-6:
                raise InvalidStateError("the weights of a batch bank must be non-negative and sum to 1")
        if rows < 0:
            raise InvalidStateError("a batch bank cannot have seen a negative number of rows")
        bank._seen = rows
        return bank

    def _posteriors(self) -> FloatArray:
        """Return each filter's posterior over the grid, (M, G)."""
        points, from_nodes = _grid()
        negative, positive = self._start_rows * self._start
        # the Beta density times the Jacobian of the logit
        log_start = positive * np.log(points) + negative * np.log1p(-points)
        return np.asarray(softmax(self._log_likelihoods @ from_nodes.T + log_start, axis=1))


@cache
def _grid() -> tuple[FloatArray, FloatArray]:
    """Return the priors of the grid, (G,), and the map from log-likelihoods at the nodes to those on it, (G, nodes)."""
    unit = np.linspace(-1.0, 1.0, N_POINTS)
    nodes = np.cos(np.pi * (np.arange(N_NODES) + 0.5) / N_NODES)[::-1]  # chebpts1
    to_coefficients = chebvander(nodes, N_NODES - 1).T * (2.0 / N_NODES)
    to_coefficients[0] /= 2.0
    return np.asarray(expit(LARGEST_LOGIT * unit)), np.asarray(chebvander(unit, N_NODES - 1) @ to_coefficients)
