"""Track the prior as far as views and labels support it, so that adapting seldom does harm."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import (
    FloatArray,
    PriorLike,
    as_evidence,
    as_floats,
    as_integer,
    as_log_ratios,
    is_count,
    require_distributions,
    require_in,
)
from obil.errors import InvalidInputError, InvalidStateError
from obil.flat_record import arrays_of
from obil.serving.ratio_model import RatioModel
from obil.trackers.bayes_bank import BayesBank
from obil.trackers.input_expert import FARTHEST_INPUT, INPUT_MEMORY, read_inputs
from obil.trackers.label_experts import (
    FAST,
    GUARDED,
    LABEL_MEMORIES,
    N_EXPERTS,
    N_PRIORS,
    TRAINING,
    LabelMemory,
    advise,
    advise_rows,
    prevalence,
    priors_of_rows,
    start_input_precision,
    start_precision,
    start_prevalence_weights,
)
from obil.trackers.label_experts import start_weights as default_start_weights
from obil.trackers.label_learning import LabelStart, learn_label
from obil.trackers.label_summary import (
    RECENT_LABELS,
    LabelSummary,
    counted_interval,
    label_weight_text,
    labelled_interval,
    weight_of_labels,
)
from obil.trackers.safe_state import (
    FAULTS_OF_LABELS,
    GuardConstants,
    SafeConstants,
    SafeMemory,
    fault_of_labels,
    guard_is_possible,
)
from obil.trackers.tracker import CompiledTracker
from obil.trackers.view_guard import ALARM, BLOCK_ROWS, KEPT_EACH_BLOCK, QUIET_BLOCKS, GuardMemory, guard_rows
from obil.trackers.view_reference import NOT_KNOWN, ViewReference

MOST_INPUTS = 64  # beside views
LEADS = {"auto": GUARDED, "training": TRAINING, "fast": GUARDED}


class SafeTracker(CompiledTracker):
    """Follow the prior as far as views and labels support it.

    p(x | class) drifts after deployment, and a likelihood cannot separate that from a change of the prior. So this
    tracker moves no further than the *views* of the model, scores from models on feature subsets, agree beyond their
    noise; and not at all where a small drift of the ratio, or an error such as it made on the held-out rows in their
    order, would explain the move. Fast memories are admitted where they made next to no such error, after six blocks
    of 500 rows in which the views agree. With a model that has no views nothing supports a move, and the prior stays
    where it started until labels come. As soon as they do (`feedback`), the posteriors of nine experts (training prior,
    guarded prior, fast bank, three label counts, three recalibrations) are mixed by their log loss, and the more the
    labels have shown, the larger is their weight (`label_weight`). Where rows have views or inputs, a tenth expert is
    a recalibration that sees how far each view is from the model, and the inputs: features of the row, and its season.

    Guarantee
    ---------
    Whatever the labels, for log ratios within 750: when each label is fed back before the next row is decided, the log
    loss of the mixture on T labelled rows after the first, each weighted by least propensity / propensity, exceeds
    that of any expert by at most ``log 1/w + log(T + 1) + T / 999``, w its start weight, and that of a sequence of
    experts by ``log 1/w + log(1000)`` more for each switch, w that of the expert it leads to. Proof: docs/theory.md,
    Proposition 5. A delayed label is compared with the advice that was stored last before its row (the tenth expert
    with what it knows now), and weighs 1 / (1 + d)^(1/4) where d labels came in between. Delayed labels carry no such
    bound, and without labels nothing is guaranteed: views can agree on a wrong value.

    Parameters
    ----------
    prior
        The prior to start from; None leaves that to `start`.
    view_reference
        Measured on a model's held-out rows (`SafeTracker.for_model`), or None: then the tracker is the slow bank.
    lead
        What decides before the first label: "auto", the guarded slow or fast bank, as far as their errors on held-out
        rows allow; "fast", the guarded fast bank from the first row on, whatever its errors were; "training", the
        start prior. `obil.backtest` recommends one.
    start_weights
        Weights of the experts when the first label comes; if None, .05 for the one that sees inputs, and of the rest
        .95 for training prior and guarded prior together.
    n_inputs
        How many inputs of a row stand behind its views in the evidence (`RatioModel.n_inputs`).

    >>> tracker = SafeTracker(0.5)
    >>> _ = tracker.update_many([[0.0, -9.0]] * 1_000)  # rows that all look negative
    >>> bool(0.1 < tracker.prior[1] < 0.3)  # it moves slowly
    True
    >>> for _ in range(40):
    ...     tracker.feedback([0.0, -9.0], 0)
    >>> tracker.status
    'the start prior and the banks decide: the weight of labels is 3 %'
    """

    _memory: SafeMemory

    def __init__(
        self,
        prior: PriorLike | None = None,
        *,
        view_reference: ViewReference | Mapping[str, Any] | None = None,
        lead: str = "auto",
        start_weights: Sequence[float] | None = None,
        n_inputs: int = 0,
    ) -> None:
        if str(lead) not in LEADS:
            raise InvalidInputError(f"lead must be one of {sorted(LEADS)}, got {lead!r:.40}")
        weights = None if start_weights is None else _as_weights(start_weights)
        if not isinstance(view_reference, ViewReference | Mapping | None):
            raise InvalidInputError(f"view_reference must be a ViewReference, got {view_reference!r:.40}")
        self._given = view_reference
        described = view_reference.to_json() if isinstance(view_reference, ViewReference) else view_reference
        described = None if described is None else dict(described)
        own = as_integer("n_inputs", n_inputs, 0, MOST_INPUTS)
        super().__init__(prior, view_reference=described, lead=lead, start_weights=weights, n_inputs=own)

    @classmethod
    def for_model(cls, model: RatioModel, **settings: Any) -> "SafeTracker":
        """Return a tracker with the view reference of a model and the advice of its backtest, not yet started."""
        advice = model.advice
        if advice is not None:
            n_experts = N_EXPERTS + (model.n_views + model.n_inputs > 0)
            weights = advice.start_weights if len(advice.start_weights or ()) == n_experts else None
            settings = {"lead": advice.lead, "start_weights": weights} | settings
        return cls(view_reference=ViewReference.of_model(model), **{"n_inputs": model.n_inputs} | settings)

    def with_views_of(self, model: RatioModel) -> "SafeTracker":
        """Return a tracker that keeps what this one knows of the prior, for the scores and views of another model.

        What was learned of the old model's views and calibration does not apply to the new one: it starts anew, and
        the prior moves to where the banks are without it. A model with the same view reference is the same model, and
        nothing changes.
        """
        mine, settings = arrays_of(self._started()), self._settings
        seen, now = self.n_views + self.n_inputs, model.n_views + model.n_inputs
        weights = settings["start_weights"] if bool(seen) == bool(now) else None  # of as many experts
        other = SafeTracker.for_model(model, lead=settings["lead"], start_weights=weights)
        other.start(self._start)
        is_same_model = all(
            other._settings[name] == settings[name] for name in ("view_reference", "n_inputs")
        )  # fmt: skip
        kept = ("slow.", "fast.", "labels.counts", "labels.least_propensity", "labels.seen", "labels.arrivals")
        for name, values in arrays_of(other._memory).items():
            if is_same_model or name.startswith(kept):
                values[...] = mine[name]
        if is_same_model:
            return other
        fresh, own = other._memory.labels, self._memory.labels.weights[:N_PRIORS]
        # recalibrations were of the old scores: their weight goes to the priors, half of all to the start
        fresh.weights[:] = other._label_start.weights / 2.0
        fresh.weights[:N_PRIORS] += own / own.sum() / 2.0
        in_prevalence = self._memory.labels.prevalence_weights[: fresh.prevalence_weights.size]
        fresh.prevalence_weights[: in_prevalence.size] += in_prevalence
        fresh.prevalence_weights[:] /= fresh.prevalence_weights.sum()
        fresh.past_rows[0, 0], fresh.past_labels[0, 0] = fresh.seen[0], fresh.seen[1]
        guarded, fast = other._current()
        advise(guarded[0], fast[0], self._start, fresh.counts, fresh.maps, fresh.latest)
        fresh.past[0, 0] = fresh.latest
        other._estimate_prevalence()
        return other

    @property
    def prior(self) -> FloatArray:
        """The estimated prevalence of the stream, (K,); what rows are decided with is in `priors_for`."""
        return super().prior

    @property
    def lead(self) -> str:
        """What decides before the first label: "auto", "fast" or "training"."""
        return str(self._settings["lead"])

    @property
    def n_views(self) -> int:
        """The number of views of a row that this tracker uses."""
        self._started()
        return self._view_reference.n_views

    @property
    def n_inputs(self) -> int:
        """The number of inputs of a row that stand behind its views in the evidence this tracker takes."""
        return int(self._settings["n_inputs"])

    @property
    def input_shape(self) -> tuple[int, int]:
        """The shape of the inputs that a row keeps until its label comes: by view or input, and class."""
        self._started()
        return self._input_shape

    @property
    def latest_inputs(self) -> npt.NDArray[np.float32]:
        """What `inputs_of` would return of the last row of the last update, (J, K-1): until the next one."""
        return self._latest_inputs

    def inputs_of(self, evidence: FloatArray) -> npt.NDArray[np.float32]:
        """Return what `feedback` wants to know of rows beside their log ratios, (n, J, K-1), from (n, S, K)."""
        n_views, shape = self._view_reference.n_views, self._input_shape
        inputs = np.empty((len(evidence), *shape), dtype=np.float32)
        read_inputs(evidence, n_views, inputs)
        return inputs

    @property
    def n_labels(self) -> int:
        """The number of labels so far."""
        return int(self._started().labels.seen[1])

    @property
    def can_move(self) -> bool:
        """Whether anything can move the prior: labels that have come, views that support a move, or a fast lead."""
        self._started()
        supported = self.lead == "auto" and bool(self._view_reference.error.min() < NOT_KNOWN)
        return self.n_labels > 0 or self.lead == "fast" or supported

    def unguarded(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the prior that the scores alone suggest, (K,), and its interval, (K, 2)."""
        self._started()
        return self._fast.prior, self._fast.interval(level)

    @property
    def admitted(self) -> bool:
        """Whether fast memories decide while there are no labels."""
        return bool(self._started().guard.seen[1] >= QUIET_BLOCKS) and self._may_admit

    @property
    def disagreement(self) -> float:
        """How far the views disagreed in the last block, in standard deviations."""
        return float(self._started().guard.disagreement[0])

    @property
    def views_agree(self) -> bool:
        """Whether the views disagreed by no more than noise in the last block."""
        return self.disagreement <= ALARM

    @property
    def status(self) -> str:
        """What decides at the moment, as a sentence."""
        if self.n_labels:
            return label_weight_text(self.label_weight)
        if self._settings["lead"] == "training":
            return "the start prior, until labels come"
        if self._settings["lead"] == "fast" and self.admitted:
            return "fast memories, as a backtest or the user advised"
        return self._why_so_fast()

    def _why_so_fast(self) -> str:
        """Say what decides before any label, and why it is fast, slow or still."""
        if not self.can_move:
            return "the start prior, until labels come: the model has no views that could support a move"
        if not self.n_views:
            return "slow memories: there are neither views nor labels to check faster ones"
        if self.admitted:
            return "fast memories, admitted because the views agree"
        if self._may_admit:
            return f"slow memories, until the views agree for {QUIET_BLOCKS} blocks of {BLOCK_ROWS} rows"
        return "slow memories, because fast ones went astray on held-out rows, or the model is too weak for them"

    @property
    def label_weight(self) -> float:
        """The weight of labels in a decision, from 0 to 1: what their experts have learned."""
        labels = self._started().labels
        return weight_of_labels(labels.weights, labels.counts)

    @property
    def labelled_prior(self) -> FloatArray | None:
        """The prior by all labels alone, weighted by 1 / propensity, (K,); None before the first."""
        counts = self._started().labels.counts[-1]
        return counts / counts.sum() if counts.sum() > 0.0 else None

    @property
    def expert_weights(self) -> dict[str, float]:
        """The weight of each expert, by its name."""
        weights = self._started().labels.weights.tolist()
        names = ["training prior", "guarded prior", "fast bank"]
        names += [f"label count, {_memory_name(memory)}" for memory in LABEL_MEMORIES]
        names += [f"recalibration, {_memory_name(memory)}" for memory in LABEL_MEMORIES]
        names += [f"recalibration with inputs, {_memory_name(INPUT_MEMORY)}"][: len(weights) - len(names)]
        return dict(zip(names, weights, strict=True))

    def label_summary(self) -> LabelSummary | None:
        """Return what the labels have shown so far; None before the first."""
        if not self.n_labels:
            return None
        labels, recent = self._memory.labels, LABEL_MEMORIES.index(RECENT_LABELS)
        return LabelSummary(
            n_labels=self.n_labels,
            label_weight=self.label_weight,
            recalibration_weight=float(sum(labels.weights[N_PRIORS:].tolist())),
            slope=float(labels.maps[recent, 0]),
            slope_sd=float(np.sqrt(np.linalg.inv(labels.precisions[recent])[0, 0])),
            counts=labels.counts[recent].copy(),
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
        inputs: npt.ArrayLike | None = None,
    ) -> None:
        """Update with a true label.

        `propensity` is the probability that this label was requested, `row` the number of the row when it was decided
        (None: just now), `replaced` the label it replaces. With `counts_only` it updates the prior alone: the log
        ratios of its row come from a model that has been replaced. `inputs` are what `inputs_of` gave of the row's
        evidence, (J, K-1); None where it had none.
        """
        labels = self._started().labels
        values = as_log_ratios(as_floats(log_ratios, "log_ratios")[None], n_classes=self.n_classes)[0]
        number = as_integer("label", label, 0, self.n_classes - 1)
        before = -1 if replaced is None else as_integer("replaced", replaced, 0, self.n_classes - 1)
        probability = require_in("propensity", propensity, 1e-9, 1.0)
        n_rows = int(labels.seen[0])
        if row is not None and not (is_count(row) and row < n_rows):
            raise InvalidInputError(f"row must be one of the {n_rows} rows decided so far, got {row!r:.40}")
        decided = n_rows - 1 if row is None else row
        if before >= 0 and not labels.seen[1]:
            raise InvalidInputError(f"replaced must be a label that came before, got {replaced!r:.40} before any label")
        if before == number:
            return
        learn_label(
            values, self._checked_inputs(inputs), number, before, probability, decided, counts_only,
            self._label_start, labels,
        )  # fmt: skip
        self._estimate_prevalence()

    def _checked_inputs(self, inputs: npt.ArrayLike | None) -> FloatArray:
        shape = self.input_shape
        if inputs is None:
            return np.zeros(shape)
        given = as_floats(inputs, "inputs")
        if given.shape != shape or not (np.abs(given) <= FARTHEST_INPUT).all():
            raise InvalidInputError(f"inputs must be what inputs_of returned for the row, {shape}, got {given.shape}")
        return np.ascontiguousarray(given)

    def priors_for(self, log_ratios: npt.ArrayLike, *, evidence: npt.ArrayLike | None = None) -> FloatArray:
        """Return the prior each of these rows (n, K) would be decided with, (n, K); the state is unchanged."""
        rows = as_log_ratios(log_ratios, n_classes=self.n_classes)
        labels, priors = self._memory.labels, np.empty_like(rows)
        given = rows[:, None] if evidence is None else as_evidence(evidence, n_rows=len(rows), n_classes=rows.shape[1])
        self._require_sources(given)
        guarded, fast = self._current()
        priors_of_rows(
            rows, given, self._view_reference.n_views, guarded[0], fast[0], self._start, self._lead,
            labels.weights, labels.counts, labels.maps, labels.input_map, int(labels.seen[1]), priors,
        )  # fmt: skip
        return priors

    def interval(self, level: float = 0.9) -> FloatArray:
        """Return a credible interval of each class's prior, (K, 2).

        It covers those of both banks and the prior itself: what the guard held back, or was too slow for, may be
        right. Labels that confirm the fast bank narrow it; labels that contradict both widen it.
        """
        require_in("level", level, 1e-6, 1.0 - 1e-6)
        own, labels = self._started().prior, self._memory.labels
        fast = self._fast.interval(level)
        slow = fast if self.admitted else self._slow.interval(level)
        known = np.stack([np.minimum(slow[:, 0], fast[:, 0]), np.maximum(slow[:, 1], fast[:, 1])], axis=1)
        if self.n_labels:
            guarded = self._current()[0][0]
            counted = np.array([counted_interval(count, guarded, level) for count in labels.counts])
            bank_weight = float(labels.weights[[GUARDED, FAST]].sum())
            known = labelled_interval(known, fast, counted, bank_weight=bank_weight)
        return np.stack([np.minimum(known[:, 0], own), np.maximum(known[:, 1], own)], axis=1)

    def _begin(self, start: FloatArray) -> SafeMemory:
        n_classes = start.size
        known = ViewReference.empty(n_classes) if self._given is None else self._given
        if not isinstance(known, ViewReference):
            known = ViewReference.from_json(known, n_classes=n_classes)
        if len(known.sensitivity) != (1 if n_classes == 2 else n_classes):
            raise InvalidInputError(f"view_reference does not belong to a model of {n_classes} classes")
        self._slow, self._fast = BayesBank.slow(start), BayesBank(start)
        self._kept = np.array(KEPT_EACH_BLOCK)
        self._view_reference, self._grid = known, known.grid
        self._input_shape = (known.n_views + self.n_inputs, n_classes - 1)
        self._latest_inputs = np.zeros(self._input_shape, dtype=np.float32)
        self._lead = LEADS[self._settings["lead"]]
        lead, n_inputs = self._settings["lead"], known.n_views + self.n_inputs
        weights = default_start_weights(sees_inputs=n_inputs > 0)
        if self._settings["start_weights"] is not None:
            given = np.array(self._settings["start_weights"])
            if given.shape != weights.shape:
                raise InvalidInputError(f"start_weights must be {weights.size} numbers, got {given.tolist()}")
            weights = given
        self._may_admit = lead == "fast" or (lead == "auto" and known.may_be_fast(start))
        in_prevalence = start_prevalence_weights(may_admit=self._may_admit, sees_inputs=n_inputs > 0)
        self._label_start = LabelStart(
            weights, in_prevalence, start_precision(n_classes), start_input_precision(n_classes, n_inputs),
            np.array(LABEL_MEMORIES),
        )  # fmt: skip
        # where a backtest, or the user, vouches for fast memories, errors on held-out rows do not count
        self._shrinkage = np.stack([known.sensitivity] * 2) if lead == "fast" else known.shrinkage
        guard = GuardMemory.empty(known.n_views + 1, n_classes)
        if lead == "fast":
            guard.seen[1] = QUIET_BLOCKS
        labels = LabelMemory.empty(n_classes, n_inputs=n_inputs)
        labels.weights[:] = self._label_start.weights
        labels.prevalence_weights[:] = in_prevalence
        labels.latest[:, 0] = 1.0
        labels.latest[:, 1:] = np.log(start[1:] / start[0])
        return SafeMemory(start.copy(), self._slow._memory, self._fast._memory, guard, labels)

    @property
    def constants(self) -> SafeConstants:
        """What the kernels take beside the memory: the same for all streams with these settings."""
        known = self._view_reference
        guard = GuardConstants(
            self._kept, self._grid, known.expected, self._shrinkage, known.noise, known.least_information,
            self._may_admit,
        )  # fmt: skip
        return SafeConstants(self._start, self._slow.constants, self._fast.constants, guard, known.n_views, self._lead)

    def with_memory(self, memory: SafeMemory) -> Self:
        """Return a tracker with these settings and constants whose memory, and that of its banks, is this one."""
        tracker = super().with_memory(memory)
        tracker._slow, tracker._fast = self._slow.with_memory(memory.slow), self._fast.with_memory(memory.fast)
        tracker._latest_inputs = np.zeros_like(self._latest_inputs)
        return tracker

    def _started(self) -> SafeMemory:
        super()._started()
        return self._memory

    def _update_rows(self, rows: FloatArray, evidence: FloatArray, priors: FloatArray) -> None:
        memory, labels = self._memory, self._memory.labels
        n_rows, n_classes = rows.shape
        n_views = self._view_reference.n_views
        self._require_sources(evidence)
        own, views = np.ascontiguousarray(evidence[:, 0]), np.ascontiguousarray(evidence[:, 1 : 1 + n_views])
        slow, fast, guarded = self._slow.path(own), self._fast.path(own), np.empty((n_rows + 1, n_classes))
        self._guard(own, views, slow, fast, guarded)
        advise_rows(
            rows, evidence, n_views, guarded, fast, self._start, self._lead,
            labels.weights, labels.prevalence_weights, labels.counts, labels.maps, labels.input_map,
            labels.past, labels.past_rows, labels.past_labels, labels.latest, labels.seen,
            self._latest_inputs, priors, memory.prior,
        )  # fmt: skip

    def _require_sources(self, evidence: FloatArray) -> None:
        """Refuse evidence with too few views or inputs; there may be no inputs, and no views either."""
        needed, n_sources = 1 + self._input_shape[0], evidence.shape[1]
        if n_sources >= needed:
            return
        n_views = self._view_reference.n_views
        if n_sources not in (1, 1 + n_views):
            raise InvalidInputError(
                f"evidence must have shape {(len(evidence), needed, evidence.shape[2])}: the tracker uses {n_views} "
                f"views and {self.n_inputs} inputs; got {evidence.shape}"
            )

    def _guard(
        self, rows: FloatArray, views: FloatArray, slow: FloatArray, fast: FloatArray, guarded: FloatArray
    ) -> None:
        known = self._view_reference
        guard_rows(
            rows, views, slow, fast, self._start, self._kept, self._grid,
            known.expected, self._shrinkage, known.noise, known.least_information, self._may_admit,
            *self._memory.guard, guarded,
        )  # fmt: skip

    def _current(self) -> tuple[FloatArray, FloatArray]:
        """Return the current guarded prior and that of the fast bank, (1, K) each."""
        self._started()
        n_classes = self._start.size
        slow, fast = self._slow._memory.prior[None], self._fast._memory.prior[None]
        guarded = np.empty((1, n_classes))
        self._guard(np.empty((0, n_classes)), np.empty((0, 0, n_classes)), slow, fast, guarded)
        return guarded, fast

    def _estimate_prevalence(self) -> None:
        guarded, fast = self._current()
        labels, prior = self._memory.labels, self._memory.prior
        prevalence(guarded[0], fast[0], labels.prevalence_weights, labels.counts, int(labels.seen[1]), prior)

    def _check_memory(self) -> None:
        for bank in (self._slow, self._fast):
            bank._check_memory()
            require_distributions("the priors of the banks", bank._memory.prior)
            if not bank._memory.prior.all():
                raise InvalidStateError("the priors of the banks must be positive")
        if not guard_is_possible(*self._memory.guard):
            raise InvalidStateError("the guard of a safe tracker cannot have seen this")
        fault = fault_of_labels(*self._memory.labels)
        if fault:
            raise InvalidStateError(FAULTS_OF_LABELS[fault])


def _as_weights(given: Sequence[float]) -> list[float]:
    weights = [require_in("a start weight", weight, 1e-6, 1.0) for weight in as_floats(given, "start_weights").ravel()]
    if len(weights) not in (N_EXPERTS, N_EXPERTS + 1) or abs(sum(weights) - 1.0) > 1e-6:
        raise InvalidInputError(
            f"start_weights must be {N_EXPERTS} numbers that sum to 1, one more with views or inputs, got {weights}"
        )
    return weights


def _memory_name(memory: float) -> str:
    return "all labels" if np.isinf(memory) else f"{memory:,.0f} labels"
