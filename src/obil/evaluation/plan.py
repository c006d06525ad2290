"""Plan a deployment from held-out scores: what adapting saves, how soon, what labels and the monitor can tell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, expit, logit, ndtr, ndtri

from obil.arrays import FloatArray, as_floats, as_integer, require_in
from obil.bayes.costs import Costs
from obil.bayes.one_vs_rest import positive_class
from obil.errors import InvalidInputError
from obil.evaluation.monitor_delays import monitor_delays
from obil.evaluation.operating_points import costs_of
from obil.evaluation.scored_rows import WITHIN, ScoredRows, first_rows
from obil.online.decision_rule import DecisionRule, class_number
from obil.policies import BoundPolicy, CostPolicy, Policy
from obil.readable import JsonRecord, Table, as_html, as_text
from obil.serving.ratio_model import as_ratio_model

SAVED = 0.8  # of what the true prior would save; a threshold at random can bring half
LARGEST_SEPARATION = 4.0  # standard deviations between two Gaussian classes, an AUC of .998
N_QUANTILES = 32  # of an estimate of the prior
N_DRAWS = 4_000  # of the counts of labels


@dataclass(frozen=True, slots=True)
class PlannedPrior(JsonRecord):
    """What to expect where the prior of the positive class is this one; None where no number of rows is enough."""

    prior: float
    rows_to_know: int | None  # without labels, until the mean interval of the prior ends within 20 % of it
    saving: float  # in costs per 1,000 rows: this prior's threshold against that of the training prior
    rows_to_save: int | None  # likewise, until a threshold at the estimate brings 80 % of the saving, on average
    least_auc: float | None  # of two Gaussian classes, from which on it does within the rows of the plan
    alert_rate: float
    precision: float | None  # None where nothing is alerted
    recall: float
    precision_width: float | None  # of the interval from the labels, of rows drawn at random; None: no alert among them
    recall_width: float | None
    precision_width_of_alerts: float | None  # if only alerts are labelled


@dataclass(frozen=True, slots=True)
class Plan(JsonRecord):
    """A plan for one model: see `plan`.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 50, [0, 0, 0, 1, 1, 1] * 50)
    >>> print(plan(model, priors=[0.1]).tables()[1].title)
    200 labels
    """

    positive: Any
    training_prior: float
    auc: float
    costs: tuple[float, float]  # of a false alarm and of a miss
    n_labels: int
    n_rows: int
    level: float
    priors: tuple[PlannedPrior, ...]
    delays: dict[str, int | None]  # by change, median rows until the monitor's alarm

    def __str__(self) -> str:
        return "\n\n".join(as_text(table) for table in self.tables())

    def _repr_html_(self) -> str:
        return "".join(as_html(table) for table in self.tables())

    def tables(self) -> tuple[Table, Table, Table]:
        """Return what adapting brings, what labels bring, and what the monitor detects."""
        one = self.priors
        adapting = Table(
            f"Adapting, from the training prior {self.training_prior:.3g} of {self.positive!s:.60}",
            ("prior", "saves per 1,000 rows", "from row", "known from row", f"AUC to save by row {self.n_rows:,}"),
            [
                (f"{p.prior:.3g}", f"{p.saving:.3g}", _rows(p.rows_to_save), _rows(p.rows_to_know), _auc(p.least_auc))
                for p in one
            ],
            (
                f"AUC of the held-out rows: {self.auc:.3f}. A false alarm costs {self.costs[0]:g}, a miss "
                f"{self.costs[1]:g}.",
                f"An estimate from the rows before saves {100 * SAVED:.0f} % of that, and is known once its "
                f"{100 * self.level:.3g} % interval ends within {100 * WITHIN:.0f} % of the prior.",
            ),
        )
        labels = Table(
            f"{self.n_labels:,} labels",
            ("prior", "alerts", "precision", "width", "width, of alerts", "recall", "width"),
            [
                (
                    f"{p.prior:.3g}", f"{100 * p.alert_rate:.3g} %", _fraction(p.precision),
                    _fraction(p.precision_width), _fraction(p.precision_width_of_alerts), _fraction(p.recall),
                    _fraction(p.recall_width),
                )
                for p in one
            ],
            (
                f"Widths of {100 * self.level:.3g} % intervals from labels of rows drawn at random, or of alerts only.",
            ),
        )  # fmt: skip
        monitor = Table(
            "The monitor", ("change", "rows until the alarm"), [(name, _rows(n)) for name, n in self.delays.items()]
        )
        return adapting, labels, monitor


def plan(
    model: Any,
    *,
    priors: Sequence[float] | None = None,
    policy: Policy | str | None = None,
    costs: Costs | None = None,
    positive: Any = None,
    n_labels: int = 200,
    n_rows: int = 10_000,
    level: float = 0.9,
    random_state: int = 0,
) -> Plan:
    """Say before deployment, from held-out scores alone, what adapting to a moving prior would bring.

    The held-out rows are taken as the truth about p(score | class). With few of them, or where more than the prior
    moves, it will be worse: `backtest` says so on your own history.

    Parameters
    ----------
    model
        A fitted `RatioClassifier` or `OBILClassifier`, or what `obil.load` returns.
    priors
        Of the positive class, to plan for; a quarter of its training odds to four times them if None.
    policy, costs
        The rule for the threshold, as in `OnlineClassifier`; equal costs if None. What a policy other than costs saves
        is counted in errors.
    positive
        The class that is alerted on; `classes_[1]` of two if None.
    n_labels
        How many rows will be labelled.
    n_rows
        Within which adapting should bring most of what it can save.
    level
        Of the intervals.
    random_state
        Of the streams that the monitor is tried on, and of the counts of labels.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 50, [0, 0, 0, 1, 1, 1] * 50)
    >>> found = plan(model, priors=[0.1], costs=Costs(false_positive=1, false_negative=1))
    >>> found.priors[0].saving > 0, found.priors[0].rows_to_save < 1_000
    (True, True)
    """
    fitted = as_ratio_model(model)
    if policy is not None and costs is not None:
        raise InvalidInputError("give costs or a policy, not both: a cost policy is CostPolicy(costs)")
    require_in("level", level, 0.5, 0.999)
    n_labels, n_rows = as_integer("n_labels", n_labels, 1), as_integer("n_rows", n_rows, 1)
    seed = as_integer("random_state", random_state, 0, 2**32 - 1)
    chosen = positive_class(class_number(positive, fitted), n_classes=fitted.n_classes)
    training = float(fitted.prior_[chosen])
    asked = _around(training) if priors is None else _as_priors(priors)
    rule = DecisionRule(fitted, policy if costs is None else CostPolicy(costs), chosen)
    bound: BoundPolicy = rule.bound  # type: ignore[assignment]  # a rule for one class always has one
    unit_costs = costs_of(rule.policy)
    rows = ScoredRows.of(fitted.holdout_, fitted.prior_, chosen)
    # labels count what is saved, for that shows where the ratios are wrong; how fast hardly does: posteriors are smooth
    smooth = ScoredRows.of(fitted.holdout_, fitted.prior_, chosen, soft=True)
    evidence = ScoredRows.of(fitted.evidence_holdout, fitted.prior_, chosen, soft=True)
    rng = np.random.default_rng(seed)
    planned = []
    for prior in sorted(asked):
        cost = rows.cost_at(prior, unit_costs)
        static, best = cost(bound.log_thresholds([training, prior])).tolist()
        alerts, precision, recall = rows.rates_at(prior, bound.log_threshold(prior))
        widths = _label_widths(n_labels, prior, alerts, precision, recall, level, rng)
        planned.append(
            PlannedPrior(
                prior, evidence.rows_to_know(prior, level), 1_000.0 * (static - best),
                _rows_to_save(smooth.cost_at(prior, unit_costs), bound, evidence, prior, training),
                _least_auc(bound, unit_costs, prior, training, n_rows) if isinstance(rule.policy, CostPolicy) else None,
                alerts, precision, recall, *widths,
            )
        )  # fmt: skip
    matrix = unit_costs.matrix
    return Plan(
        fitted.classes_.tolist()[chosen], training, rows.auc, (float(matrix[1, 0]), float(matrix[0, 1])),
        n_labels, n_rows, level, tuple(planned),
        monitor_delays(fitted, positive=chosen, random_state=seed),
    )  # fmt: skip


def _rows_to_save(
    cost: Callable[[FloatArray], FloatArray], bound: BoundPolicy, evidence: ScoredRows, prior: float, training: float
) -> int | None:
    """Return how many rows an estimate of the prior needs to bring most of what the true one would save."""
    static, best = cost(bound.log_thresholds([training, prior])).tolist()
    if static - best <= 1e-9 * static:
        return None
    spread = 1.0 / np.sqrt(max(evidence.information(prior), 1e-300))
    normal = ndtri((np.arange(N_QUANTILES) + 0.5) / N_QUANTILES)

    def saves(n_rows: int) -> bool:
        estimates = expit(np.clip(logit(prior) + spread / np.sqrt(n_rows) * normal, -14.0, 14.0))
        return bool(static - cost(bound.log_thresholds(estimates)).mean() >= SAVED * (static - best))

    return first_rows(saves)


def _least_auc(bound: BoundPolicy, costs: Costs, prior: float, training: float, n_rows: int) -> float | None:
    """Return the AUC of the least separated Gaussian pair that saves most of it within so many rows."""

    def saves(separation: float) -> bool:
        pair = ScoredRows.gaussian(separation)
        needed = _rows_to_save(pair.cost_at(prior, costs), bound, pair, prior, training)
        return needed is not None and needed <= n_rows

    low, high = 0.0, LARGEST_SEPARATION
    if not saves(high):
        return None
    while high - low > 0.02:
        middle = (low + high) / 2.0
        low, high = (low, middle) if saves(middle) else (middle, high)
    return float(ndtr(high / np.sqrt(2.0)))


def _label_widths(
    n_labels: int,
    prior: float,
    alerts: float,
    precision: float | None,
    recall: float,
    level: float,
    rng: np.random.Generator,
) -> tuple[float | None, float | None, float | None]:
    """Return the mean widths of Jeffreys' intervals: precision, recall, and precision with labels of alerts only."""
    n_alerts, n_positive = rng.binomial(n_labels, alerts, N_DRAWS), rng.binomial(n_labels, prior, N_DRAWS)
    of_alerts, right = np.full(N_DRAWS, 0 if precision is None else n_labels), precision or 0.0
    pairs = ((n_alerts, right), (n_positive, recall), (of_alerts, right))
    found = [_mean_width(rng.binomial(n, rate), n, level) for n, rate in pairs]
    return found[0], found[1], found[2]


def _mean_width(hits: Any, n: Any, level: float) -> float | None:
    some = n > 0
    if not some.any():
        return None
    a, b = hits[some] + 0.5, n[some] - hits[some] + 0.5
    return float(np.mean(betaincinv(a, b, (1.0 + level) / 2.0) - betaincinv(a, b, (1.0 - level) / 2.0)))


def _as_priors(priors: Sequence[float]) -> list[float]:
    values = as_floats(priors, "priors")
    if values.ndim != 1 or not values.size:
        raise InvalidInputError(f"priors must be a list of one prior or more, got {priors!r:.80}")
    return [require_in("a prior", one, 1e-6, 1.0 - 1e-6) for one in values.tolist()]


def _around(prior: float) -> list[float]:
    return [float(one) for one in expit(logit(prior) + np.log(4.0) * np.linspace(-1.0, 1.0, 5))]


def _rows(n: int | None) -> str:
    return "never" if n is None else f"{n:,}"


def _auc(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _fraction(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
