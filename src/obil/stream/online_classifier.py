"""Score, decide, then let the row vote: a classifier whose threshold follows the prior."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, PriorLike, as_log_ratios, as_scaled
from obil.bayes.costs import EQUAL_COSTS, Costs
from obil.bayes.posterior import posterior
from obil.errors import ConcurrentUseError, InvalidInputError, InvalidStateError
from obil.model.ratio_model import RatioModel, as_ratio_model
from obil.policy import CostPolicy, Policy, one_against_rest, policy_from_json
from obil.prior import BayesBank, PriorTracker, restore_tracker
from obil.prior.calibration_spread import calibration_variance, widen
from obil.stream.decision import Decision, Decisions
from obil.stream.one_row import one_row

STATE_FORMAT = 1


class OnlineClassifier:
    """Decides each row at the prior of now, and lets the row vote on the prior of the next.

    Predicting is pure, deciding votes: `predict` and `predict_proba` never change the state, `decide` and
    `decide_many` do. A stream has one writer: a second concurrent `decide` raises.

    Parameters
    ----------
    model
        A fitted `RatioClassifier`, or what `obil.load` returns.
    costs
        What wrong decisions cost; equal costs if neither this nor a policy is given.
    policy
        Another rule for the threshold: `FBetaPolicy`, `PrecisionFloor`, ... in `obil.policy`.
    tracker
        How the prior is followed; a `BayesBank` if None. It is started at `prior`.
    prior
        Where the stream starts; the training prior if None. Give it when training was case-control.
    positive
        The class to alert on, `classes_[1]` of two if None; many classes need it only with a policy.
    """

    def __init__(
        self,
        model: Any,
        *,
        costs: Costs | None = None,
        policy: Policy | None = None,
        tracker: PriorTracker | None = None,
        prior: PriorLike | Mapping[Any, float] | None = None,
        positive: Any = None,
    ) -> None:
        self._model = as_ratio_model(model)
        self._positive = _class_number(positive, self._model)
        if costs is not None and policy is not None:
            raise InvalidInputError("give costs or a policy, not both: a cost policy is CostPolicy(costs)")
        self._set_policy(CostPolicy(costs or self._equal_costs()) if policy is None else policy)
        start = self._model.prior_ if prior is None else self._model.as_prior(prior)
        self._tracker: PriorTracker = (BayesBank() if tracker is None else tracker).start(start)
        self._rows = 0
        self._writer = _OneWriter()

    @property
    def model(self) -> RatioModel:
        """The ratio model that scores; a new one takes over from the next row on, and the prior survives."""
        return self._model

    @model.setter
    def model(self, model: Any) -> None:
        fitted = as_ratio_model(model)
        if fitted.classes_.tolist() != self._model.classes_.tolist():
            raise InvalidInputError(
                f"the new model must know the same classes {self._model.classes_.tolist()}, "
                f"got {fitted.classes_.tolist()}"
            )
        with self._writer:
            before, self._model = self._model, fitted
            try:
                self._set_policy(self._policy)  # its threshold may rest on held-out rows, which are others now
            except BaseException:
                self._model = before
                raise

    @property
    def tracker(self) -> PriorTracker:
        """The tracker that follows the prior."""
        return self._tracker

    @property
    def prior(self) -> FloatArray:
        """The prior the next row is decided with, (K,)."""
        return self._tracker.prior

    @property
    def n_rows(self) -> int:
        """How many rows were decided."""
        return self._rows

    @property
    def positive(self) -> Any:
        """The class that is alerted on; None where a cost matrix of many classes decides."""
        return None if self._positive is None else self._model.classes_[self._positive]

    @property
    def policy(self) -> Policy:
        """The rule for the threshold; a new one takes effect from the next row on."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._set_policy(policy)

    @property
    def costs(self) -> Costs | None:
        """What decisions cost, where costs set the threshold; new ones take effect from the next row on."""
        return self._policy.costs if isinstance(self._policy, CostPolicy) else None

    @costs.setter
    def costs(self, costs: Costs) -> None:
        self._set_policy(CostPolicy(costs))

    @property
    def log_threshold(self) -> float | None:
        """The threshold of the next row, on the log ratio of the positive class."""
        return None if self._bound is None else self._bound.log_threshold(float(self.prior[self._positive]))

    def interval(self, level: float = 0.9) -> FloatArray | None:
        """Return the prior's interval for each class, (K, 2), with the calibrator's own uncertainty in it."""
        own = self._tracker.interval(level)
        if own is None:
            return None
        prior = self.prior
        spread = calibration_variance(self._model.calibrator, self._model.holdout_, prior)
        return widen(prior, own, spread, level=level)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return posteriors at the current prior, (n, K), changing nothing."""
        return posterior(self._model.log_ratios(X), self.prior)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return what would be decided at the current prior, (n,), changing nothing."""
        ratios = self._model.log_ratios(X)
        priors = np.broadcast_to(self.prior, ratios.shape)
        numbers, _, _ = self._decided(ratios, priors)
        chosen: npt.NDArray[Any] = self._model.classes_[numbers]
        return chosen

    def decide(self, x: Any, *, id: Any = None) -> Decision:  # noqa: A002  # the word users know
        """Decide one row, then let it vote."""
        with self._writer:
            return self._decide_row(self._model.log_ratios(one_row(x, self._model))[0], id)

    def decide_many(self, X: Any, *, ids: Sequence[Any] | None = None) -> Decisions:
        """Decide rows in order, each at the prior before it, and let them vote."""
        with self._writer:
            return self._decide_rows(self._model.log_ratios(X), ids)

    def decide_log_ratios(self, log_ratios: npt.ArrayLike, *, ids: Sequence[Any] | None = None) -> Decisions:
        """Decide rows whose log ratios, (n, K), are known already: a replay, or scores made elsewhere."""
        with self._writer:
            return self._decide_rows(as_log_ratios(log_ratios, n_classes=self._model.n_classes), ids)

    def state(self) -> dict[str, Any]:
        """Return a checkpoint as plain JSON values: restored, the stream goes on bit for bit."""
        with self._writer.waiting():  # waits for a row that is being decided
            return {
                "format": STATE_FORMAT,
                "kind": "online_classifier",
                "classes": self._model.classes_.tolist(),
                "positive": self._positive,
                "policy": self._policy.to_json(),
                "rows": self._rows,
                "tracker": self._tracker.state(),
            }

    @classmethod
    def from_state(cls, model: Any, state: Any) -> Self:
        """Return a classifier that goes on exactly where the one that made `state` stopped."""
        fitted = as_ratio_model(model)
        if not isinstance(state, Mapping) or state.get("kind") != "online_classifier":
            raise InvalidStateError("this is not the state of an online classifier")
        if state.get("format") != STATE_FORMAT:
            raise InvalidStateError(f"this version reads state format {STATE_FORMAT}, got {state.get('format')!r:.20}")
        if state.get("classes") != fitted.classes_.tolist():
            raise InvalidStateError(
                f"this state belongs to classes {state.get('classes')!r:.80}, the model has {fitted.classes_.tolist()}"
            )
        rows, positive = state.get("rows"), state.get("positive")
        if type(rows) is not int or rows < 0:
            raise InvalidStateError(f"a state counts its rows, got {rows!r:.20}")
        if positive is not None and (type(positive) is not int or not 0 <= positive < fitted.n_classes):
            raise InvalidStateError(f"the positive class is a number below {fitted.n_classes}, got {positive!r:.20}")
        try:
            tracker = restore_tracker(state["tracker"])
            label = None if positive is None else fitted.classes_.tolist()[positive]
            online = cls(model, policy=policy_from_json(state["policy"]), positive=label)
        except (KeyError, InvalidInputError) as error:
            raise InvalidStateError(f"this state is damaged: {error}") from None
        if tracker.n_classes != fitted.n_classes:
            raise InvalidStateError(f"the tracker has {tracker.n_classes} classes, the model {fitted.n_classes}")
        online._tracker, online._rows = tracker, rows
        return online

    def _decide_row(self, ratios: FloatArray, given_id: Any) -> Decision:
        """Decide one row: what `_decide_rows` does, without the arrays."""
        prior = self._tracker.prior
        if self._bound is None or self._model.n_classes != 2:
            many = self._decide_rows(ratios[None], None if given_id is None else [given_id])
            decision: Decision = many[0]
            return decision
        threshold = self._bound.log_threshold(float(prior[self._positive]))
        own = float(ratios[1]) if self._positive == 1 else -float(ratios[1])
        number = self._positive if own > threshold else 1 - self._positive  # type: ignore[operator]  # binary: never None
        self._tracker.update(ratios)
        self._rows += 1
        return Decision(
            id=self._rows - 1 if given_id is None else given_id,
            label=self._model.classes_[number],
            log_ratios=ratios,
            prior=prior,
            threshold=threshold,
            trusted=True,
            reachable=threshold < np.inf,
        )

    def _decide_rows(self, ratios: FloatArray, ids: Sequence[Any] | None) -> Decisions:
        if ids is not None and len(ids) != len(ratios):
            raise InvalidInputError(f"ids must name every row ({len(ratios)}), got {len(ids)}")
        first = self._rows
        priors = self._tracker.update_many(ratios)  # the prior before each row: none votes on itself
        self._rows += len(ratios)
        numbers, thresholds, reachable = self._decided(ratios, priors)
        return Decisions(
            ids=range(first, first + len(ratios)) if ids is None else ids,
            labels=self._model.classes_[numbers],
            log_ratios=ratios,
            priors=priors,
            thresholds=thresholds,
            reachable=reachable,
            trusted=np.ones(len(ratios), dtype=bool),
        )

    def _decided(
        self, ratios: FloatArray, priors: FloatArray
    ) -> tuple[npt.NDArray[np.int64], FloatArray | None, npt.NDArray[np.bool_]]:
        """Return class numbers, thresholds and whether the policy could be met, (n,) each."""
        everywhere = np.ones(len(ratios), dtype=bool)
        joint = priors * np.exp(as_scaled(ratios))  # posteriors up to a factor a row
        if self._bound is None or self._positive is None:
            matrix = self._policy.costs.matrix if isinstance(self._policy, CostPolicy) else 1.0 - np.eye(len(joint.T))
            return np.argmin(joint @ matrix.T, axis=1).astype(np.int64), None, everywhere
        positive = self._positive
        own_priors = priors[:, positive]
        thresholds = self._bound.log_thresholds(own_priors)
        alert = one_against_rest(ratios, priors, positive) > thresholds
        joint[:, positive] = -1.0  # what is not alerted goes to the most probable of the others
        numbers = np.where(alert, positive, np.argmax(joint, axis=1))
        return numbers.astype(np.int64), thresholds, self._bound.reachable(own_priors)

    def _set_policy(self, policy: Policy) -> None:
        if isinstance(policy, CostPolicy):
            policy = CostPolicy(self._ordered(policy.costs))
        many = self._model.n_classes > 2
        decides_by_matrix = isinstance(policy, CostPolicy) and many and self._positive is None
        if many and self._positive is None and not decides_by_matrix:
            raise InvalidInputError(
                f"a policy for {self._model.n_classes} classes alerts on one of them: give positive="
            )
        if (
            decides_by_matrix
            and isinstance(policy, CostPolicy)
            and policy.costs.n_classes not in (2, self._model.n_classes)
        ):
            raise InvalidInputError(
                f"costs must cover the {self._model.n_classes} classes, got {policy.costs.n_classes}"
            )
        if decides_by_matrix and isinstance(policy, CostPolicy) and policy.costs.n_classes == 2:
            if policy.costs != EQUAL_COSTS:
                raise InvalidInputError(
                    f"costs of two classes speak of one of {self._model.n_classes}: give positive=, or a full matrix"
                )
            policy = CostPolicy(Costs.from_matrix(1.0 - np.eye(self._model.n_classes)))
        self._bound = None if decides_by_matrix else policy.bind(self._model.holdout_, positive=self._positive)
        self._policy = policy

    def _equal_costs(self) -> Costs:
        return Costs.from_matrix(1.0 - np.eye(2 if self._positive is not None else self._model.n_classes))

    def _ordered(self, costs: Costs) -> Costs:
        """Return costs in the order of the model's classes, or of (negative, positive) for two."""
        if costs.classes is None:
            return costs
        names = self._model.classes_.tolist()
        if set(costs.classes) != set(names):
            raise InvalidInputError(f"costs name the classes {list(costs.classes)}, the model has {names}")
        if len(names) == 2 and self._positive == 0:
            names = names[::-1]
        order = [costs.classes.index(name) for name in names]
        return Costs.from_matrix(costs.matrix[np.ix_(order, order)])


class _OneWriter:
    """A lock that refuses instead of waiting; entering it costs a fraction of what a generator would."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUseError("a stream has one writer: another thread is deciding on it right now")

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Enter once the one who is writing has finished."""
        with self._lock:
            yield


def _class_number(positive: Any, model: RatioModel) -> int | None:
    if positive is None:
        return 1 if model.n_classes == 2 else None
    names = model.classes_.tolist()
    if positive not in names:
        raise InvalidInputError(f"positive must be one of {names}, got {positive!r}")
    return int(names.index(positive))
