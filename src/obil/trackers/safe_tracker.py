"""Track the prior so that adapting is never noticeably worse than not adapting."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, PriorLike, as_floats, as_log_ratios, require_in
from obil.errors import InvalidInputError, InvalidStateError
from obil.serving.ratio_model import RatioModel
from obil.trackers.bayes_bank import BayesBank
from obil.trackers.label_experts import (
    COUNT_MEMORIES,
    FAST,
    GUARDED,
    N_EXPERTS,
    RECALIBRATION_MEMORIES,
    TRAINING,
    LabelMemory,
    advise,
    advise_rows,
    learn_label,
    priors_of_rows,
    start_precision,
)
from obil.trackers.label_summary import RECENT_LABELS, LabelSummary
from obil.trackers.label_weight import label_weight_text, weight_of_labels
from obil.trackers.labelled_interval import counted_interval, labelled_interval
from obil.trackers.safe_state import SafeMemory, require_possible
from obil.trackers.tracker import CompiledTracker
from obil.trackers.view_guard import (
    KEPT_EACH_BLOCK,
    LARGEST_SENSITIVITY,
    QUIET_BLOCKS,
    GuardMemory,
    all_finite,
    guard_rows,
)
from obil.trackers.view_reference import ViewReference

SLOW_MEMORIES: tuple[float | None, ...] = (3_000, 10_000, 30_000, None)
SLOW_START_ROWS = 800.0
LEADS = {"training": TRAINING, "slow": GUARDED, "fast": GUARDED}


class SafeTracker(CompiledTracker):
    """Follow the prior as far as views and labels bear it out.

    p(x | class) drifts in the wild, and a likelihood cannot tell that from a change of the prior. So this tracker
    moves slowly; not at all where a small drift of the ratio would explain the move; and no further than the *views*
    of the model, other opinions on the same rows, agree on beyond their noise. Fast memories are admitted after ten
    blocks of 500 rows without a disagreement. As soon as labels come (`feedback`), the posteriors of eight experts
    (training prior, guarded prior, fast bank, three counts of labels, two recalibrations) are mixed by their log loss,
    and the more labels have told, the more they decide (`label_weight`).

    Guarantee
    ---------
    Whatever the labels, for log ratios within 750: when each label is fed back before the next row is decided, the log
    loss of the mixture on T labelled rows after the first, each weighted by least propensity / propensity, exceeds
    that of the best of M experts by at most ``log M + log(T + 1) + T / 999`` (log 1/w for an expert that starts with
    weight w), and that of a sequence of experts by ``log M + log(1000)`` more for each switch. A later label is held
    against the advice that was stored last before its row, and counts by 1 / (1 + d) where d labels came in between:
    what was decided meanwhile could not know it. Late labels carry no such bound, and without labels nothing is
    guaranteed: views can agree on a wrong value.

    Parameters
    ----------
    prior
        The prior to start from; None leaves that to `start`.
    view_reference
        What a model's held-out rows say of it and its views, or None: then the tracker is the slow bank.
    lead
        What decides before any label came: "slow", the guarded slow bank; "fast", the guarded fast bank from the first
        row on; "training", the start prior. A backtest tells.
    start_weights
        Of the experts when the first label comes; equal if None.

    >>> tracker = SafeTracker(0.5)
    >>> _ = tracker.update_many([[0.0, -9.0]] * 1_000)  # rows that all look negative
    >>> bool(0.1 < tracker.prior[1] < 0.3)  # it takes its time
    True
    >>> for _ in range(40):
    ...     tracker.feedback([0.0, -9.0], 0)
    >>> tracker.status
    'labels have 24 % of the say, the start prior and the banks the rest'
    """

    _memory: SafeMemory

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        view_reference: ViewReference | Mapping[str, Any] | None = None,
        lead: str = "slow",
        start_weights: Sequence[float] | None = None,
    ) -> None:
        if str(lead) not in LEADS:
            raise InvalidInputError(f"lead must be one of {sorted(LEADS)}, got {lead!r:.40}")
        given = (
            [1.0 / N_EXPERTS] * N_EXPERTS
            if start_weights is None
            else as_floats(start_weights, "start_weights").ravel().tolist()
        )
        weights = [require_in("a start weight", weight, 1e-6, 1.0) for weight in given]
        if len(weights) != N_EXPERTS or abs(sum(weights) - 1.0) > 1e-6:
            raise InvalidInputError(f"start_weights must be {N_EXPERTS} numbers that sum to 1, got {weights}")
        if not isinstance(view_reference, ViewReference | Mapping | None):
            raise InvalidInputError(f"view_reference are those of a model, got {view_reference!r:.40}")
        self._given = view_reference
        described = view_reference.to_json() if isinstance(view_reference, ViewReference) else view_reference
        super().__init__(
            prior, view_reference=None if described is None else dict(described), lead=lead, start_weights=weights
        )

    @classmethod
    def for_model(cls, model: RatioModel, **settings: Any) -> "SafeTracker":
        """Return a tracker with the view_reference of a model, and the advice of its backtest, to be started."""
        advice = model.advice
        if advice is not None:
            weights = advice.start_weights
            known = weights is not None and len(weights) == N_EXPERTS
            settings = {"lead": advice.lead, "start_weights": weights if known else None} | settings
        return cls(view_reference=ViewReference.of_model(model), **settings)

    def with_views_of(self, model: RatioModel) -> "SafeTracker":
        """Return a tracker that knows the prior as this one does, but scores and views by another model.

        What the views, and the recalibrations, of the old model said does not speak of the new one's: they start
        anew, and the prior jumps to where the banks are without them. A model whose view_reference are the same is the
        same one, and nothing changes.
        """
        self._started()
        other = SafeTracker.for_model(
            model, lead=self._settings["lead"], start_weights=self._settings["start_weights"]
        ).start(self._start)
        mine, theirs = self._memory._asdict(), other._memory._asdict()
        if other._settings["view_reference"] == self._settings["view_reference"]:
            for name, values in theirs.items():
                values[...] = mine[name]
            return other
        kept = ("slow.", "fast.", "labels.counts", "labels.least_propensity", "labels.seen", "labels.arrivals")
        for name, values in theirs.items():
            if name.startswith(kept):
                values[...] = mine[name]
        weights, n_priors = self._memory.labels.weights, FAST + 1 + len(COUNT_MEMORIES)
        fresh = other._memory.labels
        fresh.weights[:n_priors] = weights[:n_priors] * (1.0 + weights[n_priors:].sum() / weights[:n_priors].sum())
        fresh.weights[n_priors:] = 0.0
        fresh.weights[:] = (fresh.weights + self._start_weights) / 2.0
        fresh.past_rows[0, 0], fresh.past_labels[0, 0] = fresh.seen[0], fresh.seen[1]
        fresh.past[0, 0] = fresh.latest[:] = other._advice()
        other._memory.prior[:] = other.priors_for(np.zeros((1, self.n_classes)))[0]
        return other

    @property
    def lead(self) -> str:
        """What decides before the first label: "slow", "fast" or "training"."""
        return str(self._settings["lead"])

    @property
    def n_views(self) -> int:
        """How many views of a row this tracker listens to."""
        self._started()
        return self._view_reference.n_views

    @property
    def n_labels(self) -> int:
        """How many labels came."""
        self._started()
        return int(self._memory.labels.seen[1])

    @property
    def admitted(self) -> bool:
        """Whether fast memories are trusted, as long as no label speaks."""
        self._started()
        return self._may_admit and bool(self._memory.guard.seen[1] >= QUIET_BLOCKS)

    @property
    def disagreement(self) -> float:
        """How far the views disagreed in the last block, in standard deviations."""
        self._started()
        return float(self._memory.guard.disagreement[0])

    @property
    def status(self) -> str:
        """What decides at the moment, in words."""
        if self.n_labels:
            return label_weight_text(self.label_weight)
        if self._settings["lead"] == "training":
            return "the start prior, until labels come"
        if self._settings["lead"] == "fast" and self.admitted:
            return "fast memories, as a backtest or the user advised"
        if self.admitted:
            return "fast memories, admitted because the views agree"
        if not self.n_views:
            return "the slow bank: there are neither views nor labels to check a faster one"
        return "the slow bank, held back by its views"

    @property
    def label_weight(self) -> float:
        """How much of what is decided is owed to labels, from 0 to 1: the weight that their experts have learned."""
        self._started()
        labels = self._memory.labels
        return weight_of_labels(labels.weights, labels.counts, labels.precisions, self._start_precision)

    @property
    def labelled_prior(self) -> FloatArray | None:
        """The prior by all labels alone, weighted by 1 / propensity, (K,); None before the first."""
        self._started()
        counts = self._memory.labels.counts[-1]
        return counts / counts.sum() if counts.sum() > 0.0 else None

    @property
    def expert_weights(self) -> dict[str, float]:
        """What each expert has earned by labels so far."""
        self._started()
        names = ["training prior", "guarded prior", "fast bank"]
        names += [f"label count, {_memory_name(memory)}" for memory in COUNT_MEMORIES]
        names += [f"recalibration, {_memory_name(memory)}" for memory in RECALIBRATION_MEMORIES]
        return dict(zip(names, self._memory.labels.weights.tolist(), strict=True))

    def label_summary(self) -> LabelSummary | None:
        """Return what the labels have shown so far; None before the first."""
        if not self.n_labels:
            return None
        labels, n_priors = self._memory.labels, FAST + 1 + len(COUNT_MEMORIES)
        recent = RECALIBRATION_MEMORIES.index(RECENT_LABELS)
        return LabelSummary(
            n_labels=self.n_labels,
            label_weight=self.label_weight,
            recalibration_weight=float(sum(labels.weights[n_priors:].tolist())),
            slope=float(labels.maps[recent, 0]),
            slope_sd=float(np.sqrt(np.linalg.inv(labels.precisions[recent])[0, 0])),
            counts=labels.counts[COUNT_MEMORIES.index(RECENT_LABELS)].copy(),
            unlabelled_prior=self._slow.prior,
        )

    def feedback(
        self,
        log_ratios: npt.ArrayLike,
        label: int,
        *,
        propensity: float = 1.0,
        row: int | None = None,
        replaced: int | None = None,
        counts_only: bool = False,
    ) -> None:
        """Let a true label speak.

        `propensity` is the probability that this label was asked for, `row` the number of the row when it was decided
        (None: just now), `replaced` the label it takes the place of. With `counts_only` it speaks of the prior alone:
        the log ratios of its row are those of a model that has been replaced.
        """
        self._started()
        memory, labels = self._memory, self._memory.labels
        values = as_log_ratios(as_floats(log_ratios, "log_ratios")[None], n_classes=self.n_classes)[0]
        number = _class_number(label, self.n_classes)
        before = -1 if replaced is None else _class_number(replaced, self.n_classes)
        share = require_in("propensity", propensity, 1e-9, 1.0)
        decided = int(labels.seen[0]) - 1 if row is None else _row_number(row, int(labels.seen[0]))
        if before >= 0 and not labels.seen[1]:
            raise InvalidInputError("a label replaces another one only after that one came")
        if before == number:
            return
        learn_label(
            values, number, before, share, decided, counts_only, self._start_weights, self._start_precision,
            self._count_memories, self._map_memories,
            labels.weights, labels.counts, labels.maps, labels.precisions,
            labels.past, labels.past_rows, labels.past_labels, labels.latest, labels.arrivals,
            labels.least_propensity, labels.seen,
        )  # fmt: skip
        memory.prior[:] = self.priors_for(np.zeros((1, values.size)))[0]

    def priors_for(self, log_ratios: npt.ArrayLike) -> FloatArray:
        """Return the prior each of these rows (n, K) would be decided with now, (n, K), changing nothing."""
        rows = as_log_ratios(log_ratios, n_classes=self.n_classes)
        labels, priors = self._memory.labels, np.empty_like(rows)
        guarded, fast = self._now()
        priors_of_rows(
            rows, guarded[0], fast[0], self._start, self._lead,
            labels.weights, labels.counts, labels.maps, int(labels.seen[1]), priors,
        )  # fmt: skip
        return priors

    def interval(self, level: float = 0.9) -> FloatArray:
        """Return an interval for each class's prior, (K, 2).

        It reaches over both banks and to the prior itself: what the guard held back, or was too slow for, may have
        been right. Labels that bear out the fast bank narrow it; labels that contradict both widen it.
        """
        require_in("level", level, 1e-6, 1.0 - 1e-6)
        self._started()
        own, labels = self._memory.prior, self._memory.labels
        fast = self._fast.interval(level)
        slow = fast if self.admitted else self._slow.interval(level)
        known = np.stack([np.minimum(slow[:, 0], fast[:, 0]), np.maximum(slow[:, 1], fast[:, 1])], axis=1)
        if self.n_labels:
            guarded = self._now()[0][0]
            counted = np.array([counted_interval(count, guarded, level) for count in labels.counts])
            say = float(labels.weights[[GUARDED, FAST]].sum())
            known = labelled_interval(known, fast, counted, bank_weight=say)
        return np.stack([np.minimum(known[:, 0], own), np.maximum(known[:, 1], own)], axis=1)

    def _begin(self, start: FloatArray) -> SafeMemory:
        given, n_classes = self._given, start.size
        if given is None:
            self._view_reference = ViewReference.empty(n_classes)
        else:
            self._view_reference = (
                given if isinstance(given, ViewReference) else ViewReference.from_json(given, n_classes=n_classes)
            )
        if len(self._view_reference.sensitivity) != (1 if n_classes == 2 else n_classes):
            raise InvalidInputError(f"view_reference does not belong to a model of {n_classes} classes")
        self._slow = BayesBank(start, memories=SLOW_MEMORIES, n_snapshots=0, start_rows=SLOW_START_ROWS)
        self._fast = BayesBank(start)
        self._kept = np.array(KEPT_EACH_BLOCK)
        self._grid = self._view_reference.grid
        self._lead = LEADS[self._settings["lead"]]
        self._start_weights = np.array(self._settings["start_weights"])
        self._start_precision = start_precision(n_classes)
        self._count_memories = np.array(COUNT_MEMORIES)
        self._map_memories = np.array(RECALIBRATION_MEMORIES)
        own = [start[1:]] if n_classes == 2 else start
        sensitivities = [
            np.interp(level, self._grid, table)
            for level, table in zip(np.ravel(own), self._view_reference.sensitivity, strict=True)
        ]
        steady = max(sensitivities) <= LARGEST_SENSITIVITY
        self._may_admit = self._settings["lead"] == "fast" or (self._view_reference.n_views > 0 and steady)
        guard = GuardMemory.empty(self._view_reference.n_views + 1, n_classes)
        if self._settings["lead"] == "fast":
            guard.seen[1] = QUIET_BLOCKS
        labels = LabelMemory.empty(n_classes)
        labels.weights[:] = self._start_weights
        labels.latest[:, 0] = 1.0
        labels.latest[:, 1:] = np.log(start[1:] / start[0])
        return SafeMemory(start.copy(), self._slow._memory, self._fast._memory, guard, labels)

    def _run_kernel(self, rows: FloatArray, priors: FloatArray) -> None:
        self._update_rows(rows, priors, None)

    def _update_rows(self, rows: FloatArray, priors: FloatArray, views: FloatArray | None) -> None:
        memory, labels = self._memory, self._memory.labels
        n_rows, n_classes = rows.shape
        n_views = self._view_reference.n_views
        if views is None or not n_views:
            views = np.empty((n_rows, 0, n_classes))
        elif views.shape != (n_rows, n_views, n_classes) or not all_finite(views):
            raise InvalidInputError(
                f"views must be finite log ratios of shape {(n_rows, n_views, n_classes)}, got {views.shape}"
            )
        elif not views.flags.c_contiguous:
            views = np.ascontiguousarray(views)
        slow, fast, guarded = np.empty((3, n_rows + 1, n_classes))
        self._slow._run_kernel(rows, slow)
        self._fast._run_kernel(rows, fast)
        self._guard(rows, views, slow, fast, guarded)
        advise_rows(
            rows, guarded, fast, self._start, self._lead,
            labels.weights, labels.counts, labels.maps,
            labels.past, labels.past_rows, labels.past_labels, labels.latest, labels.seen, priors, memory.prior,
        )  # fmt: skip

    def _guard(
        self, rows: FloatArray, views: FloatArray, slow: FloatArray, fast: FloatArray, guarded: FloatArray
    ) -> None:
        known = self._view_reference
        guard_rows(
            rows, views, slow, fast, self._start, self._kept, self._grid,
            known.expected, known.sensitivity, known.noise, known.least_information, self._may_admit,
            *self._memory.guard, guarded,
        )  # fmt: skip

    def _advice(self) -> FloatArray:
        """Return what each expert advises at the moment, (M, K)."""
        guarded, fast = self._now()
        labels = self._memory.labels
        advice = np.empty((N_EXPERTS, self._start.size))
        advise(guarded[0], fast[0], self._start, labels.counts, labels.maps, advice)
        return advice

    def _now(self) -> tuple[FloatArray, FloatArray]:
        """Return the guarded prior and that of the fast bank at the moment, (1, K) each."""
        self._started()
        n_classes = self._start.size
        slow, fast = self._slow._memory.prior[None], self._fast._memory.prior[None]
        guarded = np.empty((1, n_classes))
        self._guard(np.empty((0, n_classes)), np.empty((0, 0, n_classes)), slow, fast, guarded)
        return guarded, fast

    def _check_memory(self) -> None:
        for bank in (self._slow, self._fast):
            bank._check_memory()
            prior = bank._memory.prior
            if (prior <= 0.0).any() or abs(float(prior.sum()) - 1.0) > 1e-6:
                raise InvalidStateError("the priors of the banks of a safe tracker must lie in the simplex")
        require_possible(self._memory.guard, self._memory.labels)


def _row_number(row: object, n_rows: int) -> int:
    if isinstance(row, bool) or not isinstance(row, int | np.integer) or not 0 <= row < n_rows:
        raise InvalidInputError(f"a row is the number of one of the {n_rows} that were decided, got {row!r:.40}")
    return int(row)


def _class_number(label: object, n_classes: int) -> int:
    if isinstance(label, bool) or not isinstance(label, int | np.integer) or not 0 <= label < n_classes:
        raise InvalidInputError(f"a label is a class number below {n_classes}, got {label!r:.40}")
    return int(label)


def _memory_name(memory: float) -> str:
    return "all labels" if np.isinf(memory) else f"{memory:,.0f} labels"
