"""Follow and record the rows of many streams, in two compiled passes over their records."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import BoolArray, FloatArray, IntArray
from obil.compiled import linked
from obil.monitor.bets import propose
from obil.monitor.monitor_memory import MonitorConstants, place_stakes, update_wealths
from obil.monitor.null_hull import bet_against
from obil.online.decision import Decisions
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.history import IN_OPEN, LENGTH, add_to_history
from obil.online.state.outcome_tally import add_to_tally
from obil.serving.ratio_model import Scores
from obil.trackers import SafeTracker
from obil.trackers.bank_kernel import run_bank
from obil.trackers.label_experts import advise_rows
from obil.trackers.safe_state import SafeConstants
from obil.trackers.view_guard import guard_rows


def can_pass(online: OnlineClassifier) -> bool:
    """Return whether the passes do what streams with these settings do: any but the default tracker is too seldom."""
    # a row that means a label at the horizon is learned before the next row is decided
    return type(online._tracker) is SafeTracker and online._ledger.unlabeled_as is None


def pass_over(
    online: OnlineClassifier,
    records: npt.NDArray[np.void],
    slots: IntArray,
    starts: IntArray,
    scores: Scores,
    ids: Sequence[Any],
) -> tuple[Decisions, npt.NDArray[np.float32] | None]:
    """Decide the rows of G streams with the settings of `online`; return also what their labels will need of them.

    `scores` are those of the rows stream by stream, with the evidence of one fold, (n, S, K).
    """
    tracker, monitor, positive = online._tracker, online._monitor, online._positive
    assert isinstance(tracker, SafeTracker)  # by `can_pass`
    ratios, seen = scores
    online._require_sources(seen)
    priors, n_rows = np.empty_like(ratios), len(ratios)
    inputs = np.empty_like(tracker.latest_inputs)  # of a row, which nobody reads here
    follow_streams(records, slots, starts, ratios, seen, tracker.constants, inputs, priors)
    ruling = online._rule.decide(ratios, priors)
    trusted, evidence = np.ones(n_rows, dtype=np.bool_), np.full(n_rows, np.nan)
    if monitor is not None:
        bins = monitor.bins_of(np.ascontiguousarray(seen[:, 0]))
        monitor_streams(records, slots, starts, bins, monitor.constants, trusted, evidence)
    decided = online._decisions(ids, ratios, seen, priors, ruling, trusted)
    thresholds = np.full(n_rows, np.nan) if decided.thresholds is None else decided.thresholds
    record_streams(
        records, slots, starts, np.ascontiguousarray(decided.posteriors), thresholds, decided.alerts, priors, evidence,
        -1 if positive is None else positive, online._record.tally.kept,
    )  # fmt: skip
    return decided, tracker.inputs_of(seen).reshape(n_rows, -1) if online._n_inputs else None


# A field of a record is sliced, so that kernels see a plain array and need not be compiled for each layout.


@linked
def follow_streams(
    records: Any,
    slots: IntArray,
    starts: IntArray,
    rows: FloatArray,
    evidence: FloatArray,
    known: SafeConstants,
    inputs: npt.NDArray[np.float32],
    priors: FloatArray,
) -> None:
    """Update the safe trackers of G streams with their rows; write the prior each row is decided with, (n, K).

    Stream g is `records[slots[g]]`; its rows are those from `starts[g]` to before `starts[g + 1]`.
    """
    n_classes = rows.shape[1]
    for g in range(slots.size):
        memory = records[slots[g]].tracker
        first, end = starts[g], starts[g + 1]
        seen = evidence[first:end]
        own = np.ascontiguousarray(seen[:, 0])
        views = np.ascontiguousarray(seen[:, 1 : 1 + known.n_views])
        slow, fast = np.empty((end - first + 1, n_classes)), np.empty((end - first + 1, n_classes))
        guarded = np.empty((end - first + 1, n_classes))
        bank = memory.slow
        run_bank(
            own, slow, known.slow.start_counts, known.slow.kept, known.slow.floors,
            bank.prior[:], bank.counts[:], bank.snapshots[:], bank.weights[:], bank.uses[:], bank.used[:],
            bank.rate_weights[:], bank.visits[:], bank.seen[:],
        )  # fmt: skip
        bank = memory.fast
        run_bank(
            own, fast, known.fast.start_counts, known.fast.kept, known.fast.floors,
            bank.prior[:], bank.counts[:], bank.snapshots[:], bank.weights[:], bank.uses[:], bank.used[:],
            bank.rate_weights[:], bank.visits[:], bank.seen[:],
        )  # fmt: skip
        guard, of_guard = memory.guard, known.guard
        guard_rows(
            own, views, slow, fast, known.start, of_guard.kept, of_guard.grid, of_guard.expected, of_guard.shrinkage,
            of_guard.noise, of_guard.least_information, of_guard.may_admit,
            guard.shifts[:], guard.information[:], guard.squares[:], guard.products[:], guard.block[:],
            guard.reference[:], guard.bounds[:], guard.disagreement[:], guard.seen[:], guarded,
        )  # fmt: skip
        labels = memory.labels
        advise_rows(
            rows[first:end], seen, known.n_views, guarded, fast, known.start, known.lead,
            labels.weights[:], labels.prevalence_weights[:], labels.counts[:], labels.maps[:], labels.input_map[:],
            labels.past[:], labels.past_rows[:], labels.past_labels[:], labels.latest[:], labels.seen[:],
            inputs, priors[first:end], memory.prior[:],
        )  # fmt: skip


@linked
def monitor_streams(
    records: Any,
    slots: IntArray,
    starts: IntArray,
    bins: IntArray,
    known: MonitorConstants,
    trusted: BoolArray,
    evidence: FloatArray,
) -> None:
    """Update the monitors of G streams; write whether each was trusted before a row, and its evidence after it."""
    n_alternatives, n_bins = known.start_wealths.size // 2, known.histograms.shape[1]
    alternatives, bets = np.empty((n_alternatives, n_bins)), np.empty((n_alternatives, n_bins))
    for g in range(slots.size):
        memory = records[slots[g]].monitor
        for t in range(starts[g], starts[g + 1]):
            n_monitored = update_wealths(
                bins[t : t + 1], trusted[t : t + 1], memory.pays[:], known.start_wealths, known.log_alarm, known.block,
                memory.wealths[:], memory.paid[:], memory.fresh[:], memory.evidence[:], memory.seen[:],
            )  # fmt: skip
            evidence[t] = memory.evidence[0]
            if n_monitored % known.every == 0:
                propose(
                    memory.fresh[:], memory.counts[:], known.kept, known.warped, known.start_prior, memory.priors[:],
                    alternatives,
                )  # fmt: skip
                bet_against(known.histograms, known.radii, alternatives, memory.mixing[:], memory.parts[:], bets)
                place_stakes(bets, memory.pays[:])


@linked
def record_streams(
    records: Any,
    slots: IntArray,
    starts: IntArray,
    posteriors: FloatArray,
    thresholds: FloatArray,
    alerts: BoolArray,
    priors: FloatArray,
    evidence: FloatArray,
    positive: int,
    kept: float,
) -> None:
    """Add the decided rows of G streams to their histories, counters and tallies; no class is tallied if it is -1."""
    column = max(positive, 0)
    own, before = np.ascontiguousarray(posteriors[:, column]), np.ascontiguousarray(priors[:, column])
    for g in range(slots.size):
        record = records[slots[g]]
        first, end = starts[g], starts[g + 1]
        history, tally = record.history, record.tally
        part = first
        while part < end:  # a history takes the evidence where its buckets end
            stop = min(end, part + history.counts[LENGTH] - history.counts[IN_OPEN])
            add_to_history(
                posteriors[part:stop], thresholds[part:stop], alerts[part:stop], evidence[stop - 1 : stop],
                history.prevalence[:], history.thresholds[:], history.log_evidence[:], history.alerts[:],
                history.open_sums[:], history.open_threshold[:], history.open_evidence[:], history.counts[:],
            )  # fmt: skip
            part = stop
        if positive >= 0:
            add_to_tally(
                own[first:end], alerts[first:end], before[first:end], kept,
                tally.sums[:], tally.surprise[:], tally.labels[:], tally.seen[:],
            )  # fmt: skip
        record.counters.seen[0] += end - first
