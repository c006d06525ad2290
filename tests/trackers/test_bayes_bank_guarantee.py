"""The bank's evidence is within its stated bound of the best sequence of experts, for any rows."""

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from obil.arrays import FloatArray
from obil.trackers import BayesBank

N_ROWS = 600
BoolArray = npt.NDArray[np.bool_]
Chooser = Callable[[BayesBank, int], FloatArray]


class Expert(NamedTuple):
    """The priors of all experts at one row, with their identities: a replaced snapshot is another expert."""

    priors: FloatArray  # (N, K)
    alive: BoolArray  # (N,)
    visits: npt.NDArray[np.int64]  # (V,)


def experts_of(bank: BayesBank) -> Expert:
    memory = bank._memory
    counts, snapshots = memory.counts.T, memory.snapshots.T  # (M, K) and (V, K)
    priors = np.concatenate([counts / counts.sum(axis=1, keepdims=True), snapshots])
    assert priors.shape[1] == memory.prior.size
    alive = np.arange(len(priors)) < len(counts) + memory.seen[1]
    return Expert(priors.copy(), alive, memory.visits.copy())


def alternating_blocks(n_classes: int, block: int, size: float) -> Chooser:
    def choose(bank: BayesBank, t: int) -> FloatArray:
        row = np.zeros(n_classes)
        row[1:] = -size
        if (t // block) % 2:
            row[1 + (t // (2 * block)) % (n_classes - 1)] = size
        return row

    return choose


def random_extremes(n_classes: int, seed: int) -> Chooser:
    rng = np.random.default_rng(seed)
    rows = rng.choice([-300.0, -20.0, -3.0, 0.0, 1.0, 8.0, 40.0, 600.0], size=(N_ROWS, n_classes))
    rows[:, 0] = 0.0
    return lambda bank, t: rows[t]


def greedy(n_classes: int, size: float) -> Chooser:
    """Give the class that the bank now thinks least likely all the evidence."""

    def choose(bank: BayesBank, t: int) -> FloatArray:
        row = np.zeros(n_classes)
        least = int(np.argmin(bank.prior))
        if least == 0:
            row[1:] = -size
        else:
            row[least] = size
        return row

    return choose


def greedy_regret(n_classes: int, size: float) -> Chooser:
    """Choose the row on which the bank falls furthest behind its best expert of the moment."""

    def choose(bank: BayesBank, t: int) -> FloatArray:
        candidates = np.concatenate([np.zeros((1, n_classes)), size * np.eye(n_classes)[1:]])
        candidates[0, 1:] = -size
        experts = experts_of(bank)
        ratios = np.exp(candidates - candidates.max(axis=1, keepdims=True))  # (C, K)
        best = (ratios @ experts.priors[experts.alive].T).max(axis=1)
        return np.asarray(candidates[np.argmax(best / (ratios @ bank.prior))])

    return choose


def snapshot_trap(n_classes: int) -> Chooser:
    """Drive a two-snapshot bank through ever new regimes so that snapshots in use are replaced."""
    turns = np.random.default_rng(4).random(N_ROWS)

    def choose(bank: BayesBank, t: int) -> FloatArray:
        level = (0.001, 0.999, 0.3, 0.9, 0.02, 0.6)[t // 100 % 6]
        row = np.zeros(n_classes)
        row[1] = 12.0 if turns[t] < level else -12.0
        return row

    return choose


def runs() -> Iterator[tuple[str, int, dict[str, object], Chooser]]:
    for n_classes in (2, 3):
        yield f"blocks-100-{n_classes}", n_classes, {}, alternating_blocks(n_classes, 100, 30.0)
        yield f"blocks-37-{n_classes}", n_classes, {}, alternating_blocks(n_classes, 37, 6.0)
        yield f"extremes-{n_classes}", n_classes, {}, random_extremes(n_classes, seed=n_classes)
        yield f"greedy-{n_classes}", n_classes, {}, greedy(n_classes, 10.0)
        yield f"greedy-regret-{n_classes}", n_classes, {}, greedy_regret(n_classes, 400.0)
        yield f"one-snapshot-{n_classes}", n_classes, {"n_snapshots": 1}, snapshot_trap(n_classes)
        yield f"two-snapshots-{n_classes}", n_classes, {"n_snapshots": 2, "memories": (None,)}, snapshot_trap(n_classes)


def best_with_switches(evidence: FloatArray, allowed: BoolArray, same: BoolArray, n_switches: int) -> FloatArray:
    """Return the largest log evidence of any sequence of experts with at most 0 ... n_switches switches.

    evidence and allowed are (T, N); same[t, m] says whether m is the expert it was at row t - 1.
    """
    best = np.where(allowed[0], evidence[0], -np.inf)[None].repeat(n_switches + 1, axis=0)  # (S+1, N)
    for t in range(1, len(evidence)):
        stayed = np.where(same[t], best, -np.inf)
        switched = np.full_like(best, -np.inf)
        switched[1:] = best[:-1].max(axis=1, keepdims=True)
        best = np.where(allowed[t], np.maximum(stayed, switched) + evidence[t], -np.inf)
    return np.asarray(best.max(axis=1))


@pytest.mark.parametrize(
    ("n_classes", "options", "choose"),
    [pytest.param(*case[1:], id=case[0]) for case in runs()],
)
def test_the_evidence_is_within_the_bound_of_the_best_sequence_of_experts(
    n_classes: int, options: dict[str, object], choose: Chooser
) -> None:
    bank = BayesBank(np.full(n_classes, 1.0 / n_classes), **options)
    own, evidence, allowed, same = 0.0, [], [], []
    last: Expert | None = None
    for t in range(N_ROWS):
        experts, row = experts_of(bank), choose(bank, t)
        ratios = np.exp(row - row.max())
        own += np.log(bank.prior @ ratios)
        with np.errstate(divide="ignore"):
            evidence.append(np.log(experts.priors @ ratios))
        allowed.append(experts.alive)
        n_filters = len(experts.priors) - int(bank.state()["settings"]["n_snapshots"])
        kept = np.ones(len(experts.priors), dtype=bool)
        if last is not None:  # a snapshot that was replaced is a new expert: resuming with it is a switch
            unchanged = (experts.priors[n_filters:] == last.priors[n_filters:]).all(axis=1)
            kept[n_filters:] = unchanged | (experts.visits > last.visits)  # one that was averaged is still itself
        same.append(kept)
        last = experts
        bank.update(row)
    best = best_with_switches(np.array(evidence), np.array(allowed), np.array(same), 4)
    n_experts, n_rates = len(allowed[0]), 3
    for switches, log_evidence in enumerate(best):
        bound = (switches + 1) * (np.log(2 * n_experts) + np.log(N_ROWS + 2)) + np.log(n_rates) + np.log(N_ROWS + 2)
        assert own >= log_evidence - bound
    assert (np.diff(best) >= -1e-9).all()  # more switches never hurt: the oracle is sound


def test_the_oracle_finds_the_best_sequence_that_enumeration_finds() -> None:
    rng = np.random.default_rng(0)
    evidence = rng.normal(size=(6, 3))
    allowed, same = rng.random((6, 3)) < 0.9, rng.random((6, 3)) < 0.8
    allowed[:, 0] = True
    expected = np.full(3, -np.inf)
    for code in range(3**6):
        path = [(code // 3**t) % 3 for t in range(6)]
        if all(allowed[t, m] for t, m in enumerate(path)):
            pairs = list(itertools.pairwise(path))
            switches = sum(one != other or not same[t + 1, other] for t, (one, other) in enumerate(pairs))
            total = sum(evidence[t, m] for t, m in enumerate(path))
            expected[switches:] = np.maximum(expected[switches:], total)
    found = best_with_switches(evidence, allowed, same, 2)
    np.testing.assert_allclose(found, expected)
