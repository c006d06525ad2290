"""The guard against its definition in plain numpy, and what it does where views agree and where they do not."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from obil.arrays import FloatArray
from obil.datasets.gaussian_stream import GaussianClasses
from obil.errors import InvalidInputError
from obil.trackers import BayesBank, SafeTracker
from obil.trackers.view_guard import ALARM, KEPT_EACH_BLOCK, QUIET_BLOCKS, GuardMemory, guard_rows
from obil.trackers.view_reference import GRID, ViewReference
from tests.trackers.cases import assert_in_simplex, start_prior, stream, with_views

HALVES = ((0, 1, 2, 3), (4, 5, 6, 7))


def arc(prior: FloatArray | float) -> FloatArray:
    return np.asarray(np.arcsin(np.sqrt(prior)))


class ReferenceGuard:
    """The guard as its docstrings define it, one array operation a step."""

    def __init__(self, start: FloatArray, known: ViewReference, *, may_admit: bool) -> None:
        self.start, self.known, self.may_admit = start, known, may_admit
        self.monitored = [1] if start.size == 2 else list(range(start.size))
        shape = (2, known.n_views + 1, len(self.monitored))  # (R, W, C)
        self.shifts, self.information, self.squares, self.products = (np.zeros(shape) for _ in range(4))
        self.scores: list[FloatArray] = []  # of the block so far, each (R, W, C)
        self.references: list[FloatArray] = []
        self.bounds = np.zeros((len(self.monitored), 2))
        self.disagreement, self.quiet = 0.0, 0

    def hold_back(self, slow: FloatArray, fast: FloatArray) -> FloatArray:
        is_fast = self.may_admit and self.quiet >= 6
        tracked = fast if is_fast else slow
        guarded = tracked.copy()
        for c, k in enumerate(self.monitored):
            table = np.hypot(self.known.sensitivity[c], 3.0 * self.known.error[1 if is_fast else 0, c])
            drift = max(np.interp(tracked[k], GRID, table), np.interp(self.start[k], GRID, table))
            move = arc(tracked[k]) - arc(self.start[k])
            left = 0.0 if abs(move) <= drift else move * (1 - (drift / move) ** 2)
            low, high = left + self.bounds[c]
            nearest = np.clip(0.0, low, high)
            guarded[k] = np.sin(arc(self.start[k]) + nearest) ** 2
            if self.start.size == 2:
                return np.array([np.cos(arc(self.start[k]) + nearest) ** 2, guarded[k]])
        return np.asarray(guarded / guarded.sum())

    def absorb(self, log_ratios: FloatArray, fast: FloatArray) -> None:
        """Take in one row's log ratios by the model and by its views, (W, K)."""
        ratios = np.empty((len(log_ratios), len(self.monitored)))
        for c, k in enumerate(self.monitored):
            rest = np.delete(fast, k) / np.delete(fast, k).sum()
            others = np.log(np.exp(np.delete(log_ratios, k, axis=1)) @ rest)
            ratios[:, c] = np.exp(np.clip(log_ratios[:, k] - others, -30.0, 30.0))
        x = np.clip(arc(fast[self.monitored]) + self.shifts, 2e-3, np.pi / 2 - 2e-3)
        # d/dx log(1 + sin(x)^2 (ratio - 1))
        self.scores.append(2 * np.sin(x) * np.cos(x) * (ratios - 1) / (1 + np.sin(x) ** 2 * (ratios - 1)))
        self.references.append(fast[self.monitored])
        if len(self.scores) == 500:
            self._end_block()

    def _end_block(self) -> None:
        scores = np.array(self.scores)  # (500, R, W, C)
        level = np.mean(self.references, axis=0)  # (C,)
        kept = np.array([0.9, 0.98])[:, None, None]
        squares = np.minimum((scores**2).sum(axis=0), 4.0 * 500)
        products = (scores * scores[:, :, :1]).sum(axis=0)
        floor = np.maximum(self.known.least_information, 1e-12)
        self.information = np.maximum(kept * self.information + squares, floor)
        self.squares = kept**2 * self.squares + (scores**2).sum(axis=0)
        self.products = kept**2 * self.products + products
        step = np.clip(scores.sum(axis=0) / self.information, -0.2, 0.2)
        self.shifts = np.clip(self.shifts + step, -1.2, 1.2)
        influence = self.squares / self.information**2
        both = self.products / (self.information * self.information[:, :1])
        variance = np.maximum(influence[:, 1:] + influence[:, :1] - 2 * both[:, 1:], 0.0)
        expected = np.array(
            [
                [np.interp(level[c], GRID, table) for c, table in enumerate(tables)]
                for tables in self.known.expected.transpose(1, 0, 2)
            ]
        ).reshape(self.known.n_views, len(self.monitored))
        apart = self.shifts[:, 1:] - self.shifts[:, :1] - expected
        deviation = np.sqrt(variance + self.known.noise + 1e-12)
        excess = np.sign(apart) * np.maximum(abs(apart) - deviation, 0.0)
        # one view of three or more may dissent from a move towards the rarer side
        ordered = np.sort(excess, axis=1)  # (R, views, C)
        spared = 1 if self.known.n_views > 2 else 0
        for c, k in enumerate(self.monitored):
            rare = self.start[k] <= 0.5
            lowest, highest = ordered[:, spared if rare else 0, c], ordered[:, -1 - (0 if rare else spared), c]
            self.bounds[c] = min(0.0, lowest.min()), max(0.0, highest.max())
        self.disagreement = float((abs(apart) / deviation).max(initial=0.0))
        self.quiet = 0 if self.disagreement > 4.0 else self.quiet + 1
        self.scores, self.references = [], []


def some_view_reference(n_views: int, n_classes: int, seed: int) -> ViewReference:
    rng = np.random.default_rng(seed)
    monitored = 1 if n_classes == 2 else n_classes
    return ViewReference(
        rng.normal(scale=0.003, size=(monitored, n_views, len(GRID))),
        rng.uniform(0.0, 0.02, size=(monitored, len(GRID))),
        rng.uniform(1e-5, 1e-4, size=(n_views, monitored)),
        rng.uniform(100.0, 900.0, size=(n_views + 1, monitored)),
        rng.uniform(0.0, 0.01, size=(2, monitored)),
    )


def most_likely_arc(log_ratios: FloatArray, weights: FloatArray) -> float:
    """Return x of the most likely prior of weighted rows, by a library's search over x."""
    ratios = np.exp(log_ratios)

    def loss(x: float) -> float:
        return -float(weights @ np.log1p(np.sin(x) ** 2 * (ratios - 1.0)))

    return float(minimize_scalar(loss, bounds=(1e-6, np.pi / 2 - 1e-6), method="bounded", options={"xatol": 1e-7}).x)


def gaussian_view_reference(
    classes: GaussianClasses, subsets: Sequence[Sequence[int]], *, prior: float, n_rows: int = 4_000
) -> ViewReference:
    """Return what rows with exact ratios say of the whole and of feature subsets."""
    drawn = classes.draw(np.arange(n_rows) % 2.0, random_state=99)
    log_ratios = [drawn.log_ratios, *(classes.log_ratios(drawn.features, subset=subset) for subset in subsets)]
    sensitivity, information = np.empty((1, len(GRID))), np.empty((len(log_ratios), 1))
    for g, level in enumerate(GRID):
        weights = np.where(drawn.labels == 1, level, 1.0 - level) / (n_rows / 2)
        low, high = (most_likely_arc(log_ratios[0][:, 1] + drift, weights) for drift in (-0.1, 0.1))
        sensitivity[0, g] = (high - low) / 2.0
    weights = np.where(drawn.labels == 1, prior, 1.0 - prior) / (n_rows / 2)
    for w, one_view in enumerate(log_ratios):
        ratios = np.exp(one_view[:, 1])
        scores = np.sin(2 * arc(prior)) * (ratios - 1) / (1 + prior * (ratios - 1))
        information[w] = 1_500 * float(weights @ scores**2)
    return ViewReference(
        np.zeros((1, len(subsets), len(GRID))), sensitivity, np.full((len(subsets), 1), 1e-5), information,
        np.zeros((2, 1)),
    )  # fmt: skip


def slow_bank(prior: float) -> BayesBank:
    return BayesBank(prior, memories=(3_000, 10_000, 30_000, None), n_snapshots=0, start_rows=800.0)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("may_admit", "largest"), [(False, 4.0), (True, 4.0), (True, 25.0)])
def test_the_kernel_equals_the_reference(n_classes: int, may_admit: bool, largest: float) -> None:
    # seeds 1 to 3: eleven quiet blocks, two with a view that parts, and an unfinished one
    n_rows, n_views = 6_700, 2
    rng = np.random.default_rng(1)
    start = start_prior(n_classes)
    rows = np.clip(stream(n_rows, n_classes, seed=2), -largest, largest)
    views = rows[:, None] + rng.normal(scale=0.1, size=(n_rows, n_views, n_classes))
    views[..., 0] = 0.0
    views[5_500:, 1, -1] = 3.0 + rng.normal(size=1_200)
    slow, fast = BayesBank(start, memories=(3_000, None)), BayesBank(start)
    slow_path, fast_path = slow.update_many(rows), fast.update_many(rows)
    paths = [np.concatenate([path, bank.prior[None]]) for bank, path in ((slow, slow_path), (fast, fast_path))]
    known = some_view_reference(n_views, n_classes, seed=3)
    known.noise[:] = 3e-4  # so that quiet blocks come
    memory, reference = GuardMemory.empty(n_views + 1, n_classes), ReferenceGuard(start, known, may_admit=may_admit)
    guarded = np.empty((n_rows + 1, n_classes))
    guard_rows(
        rows, views, paths[0], paths[1], start, np.array(KEPT_EACH_BLOCK), np.array(GRID),
        known.expected, known.shrinkage, known.noise, known.least_information, may_admit, *memory, guarded,
    )  # fmt: skip
    admitted = []
    for t in range(n_rows):
        expected = reference.hold_back(paths[0][t], paths[1][t])
        np.testing.assert_allclose(guarded[t], expected, rtol=0, atol=1e-10)
        admitted.append(reference.quiet >= QUIET_BLOCKS)
        reference.absorb(np.concatenate([rows[t][None], views[t]]), paths[1][t])
    np.testing.assert_allclose(guarded[-1], reference.hold_back(paths[0][-1], paths[1][-1]), rtol=0, atol=1e-10)
    assert any(admitted) or largest > 4.0  # sure rows at the edges raise alarms: see below
    assert not admitted[-1]
    assert reference.bounds.any()
    for field in ("shifts", "information", "squares", "products", "bounds"):
        np.testing.assert_allclose(getattr(memory, field), getattr(reference, field), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(memory.disagreement, reference.disagreement, rtol=1e-9)
    assert memory.seen.tolist() == [len(reference.scores), reference.quiet] == [200, 0]


def parting_views(largest: float) -> tuple[FloatArray, FloatArray]:
    """Return rows that lean to class 1, then to class 0, and two views: the second says class 1 from row 5,500 on."""
    rng = np.random.default_rng(1)
    rows = np.clip(stream(6_700, 2, seed=2), -largest, largest)
    views = rows[:, None] + rng.normal(scale=0.1, size=(6_700, 2, 2))
    views[..., 0] = 0.0
    views[5_500:, 1, 1] = 3.0 + rng.normal(size=1_200)
    return rows, views


@pytest.mark.parametrize("largest", [4.0, 25.0])
def test_a_view_that_parts_is_seen_however_sure_the_rows_before_were(largest: float) -> None:
    rows, views = parting_views(largest)
    known = some_view_reference(2, 2, seed=3)
    known.noise[:] = 3e-4
    tracker = SafeTracker(start_prior(2), view_reference=known)
    tracker.update_many(rows[:5_500], evidence=with_views(rows, views)[:5_500])
    before = tracker.disagreement
    tracker.update_many(rows[5_500:], evidence=with_views(rows, views)[5_500:])
    assert tracker.disagreement > max(before, ALARM)
    assert not tracker.admitted


def test_a_row_tells_at_most_four_of_x() -> None:
    # the Fisher information of one row on x = arcsin sqrt(P) is at most 4, that of its label
    rows, views = parting_views(25.0)
    tracker = SafeTracker(start_prior(2), view_reference=some_view_reference(2, 2, seed=3))
    tracker.update_many(rows, evidence=with_views(rows, views))
    information = np.array(tracker.state()["memory"]["guard.information"])  # (R, W, C)
    assert (information.max(axis=(1, 2)) <= 4.0 * 500 / (1.0 - np.array(KEPT_EACH_BLOCK))).all()


@pytest.mark.parametrize(
    "prior",
    [
        0.1,
        0.01,
        0.001,
    ],
)
def test_exact_views_of_a_prior_that_stays_raise_no_alarm(prior: float) -> None:
    # seeds 0 ... 3: 240 blocks of a strong model, nothing drifts; one alarm in fifty is allowed (at .001 sixty came)
    classes = GaussianClasses.spread(5.0, n_features=8)
    known = gaussian_view_reference(classes, HALVES, prior=prior)
    alarms = 0
    for seed in range(4):
        drawn = classes.draw(np.full(30_000, prior), random_state=seed)
        views = np.stack([classes.log_ratios(drawn.features, subset=half) for half in HALVES], axis=1)
        tracker = SafeTracker(prior, view_reference=known)
        for first in range(0, 30_000, 500):
            part = slice(first, first + 500)
            tracker.update_many(drawn.log_ratios[part], evidence=with_views(drawn.log_ratios, views)[part])
            alarms += tracker.disagreement > ALARM
    assert alarms <= 240 / 50


def parted_by(noise: float) -> SafeTracker:
    """Return a tracker that had admitted fast memories, after one block in which its view says something else."""
    classes = GaussianClasses.pair(2.0)
    drawn = classes.draw(np.full(500, 0.5), random_state=19)
    tables = np.zeros((1, 1, 12)), np.zeros((1, 12)), np.full((1, 1), noise), np.full((2, 1), 300.0), np.zeros((2, 1))
    known = ViewReference(*tables)
    state = SafeTracker(0.3, view_reference=known).state()
    state["memory"]["guard.seen"] = [0, 12]
    tracker = SafeTracker.from_state(state)
    assert tracker.admitted
    views = drawn.log_ratios[:, None] - np.array([0.0, 1.0])
    tracker.update_many(drawn.log_ratios, evidence=with_views(drawn.log_ratios, views))
    slow, fast = slow_bank(0.3), BayesBank(0.3)
    for bank in (slow, fast):
        bank.update_many(drawn.log_ratios)
    reference = ReferenceGuard(np.array([0.7, 0.3]), known, may_admit=True)
    memory = tracker.state()["memory"]
    reference.bounds, reference.quiet = np.array(memory["guard.bounds"]), memory["guard.seen"][1]
    np.testing.assert_allclose(tracker.prior, reference.hold_back(slow.prior, fast.prior), rtol=1e-12)
    return tracker


def test_an_alarm_is_a_disagreement_beyond_four_deviations_and_takes_fast_memories_back() -> None:
    # apart^2 = disagreement^2 (variance + noise): two noises tell both, and so the noise of any disagreement
    noises = np.array([1e-3, 1e-2])
    squares = np.array([parted_by(float(noise)).disagreement ** 2 for noise in noises])
    variance = (squares[1] * noises[1] - squares[0] * noises[0]) / (squares[0] - squares[1])
    apart = squares[0] * (variance + noises[0])
    for disagreement, monitored in ((3.999, [0, 13]), (4.001, [0, 0])):
        tracker = parted_by(float(apart / disagreement**2 - variance))
        np.testing.assert_allclose(tracker.disagreement, disagreement, rtol=1e-6)
        assert tracker.state()["memory"]["guard.seen"] == monitored
        assert tracker.admitted == (disagreement < ALARM)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_what_is_guarded_lies_between_the_start_and_what_was_tracked(n_classes: int) -> None:
    rng = np.random.default_rng(4)
    known = some_view_reference(0, n_classes, seed=5)
    nothing = np.empty((0, n_classes))
    for _ in range(300):
        start, tracked = (rng.dirichlet(np.full(n_classes, 0.5)) + 1e-9 for _ in "ab")
        start, tracked = start / start.sum(), tracked / tracked.sum()
        memory, guarded = GuardMemory.empty(1, n_classes), np.empty((1, n_classes))
        memory.bounds[:] = rng.uniform(0.0, 0.3, size=memory.bounds.shape) * [-1.0, 1.0]
        guard_rows(
            nothing, np.empty((0, 0, n_classes)), tracked[None], tracked[None], start, np.array(KEPT_EACH_BLOCK),
            np.array(GRID), known.expected, known.shrinkage, known.noise, known.least_information, False,
            *memory, guarded,
        )  # fmt: skip
        assert_in_simplex(guarded)
        if n_classes == 2:
            low, high = sorted([start[1], tracked[1]])
            assert low - 1e-12 <= guarded[0, 1] <= high + 1e-12


def test_an_excess_beyond_the_move_takes_all_of_it_back_and_none_of_it_leaves_it_alone() -> None:
    start, tracked, nothing = np.array([0.9, 0.1]), np.array([0.6, 0.4]), np.empty((0, 2))
    known = ViewReference.empty(2)
    for bounds, expected in (((-1.0, 0.0), 0.1), ((0.0, 1.0), 0.4), ((0.0, 0.0), 0.4), ((-1e-3, 0.0), 0.399)):
        memory, guarded = GuardMemory.empty(1, 2), np.empty((1, 2))
        memory.bounds[:] = bounds
        guard_rows(
            nothing, np.empty((0, 0, 2)), tracked[None], tracked[None], start, np.array(KEPT_EACH_BLOCK),
            np.array(GRID), known.expected, known.shrinkage, known.noise, known.least_information, False,
            *memory, guarded,
        )  # fmt: skip
        np.testing.assert_allclose(guarded[0, 1], expected, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("start", [1e-15, 1.0 - 1e-15, 1e-6, 1.0 - 1e-6])
def test_a_guarded_prior_is_never_0(n_classes: int, start: float) -> None:
    first = np.full(n_classes, (1.0 - start) / (n_classes - 1))
    first[1] = start
    first = np.maximum(first, 1e-15)
    rng = np.random.default_rng(6)
    known = some_view_reference(2, n_classes, seed=7)
    known.sensitivity[:] = 0.0
    tracker = SafeTracker(first, view_reference=known)
    for sign in (1.0, -1.0):
        rows = np.zeros((2_000, n_classes))
        rows[:, 1] = sign * rng.choice([1.0, 30.0, 800.0, 1e300], size=2_000)
        views = np.clip(np.stack([rows, -rows], axis=1), -1e300, 1e300)
        priors = tracker.update_many(rows, evidence=with_views(rows, views))
        assert_in_simplex(priors)
        assert (priors > 0.0).all()
        tracker.feedback(rows[0], 0)
        assert_in_simplex(tracker.prior)


def test_exact_views_under_label_shift_admit_fast_memories_after_six_quiet_blocks() -> None:
    # seed 10: 3,000 rows whose prior goes from .1 to .3 and back; the views see one half of the features each
    classes = GaussianClasses.spread(2.5, n_features=8)
    tracker = SafeTracker(0.1, view_reference=gaussian_view_reference(classes, HALVES, prior=0.1))
    path = 0.1 + 0.2 * np.sin(np.linspace(0.0, np.pi, 3_000)) ** 2
    drawn = classes.draw(path, random_state=10)
    views = np.stack([classes.log_ratios(drawn.features, subset=half) for half in HALVES], axis=1)
    evidence = with_views(drawn.log_ratios, views)
    tracker.update_many(drawn.log_ratios[:2_999], evidence=evidence[:2_999])
    assert not tracker.admitted
    assert tracker.status == "slow memories, until the views agree for 6 blocks of 500 rows"
    tracker.update(drawn.log_ratios[2_999], evidence=evidence[2_999])
    assert tracker.admitted
    assert tracker.disagreement < ALARM
    assert tracker.status == "fast memories, admitted because the views agree"
    jump = classes.draw(np.full(1_500, 0.6), random_state=11)
    log_ratios = np.stack([classes.log_ratios(jump.features, subset=half) for half in HALVES], axis=1)
    bank = slow_bank(0.1)
    bank.update_many(np.concatenate([drawn.log_ratios, jump.log_ratios]))
    tracker.update_many(jump.log_ratios, evidence=with_views(jump.log_ratios, log_ratios))
    assert abs(tracker.prior[1] - 0.6) < 0.05  # fast
    assert bank.prior[1] < 0.4  # slow


def test_a_drift_of_half_of_the_features_holds_the_prior_while_the_slow_bank_runs_off() -> None:
    # seed 12: the prior stays at .1, half of the features move towards the other class by .6
    classes = GaussianClasses.spread(2.5, n_features=8)
    tracker = SafeTracker(0.1, view_reference=gaussian_view_reference(classes, HALVES, prior=0.1))
    bank = slow_bank(0.1)
    drawn = classes.draw(np.full(20_000, 0.1), random_state=12)
    features = drawn.features + np.array([0.6] * 4 + [0.0] * 4)
    rows = classes.log_ratios(features)
    views = np.stack([classes.log_ratios(features, subset=half) for half in HALVES], axis=1)
    bank.update_many(rows)
    tracker.update_many(rows, evidence=with_views(rows, views))
    assert tracker.disagreement > ALARM
    assert not tracker.admitted
    assert bank.prior[1] > 0.18
    assert abs(tracker.prior[1] - 0.1) < 0.3 * (bank.prior[1] - 0.1)
    low, high = tracker.interval()[1]
    assert low <= tracker.prior[1] <= bank.prior[1] <= high  # what was held back may have been right


def test_rows_without_views_do_not_count() -> None:
    classes = GaussianClasses.spread(2.5, n_features=8)
    known = gaussian_view_reference(classes, HALVES, prior=0.1)
    drawn = classes.draw(np.full(3_000, 0.2), random_state=13)
    views = np.stack([classes.log_ratios(drawn.features, subset=half) for half in HALVES], axis=1)
    tracker = SafeTracker(0.1, view_reference=known)
    for first in range(0, 3_000, 300):
        part = slice(first, first + 300)
        before = {name: values for name, values in tracker.state()["memory"].items() if name.startswith("guard.")}
        if first % 600:
            tracker.update_many(drawn.log_ratios[part])
            after = {name: values for name, values in tracker.state()["memory"].items() if name.startswith("guard.")}
            assert after == before
        else:
            tracker.update_many(drawn.log_ratios[part], evidence=with_views(drawn.log_ratios, views)[part])
    assert tracker.state()["memory"]["guard.seen"] == [0, 3]  # 1,500 of the rows had views


@pytest.mark.parametrize("n_classes", [2, 3])
def test_evidence_of_a_wrong_shape_or_not_finite_is_refused_and_changes_nothing(n_classes: int) -> None:
    rows = stream(20, n_classes, seed=14)
    evidence = np.stack([rows] * 3, axis=1)
    tracker = SafeTracker(start_prior(n_classes), view_reference=some_view_reference(2, n_classes, seed=15))
    tracker.update_many(rows, evidence=evidence)
    before = tracker.state()
    spoilt = [evidence.copy() for _ in range(4)]
    for value, bad in zip((np.nan, np.inf, -np.inf), spoilt[:3], strict=True):
        bad[-1, 1, 1] = value
    spoilt[3][-1, 2, 0] = 0.5  # relative to another class than the first
    shapes = (
        evidence[:, :2], evidence[:-1], evidence[..., :1], evidence[0], rows,
        np.empty((20, 0, n_classes)),
    )  # fmt: skip
    for bad in (*shapes, *spoilt, "x"):
        with pytest.raises(InvalidInputError, match="evidence"):
            tracker.update_many(rows, evidence=bad)
        assert tracker.state() == before
    for one in (evidence[0, :2], evidence[0].T, spoilt[0][-1], spoilt[3][-1], evidence[:1], rows[0], 0.0):
        with pytest.raises(InvalidInputError, match="evidence"):
            tracker.update(rows[0], evidence=one)
        assert tracker.state() == before
    np.testing.assert_array_equal(tracker.update(rows[0], evidence=evidence[0]), before["memory"]["prior"])


def test_what_stands_behind_the_views_is_ignored_by_a_tracker_that_takes_no_inputs() -> None:
    rows = stream(600, 2, seed=14)
    evidence, states = np.stack([rows, -rows, rows], axis=1), []
    for given in (evidence, np.concatenate([evidence, 2.0 * evidence], axis=1)):
        tracker = SafeTracker(0.3, view_reference=some_view_reference(2, 2, seed=15))
        tracker.update_many(rows, evidence=given)
        states.append(tracker.state())
    assert states[0] == states[1]


def test_views_are_compared_with_the_models_own_evidence_and_not_with_what_decides() -> None:
    # seed 20: what decides leans to class 1 by 2; the evidence and its views do not, and agree
    classes = GaussianClasses.spread(2.5, n_features=8)
    drawn = classes.draw(np.full(6_000, 0.1), random_state=20)
    views = np.stack([classes.log_ratios(drawn.features, subset=half) for half in HALVES], axis=1)
    evidence = with_views(drawn.log_ratios, views)
    known = gaussian_view_reference(classes, HALVES, prior=0.1)
    tracker, same = (SafeTracker(0.1, view_reference=known) for _ in range(2))
    tracker.update_many(drawn.log_ratios + np.array([0.0, 2.0]), evidence=evidence)
    same.update_many(drawn.log_ratios, evidence=evidence)
    assert tracker.admitted
    assert tracker.disagreement < ALARM
    assert tracker.state() == same.state()


def test_a_weak_classifier_is_not_followed_where_its_ratio_drifted() -> None:
    # seed 16: separation .5, the ratio too high by .1; its likelihood alone would go well past the truth
    classes = GaussianClasses.pair(0.5)
    drawn = classes.draw(np.full(30_000, 0.1), random_state=16)
    rows = drawn.log_ratios + np.array([0.0, 0.1])
    tracker, bank = SafeTracker(0.1, view_reference=gaussian_view_reference(classes, (), prior=0.1)), slow_bank(0.1)
    tracker.update_many(rows)
    bank.update_many(rows)
    assert bank.prior[1] > 0.2
    np.testing.assert_allclose(tracker.prior[1], 0.1, rtol=1e-12)


def test_a_strong_classifier_follows_a_true_change() -> None:
    classes = GaussianClasses.pair(3.0)
    drawn = classes.draw(np.full(20_000, 0.4), random_state=17)
    tracker = SafeTracker(0.1, view_reference=gaussian_view_reference(classes, (), prior=0.1))
    tracker.update_many(drawn.log_ratios)
    bank = slow_bank(0.1)
    bank.update_many(drawn.log_ratios)
    assert 0.37 < bank.prior[1] < 0.42
    assert bank.prior[1] - 0.01 < tracker.prior[1] <= bank.prior[1]


def test_a_weak_classifier_never_admits_fast_memories() -> None:
    classes = GaussianClasses.spread(0.5, n_features=8)
    known = gaussian_view_reference(classes, HALVES, prior=0.1)
    drawn = classes.draw(np.full(6_000, 0.1), random_state=18)
    views = np.stack([classes.log_ratios(drawn.features, subset=half) for half in HALVES], axis=1)
    tracker = SafeTracker(0.1, view_reference=known)
    tracker.update_many(drawn.log_ratios, evidence=with_views(drawn.log_ratios, views))
    assert tracker.state()["memory"]["guard.seen"][1] >= QUIET_BLOCKS
    assert not tracker.admitted
