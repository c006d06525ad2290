"""Estimate a prevalence from the verdicts of an imperfect judge, and a few items whose truth is known too."""

import warnings
from collections import Counter
from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc

from obil.arrays import IntArray, as_floats, as_integer, require_in, shown
from obil.bayes.judged_prevalence import JudgedPrevalence
from obil.errors import InvalidInputError
from obil.trackers.evidence import PriorEstimate

MOST_COUNTED = 20_000  # judged items: the time grows with their square, and labels decide long before
MOST_BINS = 100
UNLIKELY = 1e-3


def prevalence_from_judge(
    verdicts: Any,
    labelled_verdicts: Any,
    labels: npt.ArrayLike,
    *,
    random_sample: bool = False,
    bins: int | None = None,
    level: float = 0.9,
) -> PriorEstimate:
    """Return the prevalence among items that only a judge has seen, with a credible interval.

    A judge is whatever gives verdicts with errors: a language model, a diagnostic test, a rule. Its error rates are
    learned from the labelled items and integrated out exactly, so that few labels make a wide interval and not a wrong
    one. Only p(verdict | truth) must be the same for labelled and judged items: their prevalences may differ.

    The estimate is the posterior median. Priors are Jeffreys': Beta(1/2, 1/2) of sensitivity, specificity and
    prevalence; the prevalence is uniform for a random sample, where truth and verdict are one multinomial.

    Parameters
    ----------
    verdicts
        Verdicts on the items without a label, (n,): any values, such as "yes", "no" and "unsure". Of several judges, a
        column each, (n, J): every pattern of verdicts is then a verdict of its own, so that judges may err together.
    labelled_verdicts
        Verdicts on the labelled items, (m,) or (m, J). These are not among `verdicts`.
    labels
        The truth of the labelled items, (m,), of two classes.
    random_sample
        Whether the labelled items are a random sample of the same items as the judged ones. Then they tell the
        prevalence by themselves, too, and the interval is much narrower. It is wrong if they were chosen otherwise:
        a warning tells where verdicts show it.
    bins
        How many bins of about equal size to divide scores into, one by one of each judge; verdicts are left as they are
        if None.
    level
        Level of the interval.

    >>> seen = ["yes"] * 9 + ["no"] * 11
    >>> truth = [1] * 8 + [0] + [1] * 2 + [0] * 9  # half of the labelled items are positive, 17 of 20 verdicts right
    >>> found = prevalence_from_judge(["yes"] * 60 + ["no"] * 240, seen, truth)
    >>> found.prior.round(2), found.interval[1].round(2)  # a fifth of the verdicts is "yes", some of them wrongly
    (array([0.88, 0.12]), array([0.  , 0.29]))
    >>> found = prevalence_from_judge(["yes"] * 150 + ["no"] * 150, seen, truth, random_sample=True)
    >>> found.prior.round(2), found.interval[1].round(2)
    (array([0.47, 0.53]), array([0.39, 0.66]))
    """
    require_in("level", level, 1e-6, 1.0 - 1e-6)
    judged, seen = _columns(verdicts, "verdicts"), _columns(labelled_verdicts, "labelled_verdicts")
    if judged.shape[1] != seen.shape[1]:
        raise InvalidInputError(
            f"verdicts are of {judged.shape[1]} judges and labelled_verdicts of {seen.shape[1]}: give the same judges"
        )
    classes, truth = _two_classes(labels)
    if len(truth) != len(seen):
        raise InvalidInputError(
            f"each labelled item has a verdict: got {len(seen):,} verdicts and {len(truth):,} labels"
        )
    if bins is not None:
        judged, seen = _binned(judged, seen, as_integer("bins", bins, 2, MOST_BINS))
    labelled_counts, judged_counts = _counts(judged, seen, truth)
    if random_sample:
        _warn_of_another_sample(labelled_counts.sum(axis=0), judged_counts)
    posterior = JudgedPrevalence.from_verdicts(
        labelled_counts, _thinned(judged_counts), random_sample=bool(random_sample)
    )
    low, middle, high = posterior.quantiles([(1.0 - level) / 2.0, 0.5, (1.0 + level) / 2.0]).tolist()
    interval = np.array([[1.0 - high, 1.0 - low], [low, high]])
    return PriorEstimate(np.array([1.0 - middle, middle]), interval, level, len(judged), classes)


def _columns(verdicts: Any, name: str) -> npt.NDArray[Any]:
    """Return verdicts as an array (n, J) of the caller's own values."""
    values = np.asarray(verdicts) if hasattr(verdicts, "__array__") else np.array(verdicts, dtype=object)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or not values.size:
        raise InvalidInputError(
            f"{name} must hold a verdict on each item, (n,), or a column for each judge, (n, J), got {values.shape}"
        )
    for item, row in enumerate(values.tolist()):
        if any(map(_is_missing, row)):
            raise InvalidInputError(f"{name} has no verdict on item {item}: give a missing verdict a name of its own")
    return values


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # noqa: PLR0124  # NaN is not equal to itself
    except (TypeError, ValueError):  # pandas' NA is neither true nor false
        return True


def _two_classes(labels: npt.ArrayLike) -> tuple[tuple[Any, Any], IntArray]:
    """Return both classes in order, and the number of each label's, (m,)."""
    values = np.asarray(labels)
    if values.ndim != 1 or not values.size:
        raise InvalidInputError(f"labels must be the truth of each labelled item, (m,), got shape {values.shape}")
    if any(map(_is_missing, values.tolist())):
        raise InvalidInputError("labels must be known: leave out labelled items without a truth")
    try:
        known = sorted(set(values.tolist()))
    except TypeError:
        raise InvalidInputError(f"labels must be values of one kind, got {shown(values.tolist())}") from None
    if set(known) <= {0, 1}:  # where no item of one class is known yet
        known = [False, True] if values.dtype == bool else [0, 1]
    if len(known) != 2:
        raise InvalidInputError(
            f"labels must be of two classes, got {len(known)}: {shown(known)}; where only one is seen, write them as "
            "0 and 1; of more, take each against the rest"
        )
    return (known[0], known[1]), (values == known[1]).astype(np.int64)


def _binned(judged: npt.NDArray[Any], seen: npt.NDArray[Any], bins: int) -> tuple[IntArray, IntArray]:
    """Return the bin of each score, between quantiles of all scores of its judge, labelled or not."""
    scores = as_floats(judged.tolist(), "verdicts"), as_floats(seen.tolist(), "labelled_verdicts")  # a list fits a line
    edges = np.quantile(np.concatenate(scores), np.arange(1, bins) / bins, axis=0)  # (bins - 1, J)
    numbers = [
        np.stack([np.searchsorted(edges[:, k], part[:, k], side="right") for k in range(part.shape[1])], axis=1)
        for part in scores
    ]
    return numbers[0].astype(np.int64), numbers[1].astype(np.int64)


def _counts(judged: npt.NDArray[Any], seen: npt.NDArray[Any], truth: IntArray) -> tuple[IntArray, IntArray]:
    """Return how often each pattern of verdicts is there: by class, (2, V), and among judged items, (V,)."""
    try:
        of_judged: Counter[Hashable] = Counter(map(tuple, judged.tolist()))
        of_classes: list[Counter[Hashable]] = [Counter(map(tuple, seen[truth == k].tolist())) for k in range(2)]
    except TypeError:  # a list cannot be counted
        raise InvalidInputError("a verdict must be a single value, got a list: give as many to each item") from None
    patterns = list(dict.fromkeys([*of_classes[0], *of_classes[1], *of_judged]))
    if len(patterns) > len(seen):
        raise InvalidInputError(
            f"there are {len(patterns):,} different verdicts and {len(seen):,} labelled items, too few to learn from: "
            "divide scores into bins (bins=5), or take fewer judges or the number of those that agree"
        )
    labelled_counts = np.array([[own[pattern] for pattern in patterns] for own in of_classes], dtype=np.int64)
    return labelled_counts, np.array([of_judged[pattern] for pattern in patterns], dtype=np.int64)


def _warn_of_another_sample(labelled: IntArray, judged: IntArray) -> None:
    """Warn where a verdict is more or less common on labelled items than on judged ones, by exact binomial tests."""
    both, fraction = labelled + judged, labelled.sum() / (labelled.sum() + judged.sum())
    tails = np.minimum(bdtr(labelled, both, fraction), bdtrc(labelled - 1, both, fraction))
    p_value = 2.0 * len(both) * float(tails.min())  # two sides of each verdict (Bonferroni)
    if p_value < UNLIKELY:
        warnings.warn(
            f"verdicts on labelled and on judged items differ more than by chance (p {p_value:.1g}): leave "
            "random_sample out, unless the labelled items were drawn at random",
            stacklevel=3,
        )


def _thinned(judged: IntArray) -> IntArray:
    """Return counts of judged items, scaled to no more than are counted: the interval is then a little too wide."""
    total = int(judged.sum())
    if total <= MOST_COUNTED:
        return judged
    scaled: IntArray = np.rint(judged * (MOST_COUNTED / total)).astype(np.int64)
    return scaled
