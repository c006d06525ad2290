"""Keep streams in a dictionary: what the HTTP side needs of the real ones, without a store."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from obil.errors import InvalidInputError
from obil.online.online_classifier import OnlineClassifier
from obil.policies.notation import policy_from_json
from obil.service.records import (
    LabelResult,
    ModelCard,
    SettingsChange,
    ShadowComparison,
    StreamDetail,
    StreamEvent,
    StreamHistory,
    StreamPage,
    StreamSummary,
    TrueLabel,
)
from obil.service.refusals import (
    BadInputError,
    ErasedError,
    KeyReusedError,
    NotStoredError,
    StreamExistsError,
    UnknownDecisionError,
    UnknownStreamError,
)
from obil.service.streams.operations import Decided, Label, Rows, Sender, StreamSettings
from obil.service.streams.stream_log import LoggedDecision, LoggedEvent, LoggedPage
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank
from tests.service.models_in_memory import ModelsInMemory


class _Stream:
    def __init__(self, online: OnlineClassifier, settings: StreamSettings) -> None:
        self.online, self.settings = online, settings
        self.created = self.updated = datetime.now(UTC)
        self.seq = self.labels = self.alerts = 0
        self.decided: dict[Any, LoggedDecision] = {}
        self.erased: set[Any] = set()
        self.log: list[LoggedEvent] = []
        self.responses: dict[str, tuple[bytes, Any]] = {}
        self.changes: list[SettingsChange] = []
        self.events: list[StreamEvent] = []

    def touch(self) -> None:
        self.seq += 1
        self.updated = datetime.now(UTC)


class StreamsInMemory:
    """An in-memory `Streams`."""

    def __init__(self, model: RatioModel) -> None:
        self._model = model
        self._streams: dict[str, _Stream] = {}
        self.models = ModelsInMemory(self.model_card)
        self.n_live = self.n_waiting = 0
        self.lost = False  # whether to act as a store that is gone

    @property
    def model(self) -> RatioModel:
        return self._model

    @property
    def model_card(self) -> ModelCard:
        return ModelCard(
            version="v1",
            classes=self._model.classes_.tolist(),
            training_prior=self._by_class(self._model.prior_),
            columns=[
                {"name": one.name, "type": "category" if one.is_category else "number"}
                for one in self._model.columns or ()
            ],
            n_features=self._model.n_features,
            views=self._model.n_views,
            gate={},
            reliability=[],
        )

    def on_commit(self, observe: Any) -> None:
        """Call nothing: there are no transactions."""

    def on_answer(self, observe: Any) -> None:
        """Call nothing: nothing waits."""

    def state(self) -> dict[str, Any]:
        """Return everything that a refused request must leave as it is."""
        return {name: (one.online.state(), one.seq, one.settings) for name, one in self._streams.items()}

    async def decide(self, stream: str, rows: Rows, sender: Sender) -> Decided:
        self._require_store()
        found = self._streams.get(stream) or self._new(StreamSettings())
        before = self._before(found, sender)
        if before is not None:
            return before
        first = found.online.n_rows
        decisions = found.online.decide_many(rows.table, ids=rows.ids)
        self._streams[stream] = found
        response = Decided(stream, "v1", first, decisions)
        found.alerts += int(decisions.alerts.sum())
        self._keep(found, sender, response)
        self._log(found, "decided", sender, response, n_rows=len(decisions))
        for i, name in enumerate(decisions.ids):
            one = Decided(stream, "v1", first + i, decisions[i : i + 1])
            found.decided[name] = LoggedDecision(one, found.updated, sender.by, [])
            found.erased.discard(name)
        return response

    async def label(self, stream: str, labels: Sequence[Label], sender: Sender) -> LabelResult:
        self._require_store()
        found = self._stream(stream)
        before = self._before(found, sender)
        if before is not None:
            return before
        unknown = [one.id for one in labels if not found.online.feedback(one.id, one.label, propensity=one.propensity)]
        found.labels += len(labels) - len(unknown)
        response = LabelResult(stream, len(labels) - len(unknown), unknown, repeated=False)
        self._keep(found, sender, response)
        self._log(found, "labelled", sender, {"labels": [one._asdict() for one in labels], "unknown": unknown})
        for one in labels:
            if one.id in found.decided:
                true = TrueLabel(found.updated, sender.by, one.label, one.propensity, one.id not in unknown)
                found.decided[one.id].true_labels.append(true)
        return response

    async def create(self, stream: str, settings: StreamSettings, sender: Sender) -> StreamDetail:
        self._require_store()
        if stream in self._streams and self._streams[stream].settings != settings:
            raise StreamExistsError(f"the stream {stream!r} has other settings")
        if stream not in self._streams:
            self._streams[stream] = self._new(settings)
        return await self.detail(stream)

    async def change(self, stream: str, policy: Mapping[str, Any], sender: Sender) -> SettingsChange:
        found = self._stream(stream)
        before = found.online.policy.to_json()
        try:
            found.online.policy = policy_from_json(policy)
        except InvalidInputError as error:
            raise BadInputError(str(error), where="policy") from None
        change = SettingsChange(datetime.now(UTC), sender.by, found.online.n_rows, before, dict(policy))
        found.changes.insert(0, change)
        found.touch()
        return change

    async def restart_monitor(self, stream: str, sender: Sender) -> StreamDetail:
        self._stream(stream).online.restart_monitor()
        self._stream(stream).touch()
        return await self.detail(stream)

    async def note(self, stream: str, text: str, sender: Sender, *, acknowledge: bool = False) -> StreamEvent:
        found = self._stream(stream)
        if acknowledge and found.online.trusted:
            raise BadInputError("this stream has no alarm", where="acknowledge")
        kind = "acknowledged" if acknowledge else "noted"
        event = StreamEvent(datetime.now(UTC), sender.by, found.online.n_rows, kind, text)
        found.events.insert(0, event)
        found.touch()
        return event

    async def forget(self, stream: str, ids: Sequence[Any], sender: Sender) -> int:
        found = self._stream(stream)
        erased = [name for name in ids if found.decided.pop(name, None) is not None]
        found.erased |= set(erased)
        return len(erased)

    async def delete(self, stream: str, sender: Sender) -> None:
        self._stream(stream)
        del self._streams[stream]

    async def detail(self, stream: str) -> StreamDetail:
        found = self._stream(stream)
        online = found.online
        classes = self._model.classes_.tolist()
        interval = online.interval()
        threshold = online.log_threshold
        return StreamDetail(
            **asdict(self._summary(stream)),
            classes=classes,
            interval=None if interval is None else {str(c): tuple(interval[k]) for k, c in enumerate(classes)},
            start_prior=self._by_class(self._model.prior_),
            threshold={"log_ratio": threshold, "probability": None},
            evidence=None,
            label_counts={"labelled": online.label_counts.labelled},
            performance=None,
            change=online.explain().to_json(),
            settings={"policy": online.policy.to_json()},
            changes=tuple(found.changes),
            events=tuple(found.events),
        )

    async def history(
        self, stream: str, *, start: float | None = None, end: float | None = None, points: int = 300
    ) -> StreamHistory:
        self._stream(stream)
        return StreamHistory(stream, {"at": [0.0, 1.0], "prior": [0.1, None]}, float(self._model.prior_[1]), 5.3)

    async def decision(self, stream: str, name: Any) -> LoggedDecision:
        found = self._stream(stream)
        if name in found.erased:
            raise ErasedError("this decision was erased", where="id")
        if name not in found.decided:
            raise UnknownDecisionError("no decision has this id", where="id")
        return found.decided[name]

    async def log(self, stream: str, *, after: int = 0, limit: int = 100) -> LoggedPage:
        later = [event for event in self._stream(stream).log if event.seq > after]
        return LoggedPage(stream, later[:limit], later[limit - 1].seq if len(later) > limit else None)

    async def shadow(self, stream: str) -> ShadowComparison:
        self._stream(stream)
        nothing: dict[str, Any] = dict.fromkeys(("since", "agreement", "log_ratio_difference", "prior", "trusted"))
        return ShadowComparison(stream, None, "v1", rows=0, alerts=0, active_alerts=0, skipped=0, **nothing)

    async def page(
        self, *, after: str | None = None, limit: int = 100, search: str | None = None, alarmed: bool = False
    ) -> StreamPage:
        names = sorted(name for name in self._streams if (search or "") in name)
        names = [name for name in names if not alarmed or not self._streams[name].online.trusted]
        shown = [name for name in names if name > (after or "")]
        following = shown[limit - 1] if len(shown) > limit else None
        return StreamPage([self._summary(name) for name in shown[:limit]], len(names), following)

    async def changed_since(self, seq: Mapping[str, int]) -> Sequence[StreamSummary]:
        known = [name for name in seq if name in self._streams]
        return [self._summary(name) for name in known if self._streams[name].seq != seq[name]]

    async def reload_model(self, sender: Sender) -> ModelCard:
        return self.model_card

    async def ready(self) -> bool:
        return not self.lost

    def _new(self, settings: StreamSettings) -> _Stream:
        policy = None if settings.policy is None else policy_from_json(settings.policy)
        online = OnlineClassifier(
            self._model,
            policy=policy,
            tracker=BayesBank() if settings.tracker == "bank" else None,
            prior=settings.prior,
            positive=settings.positive,
            horizon=10_000 if settings.horizon is None else settings.horizon,
            unlabeled_as=settings.unlabeled_as,
        )
        stream = _Stream(online, settings)
        self._log(stream, "created", Sender(), {"settings": asdict(settings), "model": "v1"})
        return stream

    def _stream(self, stream: str) -> _Stream:
        if stream not in self._streams:
            raise UnknownStreamError(f"there is no stream {stream!r}")
        return self._streams[stream]

    def _require_store(self) -> None:
        if self.lost:
            raise NotStoredError("the store is gone")

    def _before(self, found: _Stream, sender: Sender) -> Any:
        if sender.idempotency_key not in found.responses:
            return None
        digest, response = found.responses[sender.idempotency_key]
        if digest != sender.digest:
            raise KeyReusedError("this idempotency key was used with another body")
        return replace(response, repeated=True)

    def _keep(self, found: _Stream, sender: Sender, response: Any) -> None:
        found.touch()
        if sender.idempotency_key is not None:
            found.responses[sender.idempotency_key] = sender.digest, response

    def _log(self, found: _Stream, kind: str, sender: Sender, content: Any, *, n_rows: int = 0) -> None:
        first, seq = found.online.n_rows - n_rows, len(found.log) + 1
        found.log.append(LoggedEvent(seq, found.updated, sender.by, kind, first, n_rows, content))

    def _summary(self, name: str) -> StreamSummary:
        found = self._streams[name]
        online = found.online
        return StreamSummary(
            name=name,
            rows=online.n_rows,
            labels=found.labels,
            alerts=found.alerts,
            prior=self._by_class(online.prior),
            training_prior=self._by_class(self._model.prior_),
            positive=online.positive,
            trusted=online.trusted,
            log_evidence=None if online.monitor is None else float(online.monitor.log_evidence),
            log_alarm=5.3,
            model="v1",
            created=found.created,
            updated=found.updated,
            seq=found.seq,
            last_row=found.updated if online.n_rows else None,
            alarm_since=None if online.trusted else found.updated,
            acknowledged_by=None,
        )

    def _by_class(self, prior: np.ndarray) -> dict[str, float]:
        return {str(label): float(prior[k]) for k, label in enumerate(self._model.classes_.tolist())}
