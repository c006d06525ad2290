"""The experts' kernels against their definition in plain numpy: advice, mixture, lessons, and late labels."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp, softmax

from obil.arrays import FloatArray
from obil.trackers import SafeTracker, label_experts
from obil.trackers.label_experts import (
    GUARDED,
    LABEL_MEMORIES,
    N_EXPERTS,
    TRAINING,
    LabelMemory,
    advise_rows,
    priors_of_rows,
)
from obil.trackers.label_learning import LabelStart, learn_label
from tests.trackers.cases import start_prior, stream

# .95 without labels, .001 for the fast bank, the rest in halves between counts and recalibrations
START_WEIGHTS = np.array([0.475, 0.475, 0.001, *[0.0245 / 3] * 6])
# the guarded prior, the fast bank, counts and recalibrations
START_PREVALENCE = np.array([0.969, 0.001, *[0.03 / 6] * 6])
EQUAL = np.full(9, 1 / 9)


def start_precision(n_classes: int) -> FloatArray:
    """Return the precision of a recalibration that no label has touched: sd .3 for the slope, .5 for an offset."""
    return np.diag([0.3**-2, *[0.5**-2] * (n_classes - 1)])


class Advice(NamedTuple):
    """Each expert as an affine map of the log ratios."""

    slopes: FloatArray  # (M,)
    offsets: FloatArray  # (M, K), column 0 is 0

    def log_posteriors(self, row: FloatArray) -> FloatArray:  # (M, K)
        return np.asarray(log_softmax(self.slopes[:, None] * row + self.offsets, axis=1))


class ReferenceExperts:
    """The mixture as its docstrings define it, slowly and in logs."""

    def __init__(self, start: FloatArray, start_weights: FloatArray | None = None) -> None:
        n_classes = len(start)
        self.start = start
        self.start_weights = START_WEIGHTS if start_weights is None else start_weights
        self.weights = self.start_weights.copy()
        self.prevalence_weights = START_PREVALENCE.copy()
        self.counts = np.zeros((3, n_classes))
        self.maps = [np.eye(n_classes)[0]] * 3  # slope 1, no offsets
        self.precisions = [start_precision(n_classes)] * 3
        self.least = 1.0
        self.n_rows = self.n_labels = 0
        self.past: dict[int, tuple[Advice, int]] = {}
        self.latest = self.advise(start, start)
        self.arrivals: list[int] = []  # rows decided before each label

    def advise(self, guarded: FloatArray, fast: FloatArray) -> Advice:
        priors = [self.start, guarded, fast]
        priors += [(20 * guarded + count) / (20 + count.sum()) for count in self.counts]
        slopes, logits = [1.0] * len(priors), [np.log(prior / prior[0]) for prior in priors]
        for theta in self.maps:
            slopes.append(theta[0])
            logits.append(theta[0] * logits[1] + np.array([0.0, *theta[1:]]))
        return Advice(np.array(slopes), np.array(logits))

    def mixture(self, row: FloatArray, advice: Advice) -> FloatArray:
        """Return the mixture's log posterior, (K,)."""
        return np.asarray(logsumexp(advice.log_posteriors(row), b=self.weights[:, None], axis=0))

    def decide(self, row: FloatArray, guarded: FloatArray, fast: FloatArray, lead: int = GUARDED) -> FloatArray:
        """Return the prior to decide a row with, (K,); remember the advice, for long every 64 rows."""
        advice = self.latest = self.advise(guarded, fast)
        if self.n_rows % 64 == 0:
            self.past[self.n_rows] = (advice, self.n_labels)
        self.n_rows += 1
        return self.prior(row, advice, lead)

    def prior(self, row: FloatArray, advice: Advice, lead: int = GUARDED) -> FloatArray:
        decided = self.mixture(row, advice) if self.n_labels else advice.log_posteriors(row)[lead]
        return np.asarray(softmax(decided - row))

    def prevalence(self, guarded: FloatArray, fast: FloatArray) -> FloatArray:
        """Return the estimated prevalence, (K,): recalibrations count for the last of the counts."""
        counted = [(400 * guarded + count) / (400 + count.sum()) for count in self.counts]
        mixed = self.prevalence_weights @ np.array([guarded, fast, *counted, *[counted[-1]] * 3])
        learned = self.n_labels / (20 + self.n_labels)
        return np.asarray((1 - learned) * guarded + learned * mixed)

    def recall(self, row: int) -> tuple[Advice, int]:
        """Return the advice a row's label is held against, and how many labels came since the row was decided.

        It is that of the last row, or else the one nearest before the row among the three latest at each of eight
        levels. Labels are counted exactly up to 64, then from when that advice was stored.
        """
        exact = sum(arrival > row for arrival in self.arrivals)
        advice, labels_then = self._stored(row)
        since = exact if exact < 64 else self.n_labels - labels_then
        return (self.latest if row >= self.n_rows - 1 else advice), since

    def _stored(self, row: int) -> tuple[Advice, int]:
        last = max(self.past)
        kept = [
            stored
            for stored in self.past
            if any(
                stored % (64 << level) == 0 and last // (64 << level) - stored // (64 << level) < 3
                for level in range(8)
            )
        ]
        before = [stored for stored in kept if stored <= row]
        return self.past[max(before) if before else min(kept)]

    def learn(
        self,
        row: FloatArray,
        label: int,
        advice: Advice,
        *,
        propensity: float = 1.0,
        since: int = 0,
        replaced: int | None = None,
    ) -> None:
        if propensity < self.least:
            fallen = propensity / self.least
            self.weights = lightened(self.weights, self.start_weights, fallen)
            self.prevalence_weights = lightened(self.prevalence_weights, START_PREVALENCE, fallen)
            self.counts = self.counts * fallen
            start = start_precision(row.size)
            self.precisions = [start + fallen * (precision - start) for precision in self.precisions]
            self.least = propensity
        importance = self.least / propensity
        logs = advice.log_posteriors(row)
        gains = logs[:, label] - (0.0 if replaced is None else logs[:, replaced])
        dealt = 0.0 if replaced is not None else max(1 / (self.n_labels + 2), 1e-3)
        late = (1 + since) ** 0.25
        gains *= importance / late
        self.weights = reweighed(self.weights, gains, dealt / late, self.start_weights)
        self.prevalence_weights = reweighed(self.prevalence_weights, gains[1:], dealt / late, START_PREVALENCE)
        hot = np.eye(row.size)
        for c, memory in enumerate((100.0, 1_000.0, np.inf)):
            if replaced is None:
                self.counts[c] = self.counts[c] * (1 - importance / memory) + importance * hot[label]
            else:
                self.counts[c] = np.maximum(self.counts[c] - importance * hot[replaced], 0.0) + importance * hot[label]
        base = np.clip(row + advice.offsets[GUARDED], -30.0, 30.0)
        start = start_precision(row.size)
        for a, memory in enumerate((100.0, 1_000.0, np.inf)):
            theta, precision = self.maps[a], self.precisions[a]
            mean = softmax(theta[0] * base + np.array([0.0, *theta[1:]]))
            design = np.column_stack([base, hot[:, 1:]])  # (K, K): the logits are design @ theta
            if replaced is None:
                fisher = design.T @ (np.diag(mean) - np.outer(mean, mean)) @ design
                precision = start + (1 - importance / memory) * (precision - start) + importance * fisher
                gradient = design.T @ (hot[label] - mean)
            else:
                gradient = design.T @ (hot[label] - hot[replaced])
            theta = theta + np.linalg.solve(precision, importance * gradient)
            self.maps[a] = np.array([np.clip(theta[0], 0.1, 3.0), *np.clip(theta[1:], -10.0, 10.0)])
            self.precisions[a] = precision
        if replaced is None:
            self.arrivals.append(self.n_rows)
            self.n_labels += 1


def lightened(weights: FloatArray, start: FloatArray, fraction: float) -> FloatArray:
    """Return the weights where each log likelihood ratio of experts so far counts by a fraction."""
    return np.asarray(softmax(np.log(start) + fraction * (np.log(weights) - np.log(start))))


def reweighed(weights: FloatArray, gains: FloatArray, dealt: float, start: FloatArray) -> FloatArray:
    """Return the posterior weights, of which a part is dealt back."""
    return (1 - dealt) * np.asarray(softmax(np.log(weights) + gains)) + dealt * start


class KernelExperts:
    """The kernels with their memory, called as a tracker calls them."""

    def __init__(self, start: FloatArray, start_weights: FloatArray | None = None) -> None:
        self.start = start
        self.memory = LabelMemory.empty(start.size)
        if start_weights is not None:
            self.memory.weights[:] = start_weights
        self.start_weights = self.memory.weights.copy()
        self.memory.latest[:, 0] = 1.0
        self.memory.latest[:, 1:] = np.log(start[1:] / start[0])

    def decide(self, rows: FloatArray, guarded: FloatArray, fast: FloatArray, lead: int = GUARDED) -> FloatArray:
        kept, priors, prior = self.memory, np.empty_like(rows), np.empty(self.start.size)
        advise_rows(
            rows, rows[:, None], 0, guarded, fast, self.start, lead, kept.weights, kept.prevalence_weights,
            kept.counts, kept.maps, kept.input_map,
            kept.past, kept.past_rows, kept.past_labels, kept.latest, kept.seen,
            np.empty((0, self.start.size - 1), dtype=np.float32), priors, prior,
        )  # fmt: skip
        return np.concatenate([priors, prior[None]])

    def decide_one(self, row: FloatArray, guarded: FloatArray, fast: FloatArray) -> FloatArray:
        """Return the prior of a row and that of a row without information after it, (2, K), at constant banks."""
        return self.decide(row[None], np.tile(guarded, (2, 1)), np.tile(fast, (2, 1)))

    def learn(
        self,
        row: FloatArray,
        label: int,
        *,
        number: int | None = None,
        propensity: float = 1.0,
        replaced: int = -1,
    ) -> None:
        """Learn the label of the row just decided, or of the row with this number."""
        kept = self.memory
        start = LabelStart(
            self.start_weights,
            label_experts.start_prevalence_weights(may_admit=False),
            label_experts.start_precision(row.size),
            kept.input_precision,
            np.array(LABEL_MEMORIES),
        )
        decided = int(kept.seen[0]) - 1 if number is None else number
        learn_label(row, np.empty((0, row.size - 1)), label, replaced, propensity, decided, False, start, kept)


def random_priors(rng: np.random.Generator, n: int, n_classes: int) -> FloatArray:
    return np.asarray(np.maximum(rng.dirichlet(np.full(n_classes, 0.7), size=n), 1e-6))


def assert_same(kernel: KernelExperts, reference: ReferenceExperts, tolerance: float = 1e-10) -> None:
    memory = kernel.memory
    np.testing.assert_allclose(memory.weights, reference.weights, rtol=0, atol=tolerance)
    np.testing.assert_allclose(memory.prevalence_weights, reference.prevalence_weights, rtol=0, atol=tolerance)
    np.testing.assert_allclose(memory.counts, reference.counts, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(memory.maps, reference.maps, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(memory.precisions, reference.precisions, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(memory.latest[:, 0], reference.latest.slopes, rtol=tolerance)
    np.testing.assert_allclose(memory.latest[:, 1:], reference.latest.offsets[:, 1:], rtol=tolerance, atol=tolerance)
    assert memory.least_propensity[0] == reference.least
    assert memory.seen.tolist() == [reference.n_rows, reference.n_labels]


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_kernels_equal_the_reference_over_late_and_replaced_labels(n_classes: int) -> None:
    # seed 1: 1,500 rows, labels at once, late, far too late and taken back, at many propensities
    rng = np.random.default_rng(1)
    n_rows = 1_500
    start = start_prior(n_classes)
    weights = rng.dirichlet(np.full(N_EXPERTS, 5.0))
    kernel, reference = KernelExperts(start, weights), ReferenceExperts(start, weights)
    rows = stream(n_rows, n_classes, seed=2)
    guarded, fast = (
        p / p.sum(axis=1, keepdims=True) for p in (random_priors(rng, n_rows + 1, n_classes) for _ in "ab")
    )
    given: dict[int, tuple[int, float]] = {}
    lateness: list[int] = []
    for t in range(n_rows):
        decided = kernel.decide(rows[t : t + 1], guarded[t : t + 2], fast[t : t + 2])
        np.testing.assert_allclose(decided[0], reference.decide(rows[t], guarded[t], fast[t]), rtol=0, atol=1e-10)
        prevalence = reference.prevalence(guarded[t + 1], fast[t + 1])
        np.testing.assert_allclose(decided[1], prevalence, rtol=0, atol=1e-10)
        if rng.random() < 0.6:
            continue
        for _ in range(rng.integers(1, 4)):
            number = int(max(0, t - rng.choice([0, 1, 5, 70, 1_000, 3_000])))
            label = int(rng.integers(n_classes))
            propensity = float(10.0 ** rng.uniform(-1.0 - t / 2_000, 0.0))
            before = None
            if number in given and given[number][0] != label:
                before, propensity = given[number]
            given[number] = (label, propensity)
            advice, since = reference.recall(number)
            kernel.learn(
                rows[number], label, number=None if number == t and rng.random() < 0.5 else number,
                propensity=propensity, replaced=-1 if before is None else before,
            )  # fmt: skip
            reference.learn(rows[number], label, advice, propensity=propensity, since=since, replaced=before)
            lateness.append(since)
            assert_same(kernel, reference)
    assert reference.n_labels > 500
    assert len(lateness) > reference.n_labels + 100  # so many were replaced
    for least, most in ((0, 0), (1, 63), (65, 2_000)):
        assert sum(least <= since <= most for since in lateness) > 10


def test_decisions_start_with_95_percent_on_what_decides_without_labels() -> None:
    weights = list(SafeTracker(0.1).expert_weights.values())
    assert weights == LabelMemory.empty(2).weights.tolist() == label_experts.start_weights().tolist()
    assert len(weights) == N_EXPERTS == 9
    np.testing.assert_allclose(weights[:2], 0.475, rtol=1e-12)  # the training prior, the guarded prior
    np.testing.assert_allclose(weights[2], 0.001, rtol=1e-12)  # the fast bank
    np.testing.assert_allclose(weights[3:], 0.049 / 6, rtol=1e-12)  # three counts, three recalibrations
    np.testing.assert_allclose(sum(weights), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_before_any_label_the_lead_decides(n_classes: int) -> None:
    rng = np.random.default_rng(3)
    rows, start = stream(200, n_classes, seed=4), start_prior(n_classes)
    guarded, fast = (rng.dirichlet(np.full(n_classes, 2.0), size=201) for _ in "ab")
    for lead, path in ((GUARDED, guarded), (TRAINING, np.tile(start, (201, 1)))):
        decided = KernelExperts(start).decide(rows, guarded, fast, lead)
        np.testing.assert_allclose(decided[:-1], path[:-1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(decided[-1], guarded[-1], rtol=0, atol=1e-12)  # the estimated prevalence


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_row_is_decided_by_the_mixture_of_the_experts_posteriors(n_classes: int) -> None:
    rng = np.random.default_rng(5)
    start, guarded, fast = rng.dirichlet(np.full(n_classes, 2.0), size=3)
    kernel, reference = KernelExperts(start), ReferenceExperts(start)
    for label in rng.integers(n_classes, size=60):
        row = np.append(0.0, rng.normal(size=n_classes - 1))
        kernel.decide_one(row, guarded, fast)
        reference.decide(row, guarded, fast)
        kernel.learn(row, int(label))
        reference.learn(row, int(label), reference.latest)
    rows, kept = np.clip(stream(300, n_classes, seed=6), -6.0, 6.0), kernel.memory
    priors = np.empty_like(rows)
    priors_of_rows(
        rows, rows[:, None], 0, guarded, fast, start, GUARDED, kept.weights, kept.counts, kept.maps, kept.input_map,
        60, priors,
    )  # fmt: skip
    advice = reference.advise(guarded, fast)
    mixed = np.exp([reference.mixture(row, advice) for row in rows])
    np.testing.assert_allclose(softmax(rows + np.log(priors), axis=1), mixed, rtol=0, atol=1e-10)
    assert abs(priors - guarded).max() > 0.01  # a single prior would not do


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_sure_row_is_decided_by_the_mixture_too(n_classes: int) -> None:
    # two certain rows were wrong, so the recalibrations flatten: here their slope is .2
    start, row = start_prior(n_classes), np.append([0.0, 50.0], np.zeros(n_classes - 2))
    kernel, reference = KernelExperts(start), ReferenceExperts(start)
    kernel.memory.maps[:, 0], kernel.memory.seen[1] = 0.2, 1
    reference.maps, reference.n_labels = list(kernel.memory.maps), 1
    decided = kernel.decide_one(row, start, start)[0]
    mixed = reference.mixture(row, reference.advise(start, start))
    np.testing.assert_allclose(log_softmax(row + np.log(decided)), mixed, rtol=1e-9)


def test_a_replaced_label_takes_its_count_back_exactly() -> None:
    start, rng = np.array([0.7, 0.3]), np.random.default_rng(7)
    wrong, right = KernelExperts(start), KernelExperts(start)
    row = np.array([0.0, 1.0])
    for kernel, first in ((wrong, 0), (right, 1)):
        kernel.decide_one(row, start, start)
        kernel.learn(row, first, propensity=0.25)
    for label, propensity in zip(rng.integers(2, size=50), rng.choice([0.125, 0.5, 1.0], size=50), strict=True):
        for kernel in (wrong, right):
            kernel.decide_one(row, start, start)
            kernel.learn(row, int(label), propensity=float(propensity))
    wrong.learn(row, 1, number=0, propensity=0.25, replaced=0)
    np.testing.assert_allclose(wrong.memory.counts[-1], right.memory.counts[-1], rtol=1e-12)
    assert wrong.memory.seen[1] == right.memory.seen[1] == 51


def test_replacing_a_label_at_once_undoes_its_loss() -> None:
    # the weights are dealt anew once, at the wrong label, and the new loss comes after one label: by 2^-1/4
    start, fast, row = np.array([0.7, 0.3]), np.array([0.2, 0.8]), np.array([0.0, 0.5])
    kernel, reference = KernelExperts(start), ReferenceExperts(start)
    kernel.decide_one(row, start, fast)
    reference.decide(row, start, fast)
    logs = reference.latest.log_posteriors(row)
    kernel.learn(row, 0)
    dealt = (softmax(np.log(START_WEIGHTS) + logs[:, 0]) + START_WEIGHTS) / 2
    np.testing.assert_allclose(kernel.memory.weights, dealt, rtol=1e-12)
    kernel.learn(row, 1, replaced=0)
    expected = softmax(np.log(dealt) + (logs[:, 1] - logs[:, 0]) / 2**0.25)
    np.testing.assert_allclose(kernel.memory.weights, expected, rtol=1e-12)
    assert expected[2] / expected[0] > START_WEIGHTS[2] / START_WEIGHTS[0]  # the fast bank was right, after all
    assert kernel.memory.seen.tolist() == [1, 1]


@pytest.mark.parametrize("late", [False, True])
def test_the_nth_label_for_an_old_row_counts_by_the_fourth_root_of_an_nth(late: bool) -> None:
    start, fast = np.array([0.9, 0.1]), np.array([0.4, 0.6])
    kernel = KernelExperts(start)
    kernel.decide(np.zeros((200, 2)), np.tile(start, (201, 1)), np.tile(fast, (201, 1)))
    row = np.zeros(2)
    for n in range(1, 30):
        if not late:
            kernel.decide_one(row, start, fast)
        before = kernel.memory.weights.copy()
        kernel.learn(row, 1, number=70 if late else None)
        rate = n**-0.25 if late else 1.0
        dealt = max(1 / (n + 1), 1e-3) * rate
        earned = (kernel.memory.weights - dealt * START_WEIGHTS) / (1 - dealt)
        gain = np.log(earned[2] / earned[0]) - np.log(before[2] / before[0])
        np.testing.assert_allclose(gain, np.log(0.6 / 0.1) * rate, rtol=1e-9)


def waiting(n_blocks: int, block_rows: int, n_labels: int) -> KernelExperts:
    """Return experts after blocks of rows with so many labels behind each."""
    start, fast = np.array([0.9, 0.1]), np.array([0.4, 0.6])
    kernel = KernelExperts(start)
    paths = np.tile(start, (block_rows + 1, 1)), np.tile(fast, (block_rows + 1, 1))
    for _ in range(n_blocks):
        kernel.decide(np.zeros((block_rows, 2)), *paths)
        for _ in range(n_labels):
            kernel.learn(np.zeros(2), 1)
    return kernel


def lateness(kernel: KernelExperts, row: int) -> float:
    """Return d, as the next label of a row is weighed by 1 / (1 + d)^(1/4): one that replaces another is not dealt."""
    kernel.memory.weights[:] = EQUAL
    kernel.learn(np.zeros(2), 1, number=row, replaced=0)
    gain = np.log(0.6 / 0.4) - np.log(0.1 / 0.9)  # of the fast bank over the training prior
    rate = np.log(kernel.memory.weights[2] / kernel.memory.weights[0]) / gain
    return float(rate**-4) - 1.0


@pytest.mark.parametrize("n_labels", [0, 1, 30, 63, 64])
def test_labels_since_a_row_was_decided_are_counted_exactly_up_to_64(n_labels: int) -> None:
    for row in (0, 10, 98, 99):
        np.testing.assert_allclose(lateness(waiting(1, 100, n_labels), row), n_labels, atol=1e-9)


def test_only_labels_after_a_row_make_its_own_late() -> None:
    # a label after each hundred rows: row 950 was decided before the tenth of ten, row 899 before the last two
    for row, late in ((999, 1), (950, 1), (900, 1), (899, 2), (450, 6), (0, 10)):
        np.testing.assert_allclose(lateness(waiting(10, 100, 1), row), late, atol=1e-9)


def test_more_than_64_labels_since_an_old_row_are_never_counted_too_few() -> None:
    for row in (0, 63, 64, 700, 1_999, 2_050):
        true = 10 * (30 - row // 100)
        counted = lateness(waiting(30, 100, 10), row)
        assert true <= counted + 1e-9 <= 2 * true + 20  # the stored advice is at most twice as old as the row


def test_more_than_64_labels_since_the_last_row_are_never_counted_too_few() -> None:
    assert lateness(waiting(1, 1, 200), 0) >= 200 - 1e-9


def test_labels_since_a_row_that_is_forgotten_are_never_counted_too_few() -> None:
    assert lateness(waiting(400, 100, 1), 0) >= 400 - 1e-9


def test_late_labels_change_the_weights_less_than_the_same_labels_at_once() -> None:
    # seed 8: 1,920 rows to part the experts, then twenty labels, in step with their rows or 80 rows late and less
    rng = np.random.default_rng(8)
    rows = np.column_stack([np.zeros(2_000), rng.normal(-2.0, 1.5, size=2_000)])
    prompt, late = SafeTracker(0.5), SafeTracker(0.5)
    start = prompt.state()["memory"]
    prompt.update_many(rows[:1_920])
    late.update_many(rows)
    for n in range(1_920, 1_940):
        prompt.update(rows[n])
        prompt.feedback(rows[n], 0)
        late.feedback(rows[n], 0, row=n)
    name = "labels.weights"
    moved = [np.abs(np.array(one.state()["memory"][name]) - start[name]).sum() for one in (prompt, late)]
    assert 0.02 < moved[1] < 0.8 * moved[0]


def test_labels_at_a_lower_propensity_rescale_the_past_exactly() -> None:
    start, row = np.array([0.7, 0.3]), np.zeros(2)
    kernel = KernelExperts(start)
    for label, propensity in ((1, 1.0), (1, 1.0), (0, 0.5), (0, 0.125), (1, 0.25)):
        kernel.learn(row, label, propensity=propensity)
    # 1 / propensity, in units of the largest, 8: powers of two, so that the sums are exact
    assert kernel.memory.counts[-1].tolist() == [(2 + 8) / 8, (1 + 1 + 4) / 8]
    assert kernel.memory.least_propensity.tolist() == [0.125]


def test_a_falling_propensity_does_not_change_the_advice_its_own_label_is_held_against() -> None:
    start, fast, row = np.array([0.7, 0.3]), np.array([0.2, 0.8]), np.array([0.0, 0.5])
    kernel, reference = KernelExperts(start), ReferenceExperts(start)
    for label, propensity in ((1, 1.0), (1, 1.0), (1, 1.0), (0, 0.1)):
        kernel.decide_one(row, start, fast)
        reference.decide(row, start, fast)
        kernel.learn(row, label, propensity=propensity)
        reference.learn(row, label, reference.latest, propensity=propensity)
    np.testing.assert_allclose(kernel.memory.weights, reference.weights, rtol=0, atol=1e-10)


def test_labels_at_a_lower_propensity_rescale_what_the_recalibrations_know() -> None:
    start, row = np.array([0.7, 0.3]), np.array([0.0, 1.0])
    kernels = [KernelExperts(start), KernelExperts(start)]
    kernels[1].memory.least_propensity[0] = 0.01  # as if it had been known from the beginning
    for kernel in kernels:
        for _ in range(50):
            kernel.decide_one(row, start, start)
            kernel.learn(row, 1)
        kernel.learn(row, 0, propensity=0.01)
    np.testing.assert_allclose(kernels[0].memory.counts[-1], kernels[1].memory.counts[-1], rtol=1e-12)
    # fifty labels at a hundredth each and one whole one; they were learned at other offsets, hence the factor
    known = [kernel.memory.precisions[-1, 1, 1] - start_precision(2)[1, 1] for kernel in kernels]
    assert 0.5 < known[0] / known[1] < 2.0


def hostile(n_classes: int) -> Any:
    rng = np.random.default_rng(9)
    values = [0.0, 1e-300, 30.0, -30.0, 745.0, -745.0, 1e5, -1e5, 1e300, -1e300]
    rows = rng.choice(values, size=(400, n_classes))
    rows[:, 0] = 0.0
    return rows


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("rarest", [1e-15, 1e-6, 0.1])
def test_ratios_up_to_1e300_and_priors_down_to_1e_15_keep_everything_finite(n_classes: int, rarest: float) -> None:
    start = np.full(n_classes, rarest / (n_classes - 1))
    start[0] = 1.0 - rarest
    rng = np.random.default_rng(10)
    kernel = KernelExperts(start)
    rows, labels = hostile(n_classes), rng.integers(n_classes, size=400)
    for row, label in zip(rows, labels, strict=True):
        decided = kernel.decide_one(row, start, start[::-1])
        assert np.isfinite(decided).all()
        assert (decided >= 0.0).all()
        np.testing.assert_allclose(decided.sum(axis=1), 1.0, atol=1e-9)
        kernel.learn(row, int(label), propensity=float(rng.uniform(1e-3, 1.0)))
        memory = kernel.memory
        learned = (memory.weights, memory.counts, memory.maps, memory.precisions)
        assert all(np.isfinite(array).all() for array in learned)
        np.testing.assert_allclose(memory.weights.sum(), 1.0, atol=1e-9)


def test_a_label_against_ratios_whose_difference_overflows_leaves_weights_that_are_numbers() -> None:
    start = np.array([0.3, 0.3, 0.4])
    kernel = KernelExperts(start)
    row = np.array([0.0, 1.7e308, -1.7e308])
    kernel.decide_one(row, start, start)
    kernel.learn(row, 2)
    kernel.learn(row, 1, replaced=2)
    assert all(np.isfinite(array).all() for array in kernel.memory)
    np.testing.assert_allclose(kernel.memory.weights.sum(), 1.0)


def test_a_slope_above_one_does_not_overflow_on_the_largest_ratio() -> None:
    start = np.array([0.7, 0.3])
    kernel = KernelExperts(start)
    kernel.memory.maps[:, 0] = 1.5
    kernel.memory.seen[1] = 1
    assert np.isfinite(kernel.decide_one(np.array([0.0, 1.7e308]), start, start)).all()


@pytest.mark.parametrize("log_ratio", [-800.0, 720.0, 1e5])
def test_the_training_expert_answers_with_the_start_prior_however_sure_the_row(log_ratio: float) -> None:
    start = np.array([0.9, 0.1])
    twice = np.tile(start, (2, 1))
    decided = KernelExperts(start).decide(np.array([[0.0, log_ratio]]), twice, twice, TRAINING)
    np.testing.assert_allclose(decided[0], start, rtol=1e-9)


def test_a_fast_bank_counts_in_the_estimated_prevalence_only_where_it_may_decide() -> None:
    for tracker, weight in ((SafeTracker(0.1, lead="fast"), 0.1), (SafeTracker(0.1), 0.001)):
        weights = tracker._memory.labels.prevalence_weights
        np.testing.assert_allclose(weights[1], weight, rtol=1e-12)
        np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
