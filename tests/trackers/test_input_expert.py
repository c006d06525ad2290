"""The expert that sees inputs of a row against a recalibration in plain numpy, late and replaced labels included."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logsumexp, softmax

from obil.arrays import FloatArray
from obil.errors import InvalidInputError, InvalidStateError
from obil.trackers import SafeTracker
from obil.trackers.input_expert import packed, unpacked
from obil.trackers.label_experts import LabelMemory, start_weights
from tests.trackers.cases import start_prior, stream, through_json
from tests.trackers.test_label_experts import START_WEIGHTS, Advice, ReferenceExperts, start_precision
from tests.trackers.test_view_guard import some_view_reference

WEIGHTS = np.array([*(0.95 * START_WEIGHTS), 0.05])
PREVALENCE = np.array([0.969, 0.001, *[0.03 / 7] * 7])


class WithInputs(ReferenceExperts):
    """Nine experts and a tenth: slope, offsets and a coefficient for each input, with a memory of 1,000 labels."""

    def __init__(self, start: FloatArray, n_inputs: int) -> None:
        super().__init__(start, WEIGHTS)
        self.prevalence_weights = PREVALENCE.copy()
        self.theta = np.eye(len(start) + n_inputs)[0]
        self.prior_precision = np.diag([*np.diag(start_precision(len(start))), *[0.3**-2] * n_inputs])
        self.precision = self.prior_precision
        self.least_so_far = 1.0

    def prior(self, row: FloatArray, advice: Advice, lead: int = 1) -> FloatArray:
        return row  # what ten experts decide follows from `seeing`

    def seeing(self, advice: Advice, inputs: FloatArray) -> Advice:
        """Return the advice of all ten on a row with these inputs, (J, K-1)."""
        n_classes = len(self.start)
        offsets = self.theta[0] * advice.offsets[1]
        offsets[1:] += self.theta[1:n_classes] + self.theta[n_classes:] @ inputs
        return Advice(np.append(advice.slopes, self.theta[0]), np.vstack([advice.offsets, offsets]))

    def learn_seeing(
        self, row: FloatArray, inputs: FloatArray, label: int, advice: Advice, *, propensity: float = 1.0,
        since: int = 0, replaced: int | None = None,
    ) -> None:  # fmt: skip
        """Learn a label with all ten, the tenth judged by what it knows now."""
        base = np.clip(row + advice.offsets[1], -30.0, 30.0)
        fallen = min(propensity / self.least_so_far, 1.0)
        self.least_so_far *= fallen
        importance = self.least_so_far / propensity
        self.precision = self.prior_precision + fallen * (self.precision - self.prior_precision)
        super().learn(row, label, self.seeing(advice, inputs), propensity=propensity, since=since, replaced=replaced)
        n_classes = len(row)
        design = np.zeros((n_classes, len(self.theta)))
        design[:, 0], design[1:, 1:n_classes], design[1:, n_classes:] = base, np.eye(n_classes - 1), inputs.T
        mean, hot = softmax(design @ self.theta), np.eye(n_classes)
        gradient = design.T @ (hot[label] - (mean if replaced is None else hot[replaced]))
        if replaced is None:
            fisher = design.T @ (np.diag(mean) - np.outer(mean, mean)) @ design
            kept = 1 - importance / 1_000
            self.precision = self.prior_precision + kept * (self.precision - self.prior_precision) + importance * fisher
        theta = self.theta + np.linalg.solve(self.precision, importance * gradient)
        self.theta = np.array([np.clip(theta[0], 0.1, 3.0), *np.clip(theta[1:], -10.0, 10.0)])


@pytest.fixture(autouse=True)
def prevalence_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.trackers.test_label_experts.START_PREVALENCE", PREVALENCE)


def tracker_with(n_classes: int, n_views: int, n_inputs: int, start: FloatArray) -> SafeTracker:
    known = some_view_reference(n_views, n_classes, seed=3) if n_views else None
    return SafeTracker(start, view_reference=known, n_inputs=n_inputs)


def some_evidence(rng: np.random.Generator, rows: FloatArray, n_views: int, n_inputs: int) -> FloatArray:
    """Return evidence (n, 1 + V + D, K) with views near the rows' own ratios and inputs of about 1."""
    own = rows + rng.normal(scale=0.1, size=rows.shape)
    views = own[:, None] + rng.normal(scale=1.5, size=(len(rows), n_views, rows.shape[1]))
    inputs = rng.normal(scale=1.5, size=(len(rows), n_inputs, rows.shape[1]))
    evidence = np.concatenate([own[:, None], views, inputs], axis=1)
    evidence[..., 0] = 0.0
    return np.asarray(evidence)


def inputs_by_hand(evidence: FloatArray, n_views: int) -> FloatArray:
    """Return the inputs of one row, (J, K-1), from its evidence, (1 + V + D, K)."""
    apart = evidence[1 : 1 + n_views] - evidence[0]
    every = np.clip(np.concatenate([apart, evidence[1 + n_views :]]), -3.0, 3.0)
    return np.asarray(every[:, 1:], dtype=np.float32).astype(np.float64)


@pytest.mark.parametrize(("n_classes", "n_views", "n_inputs"), [(2, 0, 3), (2, 2, 0), (2, 2, 3), (4, 3, 0), (3, 2, 2)])
def test_the_kernels_equal_a_plain_recalibration_over_late_and_replaced_labels(
    n_classes: int, n_views: int, n_inputs: int
) -> None:
    # seed 5: 500 rows, labels at once, late, far too late and taken back, at falling propensities
    rng, start = np.random.default_rng(5), start_prior(n_classes)
    rows = stream(500, n_classes, seed=6)
    evidence = some_evidence(rng, rows, n_views, n_inputs)
    tracker, reference = tracker_with(n_classes, n_views, n_inputs, start), WithInputs(start, n_views + n_inputs)
    given: dict[int, tuple[int, float]] = {}
    for t, row in enumerate(rows):
        guarded, fast = (prior[0].copy() for prior in tracker._current())
        plain = reference.advise(guarded, fast)
        ten = reference.seeing(plain, inputs_by_hand(evidence[t], n_views))
        asked = tracker.priors_for(row[None], evidence=evidence[t : t + 1])[0]
        prior = tracker.update(row, evidence=evidence[t])
        reference.decide(row, guarded, fast)  # it remembers the advice without inputs
        mixed = logsumexp(ten.log_posteriors(row), b=reference.weights[:, None], axis=0)
        expected = softmax(mixed - row) if reference.n_labels else guarded
        np.testing.assert_allclose(prior, expected, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(asked, prior)
        if rng.random() < 0.5:
            continue
        number, label = int(max(0, t - rng.choice([0, 1, 5, 70, 300]))), int(rng.integers(n_classes))
        propensity, before = float(10.0 ** rng.uniform(-1.0 - t / 500, 0.0)), None
        if number in given and given[number][0] != label:
            before, propensity = given[number]
        elif number in given:
            continue
        given[number] = (label, propensity)
        advice, since = reference.recall(number)
        told = inputs_by_hand(evidence[number], n_views)
        np.testing.assert_array_equal(tracker.inputs_of(evidence[number : number + 1])[0], told)
        tracker.feedback(rows[number], label, propensity=propensity, row=number, replaced=before, inputs=told)
        reference.learn_seeing(
            rows[number], told, label, advice, propensity=propensity, since=since, replaced=before
        )  # fmt: skip
        labels = tracker._memory.labels
        np.testing.assert_allclose(labels.weights, reference.weights, rtol=0, atol=1e-9)
        if not n_views:  # with views fast memories may be admitted, and start with more
            np.testing.assert_allclose(labels.prevalence_weights, reference.prevalence_weights, rtol=0, atol=1e-9)
        np.testing.assert_allclose(labels.input_map, reference.theta, rtol=1e-8, atol=1e-9)
        precision = unpacked(labels.input_precision, labels.input_map.size)
        np.testing.assert_allclose(precision, reference.precision, rtol=1e-8, atol=1e-8)
    assert reference.n_labels > 150
    assert abs(reference.theta[n_classes:]).max() > 0.05


def test_the_bound_holds_against_the_expert_with_inputs_too() -> None:
    # seeds 0 ... 59: each label follows its row; the input says it, or the opposite, or nothing
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tracker = SafeTracker(0.3, n_inputs=2)
        rows = np.column_stack([np.zeros(150), rng.normal(scale=2.0, size=150)])
        evidence = some_evidence(rng, rows, 0, 2)
        own, losses = 0.0, np.zeros(10)
        reference = WithInputs(np.array([0.7, 0.3]), 2)
        for t, row in enumerate(rows):
            guarded, fast = (prior[0].copy() for prior in tracker._current())
            plain = reference.advise(guarded, fast)
            told = inputs_by_hand(evidence[t], 0)
            posteriors = reference.seeing(plain, told).log_posteriors(row)
            posterior = log_softmax(row + np.log(tracker.update(row, evidence=evidence[t])))
            by_input = int(told[0, 0] > 0.0)
            label = (by_input, int(np.argmin(posterior)), int(rng.integers(2)))[seed % 3]
            tracker.feedback(row, label, inputs=told)
            reference.learn_seeing(row, told, label, plain)
            if t > 0:
                own -= posterior[label]
                losses -= posteriors[:, label]
                allowed = np.log(1.0 / WEIGHTS) + np.log(t + 1) + t / 999
                assert own <= (losses + allowed).min() + 1e-9
        if seed % 3 == 0:
            assert np.argmin(losses) == 9  # what the input says, only that expert can learn


def test_a_few_labels_find_an_input_that_the_scores_do_not_know() -> None:
    # seed 1: the log odds are the score's, and 2 more where the input is 1 than where it is -1
    rng, n_rows = np.random.default_rng(1), 4_000
    ratios, inputs = rng.normal(scale=1.5, size=n_rows), rng.choice([-1.0, 1.0], size=n_rows)
    chances = expit(ratios + inputs)
    labels = (rng.random(n_rows) < chances).astype(int)
    rows = np.column_stack([np.zeros(n_rows), ratios])
    evidence = np.zeros((n_rows, 2, 2))
    evidence[:, 0, 1], evidence[:, 1, 1] = ratios, inputs
    losses = {}
    for n_inputs in (0, 1):
        tracker, posteriors = SafeTracker(0.5, n_inputs=n_inputs), np.empty(n_rows)
        for t, row in enumerate(rows):
            prior = tracker.update(row, evidence=evidence[t])
            posteriors[t] = expit(ratios[t] + np.log(prior[1] / prior[0]))
            if t % 10 == 0 and t >= 200:
                late = t - 200
                known = tracker.inputs_of(evidence[late : late + 1])[0]
                tracker.feedback(rows[late], int(labels[late]), row=late, inputs=known)
        losses[n_inputs] = -np.log(np.where(labels == 1, posteriors, 1.0 - posteriors))[2_000:].mean()
    best = -np.log(np.where(labels == 1, chances, 1.0 - chances))[2_000:].mean()
    assert losses[1] - best < 0.5 * (losses[0] - best)  # of 180 labels when half of the rows were decided


def test_many_rows_at_once_equal_one_at_a_time_and_a_restored_tracker() -> None:
    rng, start = np.random.default_rng(2), start_prior(2)
    rows = stream(400, 2, seed=8)
    evidence = some_evidence(rng, rows, 2, 3)
    single, many, restored = (tracker_with(2, 2, 3, start) for _ in range(3))
    for first in range(0, 400, 50):
        part = slice(first, first + 50)
        one_by_one = [single.update(row, evidence=own) for row, own in zip(rows[part], evidence[part], strict=True)]
        together = many.update_many(rows[part], evidence=evidence[part])
        np.testing.assert_array_equal(one_by_one, together)
        np.testing.assert_array_equal(restored.update_many(rows[part], evidence=evidence[part]), together)
        restored = through_json(restored)  # type: ignore[assignment]
        for tracker in (single, many, restored):
            known = tracker.inputs_of(evidence[first : first + 1])[0]
            tracker.feedback(rows[first], first // 50 % 2, row=first, inputs=known)
        assert single.state() == many.state() == restored.state()


def test_the_tenth_expert_is_named_and_starts_with_a_twentieth() -> None:
    weights = SafeTracker(0.1, n_inputs=1).expert_weights
    assert list(weights)[-1] == "recalibration with inputs, 1,000 labels"
    np.testing.assert_allclose(list(weights.values()), WEIGHTS, rtol=1e-12)
    np.testing.assert_allclose(start_weights(sees_inputs=True), WEIGHTS, rtol=1e-12)
    assert len(SafeTracker(0.1).expert_weights) == 9


def test_the_memory_of_twenty_inputs_takes_less_than_three_kilobytes_more() -> None:
    def size(memory: LabelMemory) -> int:
        return sum(array.nbytes for array in memory)

    assert size(LabelMemory.empty(2, n_inputs=20)) - size(LabelMemory.empty(2)) < 3_000


@pytest.mark.parametrize("inputs", [np.zeros((2, 1)), np.zeros(3), np.full((3, 1), 3.1), np.full((3, 1), np.nan), "x"])
def test_inputs_of_a_wrong_shape_or_size_are_refused_and_change_nothing(inputs: Any) -> None:
    tracker = SafeTracker(0.2, n_inputs=3)
    tracker.update([0.0, 1.0], evidence=np.zeros((4, 2)))
    before = tracker.state()
    with pytest.raises(InvalidInputError, match="inputs"):
        tracker.feedback([0.0, 1.0], 1, inputs=inputs)
    assert tracker.state() == before


def test_evidence_that_lacks_some_inputs_is_refused_and_without_any_they_are_0() -> None:
    tracker = tracker_with(2, 2, 3, start_prior(2))
    before = tracker.state()
    for n_sources in (2, 4, 5):
        with pytest.raises(InvalidInputError, match="2 views and 3 inputs"):
            tracker.update([0.0, 1.0], evidence=np.zeros((n_sources, 2)))
    assert tracker.state() == before
    zeros = [tracker.inputs_of(np.zeros((1, n_sources, 2))) for n_sources in (1, 3, 6)]
    assert not np.concatenate(zeros).any()
    assert zeros[0].shape == (1, 5, 1)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("labels.input_map", [1.0, 0.0, 11.0]),
        ("labels.input_map", [0.01, 0.0, 0.0]),
        ("labels.input_map", [1.0, 0.0]),
        ("labels.input_precision", [11.0, 0.0, 4.0, 0.0, 0.0, -1.0]),
        ("labels.input_precision", [1.0, 2.0, 1.0, 0.0, 0.0, 1.0]),
        ("labels.input_precision", []),
    ],
)
def test_a_state_that_no_label_could_have_left_is_refused(field: str, values: list[float]) -> None:
    state = json.loads(json.dumps(SafeTracker(0.2, n_inputs=1).state()))
    SafeTracker.from_state(state)
    state["memory"][field] = values
    with pytest.raises(InvalidStateError):
        SafeTracker.from_state(state)


def test_extreme_evidence_gives_inputs_within_their_bounds() -> None:
    tracker = tracker_with(2, 2, 1, start_prior(2))
    for own, other in itertools.product([-1e308, -2.0, 1e308], repeat=2):
        evidence = np.array([[[0.0, own], [0.0, other], [0.0, -other], [0.0, own]]])
        assert (abs(tracker.inputs_of(evidence)) <= 3.0).all()


def test_a_packed_triangle_is_the_matrix() -> None:
    root = np.random.default_rng(0).normal(size=(5, 5))
    matrix = root @ root.T
    np.testing.assert_array_equal(unpacked(packed(matrix), 5), np.tril(matrix) + np.tril(matrix, -1).T)
