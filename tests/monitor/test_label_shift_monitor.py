"""The monitor: unlabeled under every path of the prior, loud when the scores themselves move."""

import numpy as np
import pytest

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.monitor import LabelShiftMonitor
from obil.monitor.null_hull import NullHull
from obil.serving.holdout import Holdout
from tests.monitor.best_histogram import corner
from tests.monitor.cases import PAIR, held_out, six_paths, stream, three_path
from tests.thorough import repeats

PATHS = tuple(six_paths(10))


def rows_to_alarm(
    n_streams: int,
    n_rows: int,
    seed: int,
    *,
    counts: tuple[int, int] = (2000, 200),
    quiet: int = 0,
    shift: float = 0.0,
    noise: float = 0.0,
) -> FloatArray:
    """Return how many rows after the change the alarm came, inf where none did, at prior .05."""
    found = np.full(n_streams, np.inf)
    for i in range(n_streams):
        rng = np.random.default_rng([seed, i])
        monitor = LabelShiftMonitor(held_out(rng, counts))
        if quiet:
            assert monitor.update_many(stream(rng, np.full(quiet, 0.05))).all()
        monitor.update_many(stream(rng, np.full(n_rows, 0.05), shift=shift, noise=noise))
        if monitor.alarm_row is not None:
            found[i] = monitor.alarm_row - quiet
    return found


# --- validity -------------------------------------------------------------------------------------------------


def false_alarms(n_streams: int, n_rows: int, seed: int, *, calibration: tuple[float, float] = (0.0, 1.0)) -> int:
    """Return how many label-shift streams raise the alarm, over all six paths of the prior."""
    alarms = 0
    offset, slope = calibration
    for number, path in enumerate(six_paths(n_rows).values()):
        for i in range(n_streams // 6):
            rng = np.random.default_rng([seed, number, i])
            rows = held_out(rng)
            monitor = LabelShiftMonitor(Holdout.of(rows.log_ratios * slope + [0.0, offset], rows.labels))
            trusted = monitor.update_many(stream(rng, path) * slope + [0.0, offset])
            alarms += not monitor.trusted
            assert trusted.all() or not monitor.trusted
    return alarms


def test_no_path_of_the_prior_raises_the_alarm() -> None:
    # 60 streams that alarm at most 1 in 100 times each: 5 or more alarms have probability below 4e-4
    assert false_alarms(60, 20_000, seed=1) < 5


@pytest.mark.slow
def test_at_most_one_in_a_hundred_label_shift_streams_ever_alarms() -> None:
    n_streams = repeats(300, 1_002)
    assert false_alarms(n_streams, 20_000, seed=2) <= n_streams // 100


def in_copies(rng: np.random.Generator, n_rows: int, n_copies: int) -> FloatArray:
    """Return a stream at prior .05 in which each row comes several times in a row."""
    rows = stream(rng, np.full(n_rows // n_copies, 0.05)).repeat(n_copies, axis=0)
    return rows[n_copies // 2 :]  # copies of one row lie in two blocks


@pytest.mark.parametrize(("block", "least", "most"), [(1, 6, 20), (8, 0, 1)])
def test_rows_in_copies_raise_the_alarm_unless_bets_are_settled_in_blocks(block: int, least: int, most: int) -> None:
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng([8, seed])
        monitor = LabelShiftMonitor(held_out(rng), block=block)
        monitor.update_many(in_copies(rng, 20_000, 8))
        alarms += not monitor.trusted
    assert least <= alarms <= most


def test_blocks_find_a_change_later_but_find_it() -> None:
    found = []
    for block in (1, 4, 16):
        rng = np.random.default_rng(3)
        monitor = LabelShiftMonitor(held_out(rng), block=block)
        monitor.update_many(stream(rng, np.full(40_000, 0.05), shift=1.0))
        assert monitor.alarm_row is not None
        assert monitor.alarm_row % block == 0
        found.append(monitor.alarm_row)
    assert found[0] < found[1] < found[2]


@pytest.mark.slow
@pytest.mark.parametrize("calibration", [(0.7, 0.8), (-3.0, 1.4)])
def test_a_wrong_calibration_is_no_reason_to_alarm(calibration: tuple[float, float]) -> None:
    assert false_alarms(120, 20_000, seed=3, calibration=calibration) < 7


def test_histograms_taken_as_exact_do_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    # without the sets around the histograms the same streams are refused: so the test above can fail
    whole = NullHull.of

    def points(*args: object, **settings: object) -> NullHull:
        hull = whole(*args, **settings)
        return NullHull(hull.histograms, hull.radii * 1e-3, hull.counts)

    monkeypatch.setattr(NullHull, "of", points)
    assert false_alarms(18, 20_000, seed=4) > 6


def test_the_evidence_of_a_long_quiet_stream_stays_within_reach() -> None:
    rng = np.random.default_rng(5)
    monitor = LabelShiftMonitor(held_out(rng))
    monitor.update_many(stream(rng, np.full(300_000, 0.05)))
    assert monitor.trusted
    assert -8.0 < monitor.log_evidence <= monitor.peak_log_evidence < monitor.log_alarm


def test_priors_at_the_very_ends_are_explained_too() -> None:
    for prior in (1e-6, 1.0 - 1e-6):
        rng = np.random.default_rng(6)
        monitor = LabelShiftMonitor(held_out(rng))
        assert monitor.update_many(stream(rng, np.full(20_000, prior))).all()


def test_the_prior_may_answer_to_what_came_before() -> None:
    # an adversary raises the prior after low rows and lowers it after high ones; the guarantee needs no fixed path
    alarms = 0
    for seed in range(12):
        rng = np.random.default_rng([7, seed])
        monitor = LabelShiftMonitor(held_out(rng))
        prior = 0.05
        for _ in range(60):
            rows = stream(rng, np.full(100, prior))
            monitor.update_many(rows)
            prior = 0.4 if rows[-20:, 1].mean() < -1.5 else 0.02
        alarms += not monitor.trusted
    assert alarms <= 1


@pytest.mark.slow
def test_an_adversary_who_knows_every_bet_gains_nothing() -> None:
    # nature draws each block from whatever the held-out rows leave possible and pays best at that moment: the
    # evidence is then as near to a fair game as it gets. 80 games with alpha = .2: 29 alarms or more have
    # probability below 1e-3
    alarms, ends = 0, []
    for seed in range(80):
        rng = np.random.default_rng([8, seed])
        monitor = LabelShiftMonitor(held_out(rng), alpha=0.2)
        hull, ratios = monitor._hull, monitor._bins.centres - monitor._bins.centres[:, :1]
        for _ in range(40):
            payoff = monitor._memory.wealths @ monitor._memory.pays
            corners = [corner(f, r, payoff) for f, r in zip(hull.histograms, hull.radii, strict=True)]
            best = max(corners, key=lambda histogram: float(histogram @ payoff))
            monitor.update_many(ratios[rng.choice(best.size, p=best, size=50)])
        alarms += not monitor.trusted
        ends.append(monitor.log_evidence)
    assert alarms <= 28
    assert np.median(ends) > -1.5  # it was a game: under a plain prior the evidence falls faster


# --- power ----------------------------------------------------------------------------------------------------


def test_finds_a_shift_of_half_a_standard_deviation() -> None:
    assert np.median(rows_to_alarm(40, 4_000, seed=10, shift=0.5)) <= 1_400


def test_finds_added_noise_of_one_standard_deviation() -> None:
    assert np.median(rows_to_alarm(20, 6_000, seed=11, noise=1.0)) <= 3_000


def test_finds_weaker_noise_with_ten_times_the_held_out_rows() -> None:
    assert np.median(rows_to_alarm(6, 6_000, seed=12, counts=(20_000, 2_000), noise=0.75)) <= 3_000


def test_finds_a_shift_after_twenty_thousand_quiet_rows() -> None:
    assert np.median(rows_to_alarm(12, 6_000, seed=13, quiet=20_000, shift=0.5)) <= 2_500


def test_finds_rows_where_there_never_were_any() -> None:
    rng = np.random.default_rng(14)
    monitor = LabelShiftMonitor(held_out(rng))
    rows = stream(rng, np.full(3_000, 0.05))
    rows[rng.random(3_000) < 0.1, 1] = 40.0
    monitor.update_many(rows)
    assert not monitor.trusted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "shift", "noise", "most"),
    [((2000, 200), 0.5, 0.0, 1_400), ((2000, 200), 0.0, 1.0, 3_000), ((20_000, 2_000), 0.0, 0.75, 3_000)],
)
def test_the_median_time_to_the_alarm(counts: tuple[int, int], shift: float, noise: float, most: float) -> None:
    found = rows_to_alarm(100, 12_000, seed=15, counts=counts, shift=shift, noise=noise)
    assert np.median(found) <= most


# --- three classes --------------------------------------------------------------------------------------------


def three(seed: int, shift: FloatArray | float = 0.0, noise: float = 0.0) -> LabelShiftMonitor:
    rng = np.random.default_rng([20, seed])
    monitor = LabelShiftMonitor(held_out(rng, (2000, 300, 150)))
    monitor.update_many(stream(rng, three_path(rng, 6_000), shift=shift, noise=noise))
    return monitor


def test_three_classes_whose_prior_jumps_raise_no_alarm() -> None:
    assert sum(not three(seed).trusted for seed in range(30)) <= 2  # 1 % each: 3 or more have probability 4e-3


@pytest.mark.parametrize("shift", [(-0.5, 0.0), (0.0, 0.7), (0.0, -0.7)])
def test_a_shift_of_three_classes_is_found(shift: tuple[float, float]) -> None:
    assert sum(not three(seed, shift=np.array(shift)).trusted for seed in range(10)) >= 8


def test_noise_on_three_classes_is_found() -> None:
    assert sum(not three(seed, noise=1.0).trusted for seed in range(10)) >= 8


def test_ten_classes_run() -> None:
    rng = np.random.default_rng(21)
    labels = np.repeat(np.arange(10), 100)
    rows = rng.normal(size=(1_000, 10)) + 3.0 * np.eye(10)[labels]
    rows -= rows[:, :1].copy()
    monitor = LabelShiftMonitor(Holdout.of(rows, labels))
    monitor.update_many(rows[rng.permutation(1_000)])
    assert monitor.trusted
    monitor.update_many(np.concatenate([np.zeros((1_000, 1)), rows[:, 1:] * 0.0 + 30.0], axis=1))
    assert not monitor.trusted


# --- the interface --------------------------------------------------------------------------------------------


def test_one_row_at_a_time_equals_many_at_once_bit_for_bit() -> None:
    rng = np.random.default_rng(30)
    rows = held_out(rng)
    at_once, one_by_one, pieces = (LabelShiftMonitor(rows) for _ in range(3))
    seen = stream(rng, np.full(1_530, 0.05), shift=1.0)
    before = []
    for row in seen:
        before.append(one_by_one.trusted)
        one_by_one.update(row)
    np.testing.assert_array_equal(at_once.update_many(seen), before)
    assert at_once.state() == one_by_one.state()
    for part in np.split(seen, [0, 1, 7, 50, 99, 100, 101, 900]):
        pieces.update_many(part)
    assert pieces.state() == at_once.state()
    assert not all(before)


def test_a_row_is_judged_by_bets_placed_before_it_came() -> None:
    # whatever the next row is, the factors it could multiply the evidence by average to at most 1 under the null
    rng = np.random.default_rng(31)
    rows = held_out(rng)
    monitor = LabelShiftMonitor(rows)
    monitor.update_many(stream(rng, np.full(777, 0.05), shift=0.5))
    state, before = monitor.state(), monitor.log_evidence
    factors = np.empty(monitor._bins.n_bins)
    for number in range(factors.size):
        ratio = monitor._bins.centres[number, 1] - monitor._bins.centres[number, 0]
        copy = LabelShiftMonitor.from_state(rows, state)
        copy.update([0.0, ratio])
        factors[number] = np.exp(copy.log_evidence - before)
    assert factors.min() < 0.99
    assert factors.max() > 1.01
    assert monitor._hull.largest_mean(factors) <= 1.0 + 1e-9


def test_the_alarm_is_told_from_the_row_after_it() -> None:
    rng = np.random.default_rng(32)
    monitor = LabelShiftMonitor(held_out(rng), alpha=0.01)
    assert monitor.log_alarm == pytest.approx(np.log(100.0))
    assert monitor.trusted
    assert monitor.alarm_row is None
    assert monitor.n_alarms == 0
    trusted = monitor.update_many(stream(rng, np.full(3_000, 0.05), shift=-1.0))
    assert not monitor.trusted
    assert monitor.alarm_row is not None
    assert trusted[: monitor.alarm_row].all()
    assert not trusted[monitor.alarm_row :].any()
    assert monitor.n_alarms == 1
    assert monitor.peak_log_evidence >= max(monitor.log_alarm, monitor.log_evidence)


def test_a_restart_monitors_afresh_and_still_counts() -> None:
    rng = np.random.default_rng(33)
    rows = held_out(rng)
    monitor, fresh = LabelShiftMonitor(rows), LabelShiftMonitor(rows)
    monitor.update_many(stream(rng, np.full(2_020, 0.05), shift=-1.0))
    first_alarm = monitor.alarm_row
    monitor.restart()
    assert (monitor.trusted, monitor.alarm_row, monitor.n_alarms, monitor.n_rows) == (True, None, 1, 2_020)
    assert (monitor.log_evidence, monitor.peak_log_evidence) == (0.0, 0.0)
    quiet = stream(rng, np.full(2_000, 0.1))
    np.testing.assert_array_equal(monitor.update_many(quiet), fresh.update_many(quiet))
    assert monitor.trusted
    assert monitor.log_evidence == fresh.log_evidence
    monitor.update_many(stream(rng, np.full(2_000, 0.05), shift=-1.0))
    assert monitor.n_alarms == 2
    assert monitor.alarm_row is not None
    assert first_alarm is not None
    assert monitor.alarm_row > 4_020 > first_alarm


def test_bad_rows_are_refused_and_change_nothing() -> None:
    rng = np.random.default_rng(34)
    monitor = LabelShiftMonitor(held_out(rng))
    good = stream(rng, np.full(70, 0.05))
    monitor.update_many(good)
    before = monitor.state()
    for value in (np.nan, np.inf, -np.inf):
        rows = good.copy()
        rows[-1, 1] = value
        with pytest.raises(InvalidInputError):
            monitor.update_many(rows)
        with pytest.raises(InvalidInputError):
            monitor.update(rows[-1])
    for one in ([1.0, 0.0], [0.0], [0.0, 1.0, 2.0], [[0.0, 1.0]], 0.0, None, "x", [0.0, "a"]):
        with pytest.raises(InvalidInputError):
            monitor.update(one)
    for many in (good[:, :1], good[0], np.ones((3, 2)), [["a", "b"]], None):
        with pytest.raises(InvalidInputError):
            monitor.update_many(many)
    assert monitor.state() == before
    assert monitor.update_many(np.empty((0, 2))).shape == (0,)
    assert monitor.state() == before


def test_huge_ratios_are_evidence_and_no_accident() -> None:
    monitor = LabelShiftMonitor(held_out(np.random.default_rng(35)))
    for row in ([0.0, 1.7e308], [0.0, -1.7e308], [0.0, 5e-324], [0.0, -0.0]):
        monitor.update_many([row] * 120)
        assert np.isfinite(monitor.log_evidence)
    assert not monitor.trusted


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, np.nan, "x"])
def test_settings_outside_their_range_are_refused(bad: float) -> None:
    rows = held_out(np.random.default_rng(36))
    with pytest.raises(InvalidInputError):
        LabelShiftMonitor(rows, alpha=bad)
    with pytest.raises(InvalidInputError):
        LabelShiftMonitor(rows, delta=bad)
    with pytest.raises(InvalidInputError):
        LabelShiftMonitor(rows, tolerance=-1.0)


@pytest.mark.parametrize(
    "rows",
    [
        Holdout.of([[0.0, -1.0], [0.0, 1.0]], [0, 1]),
        Holdout.of([[0.0, 0.0]] * 4, [0, 1, 0, 1]),
        Holdout.of([[0.0, 0.0, 0.0]] * 3, [0, 1, 2]),
        Holdout.of([[0.0, 1e308], [0.0, -1e308], [0.0, 0.0]], [0, 1, 1], [1.0, 1e-300, 0.0]),
    ],
    ids=["one a class", "equal", "equal, three classes", "huge"],
)
def test_hardly_any_held_out_rows_make_a_monitor_that_says_nothing(rows: Holdout) -> None:
    monitor = LabelShiftMonitor(rows)
    drawn = np.random.default_rng(37).integers(len(rows.labels), size=3_000)
    monitor.update_many(rows.log_ratios[drawn])
    assert monitor.trusted
    assert np.isfinite(monitor.log_evidence)


def test_a_score_that_separates_nothing_is_monitored_as_well() -> None:
    rng = np.random.default_rng(38)
    labels = np.repeat([0, 1], [2000, 200])
    noise = np.stack([np.zeros(2_200), rng.normal(size=2_200)], axis=1)
    monitor = LabelShiftMonitor(Holdout.of(noise, labels))
    quiet = np.stack([np.zeros(5_000), rng.normal(size=5_000)], axis=1)
    assert monitor.update_many(quiet).all()
    monitor.update_many(quiet * 1.8)
    assert not monitor.trusted


def test_a_tolerance_forgives_small_differences_and_no_large_ones() -> None:
    rng = np.random.default_rng(40)
    rows = held_out(rng)
    slightly, far = (stream(rng, np.full(10_000, 0.05), shift=shift) for shift in (-0.35, -1.0))
    for tolerance, trusted in ((0.0, False), (0.1, True)):
        monitor = LabelShiftMonitor(rows, tolerance=tolerance)
        monitor.update_many(slightly)
        assert monitor.trusted == trusted
        monitor.restart()
        monitor.update_many(far)
        assert not monitor.trusted
        assert LabelShiftMonitor.from_state(rows, monitor.state()).state() == monitor.state()


def test_repeated_customers_break_it_as_the_docs_say() -> None:
    # 20 customers who come again and again: rows are not independent given their class
    rng = np.random.default_rng(39)
    monitor = LabelShiftMonitor(held_out(rng))
    customers = PAIR.log_ratios(rng.standard_normal((20, 1)))
    monitor.update_many(customers[rng.integers(20, size=5_000)])
    assert not monitor.trusted
