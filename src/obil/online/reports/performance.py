"""Estimate how good the decisions are before any label has come: precision, recall, F1, alerts and cost."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, expit, ndtri

from obil.arrays import FloatArray, PriorLike, as_floats, as_prior, require_in
from obil.bayes.costs import Costs
from obil.bayes.one_vs_rest import positive_class
from obil.errors import InvalidInputError
from obil.online.reports.calibration_drift import drift_of_rates
from obil.online.reports.decided_holdout import DecidedHoldout
from obil.online.reports.performance_report import Estimate, Performance, PerformanceReport, Source
from obil.online.reports.unknown_figures import with_unknown_figures
from obil.online.state.outcome_tally import ENOUGH_LABELS, LabelledPart, OutcomeTally, Part
from obil.serving.calibrators import AppliesMap, Calibrator
from obil.serving.ratio_model import RatioModel
from obil.trackers.calibration_spread import logits_of, with_calibration_spread


def performance_report(
    tally: OutcomeTally,
    model: RatioModel,
    *,
    prior: FloatArray,
    interval: FloatArray | None,
    log_threshold: float,
    positive: int,
    level: float,
    trusted: bool,
    views_agree: bool,
    one_class_labels: bool,
    costs: Costs | None,
) -> PerformanceReport:
    """Return both, from what a stream holds: see `OperatingPoint.of`, but `interval` is the tracker's own."""
    point = OperatingPoint.of(
        model,
        prior=prior,
        interval=with_calibration_spread(interval, model, prior, level),
        log_threshold=log_threshold,
        positive=positive,
        costs=costs,
        drift=drift_of_rates(model, log_threshold, positive, doubted=not (trusted and views_agree)),
        level=level,
        trusted=trusted,
    )
    both = performance_now(point), performance_over_window(tally, point)
    known = (with_unknown_figures(one, least_cost=point.cost_range[0]) for one in both)
    return PerformanceReport(*(replace(one, one_class_labels=one_class_labels) for one in known))


def performance_now(point: "OperatingPoint") -> Performance:
    """Return what is to be expected of the next rows at this prior and threshold, from the held-out rows."""
    held_out, n_classes = point.held_out, len(point.prior)
    rates = held_out.rates(held_out.ratios)
    value = point.figures(point.prior, rates)

    def under(moved: AppliesMap) -> FloatArray:
        ratios = moved.apply(held_out.scores)
        found = held_out.prior_of(ratios)
        return logits_of(np.concatenate([found, point.figures(found, held_out.rates(ratios))]))

    variance = np.nan_to_num(point.calibrator.variance_of(under))
    changes = []
    for k, ends in enumerate(point.own_ends(variance[:n_classes])):
        moved = np.stack([point.figures(_with_class_prior(point.prior, k, end), rates) for end in ends])
        # so weighted, the classes' moves add up to the covariance of a Dirichlet: to one move if there are two
        changes.append(np.sqrt(1.0 - point.prior[k]) * (moved - value))
    for axis in point.z * _principal_axes(held_out.rates_covariance(rates)):
        both = np.clip(rates + np.stack([-axis, axis]), 0.0, 1.0)
        changes.append(np.stack([point.figures(point.prior, moved_rates) for moved_rates in both]) - value)
    changes += point.under_drift(point.masses(point.prior, rates), value, point.drift)
    return point.performance(value, variance[n_classes:], changes, ("expected",) * 5)


def performance_over_window(tally: OutcomeTally, point: "OperatingPoint") -> Performance:
    """Return how good the decisions over about the last `tally.memory` rows were.

    Where enough of them are labelled by now the labels say it, otherwise the posteriors they were decided
    with. The interval is for what really happened on these rows.
    """
    held_out, n_classes = point.held_out, len(point.prior)
    parts = (tally.alerted, tally.quiet)
    totals = np.array([part.total for part in parts])
    n_rows = float(totals.sum())
    if n_rows == 0.0:
        return point.performance(np.full(5, np.nan), np.zeros(5), [], ("expected",) * 5)
    labels = [tally.labelled(alerted=alerted) for alerted in (True, False)]
    expected = np.array([part.positives / part.total if part.total else 0.0 for part in parts])
    by_label = _has_enough(labels, expected) & (totals > 0.0)
    rates = np.where(by_label, [one.rate for one in labels], expected)  # (2,) of positives: alerted, quiet

    def masses(positive_rates: FloatArray) -> FloatArray:
        positives = totals * positive_rates
        (hits, misses), (false_alarms, quiet) = positives / n_rows, (totals - positives) / n_rows
        return np.array([hits, false_alarms, misses, quiet])

    def figures(positive_rates: FloatArray) -> FloatArray:
        return point.figures_of(masses(positive_rates))

    def shifted(logit_shift: FloatArray) -> FloatArray:
        """Return the figures with the expected rates moved on the logit scale; labels do not move with them."""
        return figures(np.where(by_label, rates, expit(logits_of(rates) + np.nan_to_num(logit_shift))))

    value = figures(rates)
    centre = logits_of(held_out.stream_rates(held_out.ratios, point.prior, point.positive))

    def under(moved: AppliesMap) -> FloatArray:
        ratios = moved.apply(held_out.scores)
        found = held_out.prior_of(ratios)
        shift = logits_of(held_out.stream_rates(ratios, found, point.positive)) - centre
        return logits_of(np.concatenate([found, shifted(shift)]))

    variance = np.nan_to_num(point.calibrator.variance_of(under))
    slopes = np.array([_logit_slope(part) for part in parts])
    ends = logits_of(point.own_ends(variance[:n_classes])[point.positive])
    # The current prior may have just changed; that of the remembered rows is as certain as those rows can make it:
    # half of them, for each posterior knows only the rows before it.
    limit = point.z / np.sqrt(_information(parts) / 2.0)
    moves = np.clip(ends - logits_of(point.prior)[point.positive], -limit, limit)
    lag = _lag(tally.surprise, parts)
    moves = moves + np.array([min(lag, 0.0), max(lag, 0.0)])  # how far those posteriors lagged is part of the doubt
    changes = [np.stack([shifted(move * slopes) for move in moves]) - value]
    for j, part in enumerate(parts):
        if by_label[j]:
            ends = _rate_ends(labels[j], point.level)
        else:  # what happened differs from what was to be expected
            spread = point.z * np.sqrt(part.noise) / part.total if part.total else 0.0
            ends = np.clip([expected[j] - spread, expected[j] + spread], 0.0, 1.0)
        changes.append(np.stack([figures(np.where(np.arange(2) == j, end, rates)) for end in ends]) - value)
    changes += point.under_drift(masses(rates), value, np.where(by_label, 0.0, point.drift))
    alerts_by: Source = "labels" if by_label[0] else "expected"
    all_by: Source = alerts_by if by_label[0] == by_label[1] else "both"
    sources: tuple[Source, ...] = (alerts_by, all_by, all_by, "counted", all_by)
    n_labels = labels[0].n_effective + labels[1].n_effective
    return point.performance(value, variance[n_classes:], changes, sources, n_rows=n_rows, n_labels=n_labels)


@dataclass(frozen=True, slots=True, eq=False)
class OperatingPoint:
    """A prior and what is known of it, a threshold and costs, checked, with the held-out rows decided there."""

    held_out: DecidedHoldout
    calibrator: Calibrator
    prior: FloatArray  # (K,)
    interval: FloatArray  # (K, 2)
    positive: int
    cost_range: tuple[float, float]
    cost_weights: FloatArray | None  # (4,) of hits, false alarms, misses and quiet, from 0 to 1
    drift: FloatArray  # (2,) standard deviation of the logit of the rate of positives, alerted and quiet
    level: float
    trusted: bool

    @classmethod
    def of(
        cls,
        model: RatioModel,
        *,
        prior: PriorLike,
        interval: npt.ArrayLike | None,
        log_threshold: float,
        positive: int | None = None,
        costs: Costs | None = None,
        drift: npt.ArrayLike = (0.0, 0.0),
        level: float = 0.9,
        trusted: bool = True,
    ) -> "OperatingPoint":
        """Return the operating point of a model.

        The prior (K,) has an interval (K, 2) at `level` with the calibrator's uncertainty in it; without one it counts
        as known. The threshold is on the log ratio of the positive class against the rest; the costs are of those two.
        """
        at = as_prior(prior, n_classes=model.n_classes)
        chosen = positive_class(positive, n_classes=model.n_classes)
        ends = np.stack([at, at], axis=1) if interval is None else as_floats(interval, "interval")
        shape = (model.n_classes, 2)
        if ends.shape != shape or not ((ends >= 0.0) & (ends <= 1.0) & (ends <= ends[:, 1:])).all():
            raise InvalidInputError(
                f"interval must hold lower and upper ends in [0, 1], shape {shape}, got {ends!r:.80}"
            )
        threshold = float(as_floats(log_threshold, "log_threshold"))
        if np.isnan(threshold):
            raise InvalidInputError("log_threshold must be a number, got NaN")
        cost_range, weights = (0.0, 1.0), None
        if costs is not None:
            if costs.n_classes != 2:
                raise InvalidInputError(f"costs must be those of two classes (rest, positive), got {costs.n_classes}")
            (quiet, miss), (false_alarm, hit) = costs.matrix.tolist()
            entries = np.array([hit, false_alarm, miss, quiet])
            cost_range = (float(entries.min()), float(entries.max()))
            weights = (entries - entries.min()) / np.ptp(entries)
        held_out, level = DecidedHoldout.of(model, at, threshold, chosen), require_in("level", level, 1e-6, 1.0 - 1e-6)
        doubt = as_floats(drift, "drift")
        return cls(held_out, model.calibrator, at, ends, chosen, cost_range, weights, doubt, level, bool(trusted))

    @property
    def z(self) -> float:
        """How many standard deviations the level reaches."""
        return float(ndtri((1.0 + self.level) / 2.0))

    def figures(self, prior: FloatArray, rates: FloatArray) -> FloatArray:
        """Return the figures (5,) of a stream with this prior (K,) that alerts these fractions of the classes, (K,)."""
        return self.figures_of(self.masses(prior, rates))

    def masses(self, prior: FloatArray, rates: FloatArray) -> FloatArray:
        """Return the fractions of a stream that are hits, false alarms, misses and quiet, (4,)."""
        alerts, quiet = prior * rates, prior * (1.0 - rates)
        rest = np.arange(len(prior)) != self.positive
        return np.array([alerts[self.positive], alerts[rest].sum(), quiet[self.positive], quiet[rest].sum()])

    def under_drift(self, masses: FloatArray, value: FloatArray, drift: FloatArray) -> list[FloatArray]:
        """Return what drift (2,) of the rates of positives, alerted and quiet, changes in the figures, (2, 5) each."""
        changes = []
        for j in np.flatnonzero(drift > 0.0).tolist():
            part = slice(2 * j, 2 * j + 2)
            total = masses[part].sum()
            moved = []
            for end in (-self.z, self.z):
                rate = expit(logits_of(masses[part][:1] / total) + end * drift[j])[0] if total > 0.0 else 0.0
                shifted = masses.copy()
                shifted[part] = total * rate, total * (1.0 - rate)
                moved.append(self.figures_of(shifted))
            changes.append(np.stack(moved) - value)
        return changes

    def figures_of(self, masses: FloatArray) -> FloatArray:
        """Return precision, recall, F1, alert rate and cost, (5,), of hits, false alarms, misses and quiet rows, (4,).

        The cost is scaled: 0 is the least, 1 the most that a row can cost.
        """
        hits, false_alarms, misses, _ = masses
        cost = 0.0 if self.cost_weights is None else masses @ self.cost_weights
        above = np.array([hits, hits, 2.0 * hits, hits + false_alarms, cost])
        below = np.array([hits + false_alarms, hits + misses, 2.0 * hits + false_alarms + misses, 1.0, 1.0])
        return np.asarray(np.divide(above, below, out=np.full(5, np.nan), where=below > 0.0))

    def own_ends(self, calibration_variance: FloatArray) -> FloatArray:
        """Return the interval (K, 2) without the calibrator's part of it, which moves more than the prior."""
        centre = logits_of(self.prior)[:, None]
        offsets = logits_of(self.interval) - centre
        offsets = np.stack([np.minimum(offsets[:, 0], 0.0), np.maximum(offsets[:, 1], 0.0)], axis=1)
        left = np.sqrt(np.maximum(offsets**2 - self.z**2 * calibration_variance[:, None], 0.0))
        return np.asarray(expit(centre + np.sign(offsets) * left))

    def performance(
        self,
        value: FloatArray,
        logit_variance: FloatArray,
        changes: Sequence[FloatArray],
        sources: Sequence[Source],
        *,
        n_rows: float = 0.0,
        n_labels: float = 0.0,
    ) -> Performance:
        """Put together figures (5,), the calibrator's variance of their logits, and what other doubts change, (2, 5).

        On each side the squares of the changes are added, so that unequal sides stay unequal.
        """

        def moved(width: float) -> FloatArray:
            return np.asarray(expit(logits_of(value) + width * np.sqrt(logit_variance)))

        doubts = np.nan_to_num(np.stack([[moved(-self.z) - value, moved(self.z) - value], *changes]))
        up = np.sqrt((np.maximum(doubts, 0.0).max(axis=1) ** 2).sum(axis=0))
        down = np.sqrt((np.minimum(doubts, 0.0).min(axis=1) ** 2).sum(axis=0))
        # The mean over what the calibrator may be, at three points of a normal distribution. Why: a threshold
        # rests on the same calibrator, so that at a rare prior the figures as they stand promise too much.
        mean = value + (moved(np.sqrt(3.0)) + moved(-np.sqrt(3.0)) - 2.0 * value) / 6.0
        mean = np.where(logit_variance > 0.0, mean, value)
        low = np.where(np.isnan(value), 0.0, np.maximum(mean - down, 0.0))
        high = np.where(np.isnan(value), 1.0, np.minimum(mean + up, 1.0))
        precision, recall, f1, alert_rate, cost = (
            Estimate(float(mean[j]), float(low[j]), float(high[j]), source) for j, source in enumerate(sources)
        )
        least, most = self.cost_range
        money = [least + (most - least) * one for one in (cost.value, cost.low, cost.high)]
        in_money = None if self.cost_weights is None else Estimate(money[0], money[1], money[2], cost.source)
        return Performance(
            precision, recall, f1, alert_rate, in_money, self.level, self.trusted, n_rows=n_rows, n_labels=n_labels
        )


def _with_class_prior(prior: FloatArray, k: int, probability: float) -> FloatArray:
    """Return the prior with class k at a probability, and the others in proportion, (K,)."""
    moved: FloatArray = prior * ((1.0 - probability) / np.delete(prior, k).sum())  # 1 - prior[k] may round to 0
    moved[k] = probability
    return moved


def _principal_axes(covariance: FloatArray) -> FloatArray:
    """Return one standard deviation along each principal axis, (K, K)."""
    variances, axes = np.linalg.eigh(covariance)
    deviations: FloatArray = (axes * np.sqrt(np.maximum(variances, 0.0))).T
    return deviations


def _logit_slope(part: Part) -> float:
    """Return how far the logit of the expected rate of positives moves with that of the prior."""
    doubt = part.positives * (part.total - part.positives)
    return part.slope * part.total / doubt if doubt > 0.0 else 0.0


def _information(parts: Sequence[Part]) -> float:
    """Return what rows tell of the logit of their common prior: the sum of (posterior - mean posterior)^2."""
    total, positives = sum(part.total for part in parts), sum(part.positives for part in parts)
    return max(positives - sum(part.slope for part in parts) - positives**2 / total, 1e-9)


def _lag(surprise: float, parts: Sequence[Part]) -> float:
    """Return how far the priors that rows were decided with lagged, on the logit scale, beyond what chance explains.

    At the right priors the expected positives are those that the priors stood for, up to chance. What they are
    beyond is worth a Newton step of the likelihood, shrunk (as by James and Stein) where it may be chance. The
    information at those priors may be smaller than by the posteriors' spread, for a lag is rarely even: then it counts.
    """
    total, positives = sum(part.total for part in parts), sum(part.positives for part in parts)
    prior = (positives - surprise) / total  # the mean that they were decided with
    spread = _information(parts)
    information = np.clip(total * prior * (1.0 - prior) - sum(part.slope for part in parts), spread / 4.0, spread)
    kept = max(1.0 - information / max(surprise**2, 1e-12), 0.0)
    return float(kept * surprise / information)


def _has_enough(labels: Sequence[LabelledPart], expected: FloatArray) -> npt.NDArray[np.bool_]:
    """Return whether labels replace what is expected of the alerted and of the quiet rows, (2,).

    Among quiet rows positives are rare: there it takes so many labels that enough positives were found, or
    would have been if things were as expected.
    """
    alerted, quiet = labels
    missed = quiet.n_effective * np.fmax(quiet.rate, expected[1])
    return np.array([alerted.n_effective >= ENOUGH_LABELS, missed >= ENOUGH_LABELS])


def _rate_ends(labelled: LabelledPart, level: float) -> FloatArray:
    """Return the ends of the Jeffreys interval of a rate, (2,)."""
    tail = (1.0 - level) / 2.0
    positives = labelled.n_effective * labelled.rate
    return np.asarray(betaincinv(positives + 0.5, labelled.n_effective - positives + 0.5, [tail, 1.0 - tail]))
