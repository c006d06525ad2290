"""Run all streams of a model: in memory, in the store, and in the responses of the service."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from obil.errors import ObilError
from obil.online.decision_ids import Id
from obil.online.online_classifier import OnlineClassifier
from obil.service import records
from obil.service.refusals import ModelRefusedError, NotStoredError, RefusedError, StreamExistsError, UnknownStreamError
from obil.service.storage.store import Store, StoreProbe
from obil.service.storage.stored_event import CREATED, StoredEvent, read_record, write_record
from obil.service.storage.writing import StreamRow, Writing
from obil.service.streams.erasure import erase_deleted, erase_old, erase_rows
from obil.service.streams.group_commit import GroupCommit
from obil.service.streams.live_stream import LiveStream, StateCopy, summary_of_row
from obil.service.streams.model_registry import CURRENT, MAX_LOADED, ModelRegistry
from obil.service.streams.model_versions import ModelVersions
from obil.service.streams.operations import Decided, Label, Rows, Sender, StreamSettings
from obil.service.streams.replay import new_online, replay, resolved_settings
from obil.service.streams.report_budget import ReportBudget
from obil.service.streams.scoring import score
from obil.service.streams.shadow_model import ShadowModel
from obil.service.streams.stream_log import LoggedDecision, LoggedPage, find_decision, page_of_log
from obil.service.streams.stream_request import NewStream, Parts, RowsToDecide
from obil.serving.ratio_model import RatioModel

SCORE_IN_THREAD = 64  # rows; more are scored in another thread, so that single rows need not wait
MAX_EVENTS = 50  # of the audit, in a report
MAX_TEMPLATES = 1_000  # packed new streams that are cached

log = logging.getLogger("obil.service")


class StreamHub:
    """All streams of one model folder. Methods raise `obil.service.refusals.RefusedError`.

    `defaults` are the settings of streams that their first row creates; with `store_inputs` rows are stored as they
    were sent, beside their log ratios; at most `max_streams` stay in memory, and an idle one for `idle_seconds`.
    """

    def __init__(
        self,
        store: Store,
        registry: ModelRegistry,
        *,
        defaults: StreamSettings | None = None,
        store_inputs: bool = False,
        max_streams: int = 10_000,
        idle_seconds: float = 600.0,
    ) -> None:
        store.open_secret()
        self._store, self._registry = store, registry
        self._deleting = asyncio.Lock()
        self._budget = ReportBudget()
        self._figures: dict[str, Any] = {}  # of histories, by version
        self._defaults = StreamSettings() if defaults is None else defaults
        self._store_inputs = store_inputs
        self._version = registry.take_from_folder()  # a model that the gate refuses is not served
        self._default_settings = resolved_settings(self._defaults, self._defaults)
        self._templates: dict[str, bytes] = {}  # packed streams without rows, by version and settings
        new_online(self.model, self._default_settings)  # refuses wrong defaults at start
        self._probe = StoreProbe(store)
        self.models = ModelVersions(
            registry, follow=self.follow_model, new_online=lambda: new_online(self.model, self._default_settings)
        )
        self._writer = GroupCommit(store, self._open, max_streams=max_streams, idle_seconds=idle_seconds)
        self._shadow = ShadowModel(registry.get, self._writer)
        self._shadow.follow(registry.shadow())

    @property
    def model(self) -> RatioModel:
        """The current model."""
        return self._registry.get(self._version)

    @property
    def model_card(self) -> records.ModelCard:
        """Version, classes, columns, the deployment gate's verdict and the reliability diagram."""
        return self._registry.card(self._version)

    @property
    def n_live(self) -> int:
        """How many streams are in memory."""
        return self._writer.n_streams

    @property
    def n_waiting(self) -> int:
        """How many requests wait to be decided and stored."""
        return self._writer.n_waiting

    def on_commit(self, observe: Callable[[float], None]) -> None:
        """Have a function called with the seconds that each transaction took."""
        self._writer.observe_seconds = observe

    def on_answer(self, observe: Callable[[Parts], None]) -> None:
        """Have a function called, where each request is answered, with how long its parts took."""
        self._writer.observe_parts = observe

    def close(self) -> None:
        """Finish the queue, write snapshots, and close the store."""
        self._shadow.close()
        self._writer.close()
        self._store.close()

    async def decide(self, stream: str, rows: Rows, sender: Sender) -> Decided:
        """Decide rows, update the prior with them, and return once they are on disk."""
        if not self._store_inputs and rows.inputs is not None:
            rows = replace(rows, inputs=None)
        work = RowsToDecide(rows, sender)
        if rows.n_rows > SCORE_IN_THREAD:
            work.version = self._version
            begin = time.time_ns()
            work.scored = await asyncio.to_thread(score, rows, self._registry.get(work.version))
            if self._writer.observe_parts is not None:
                self._writer.observe_parts({"score": (begin, time.time_ns())})
        creates = NewStream(self._default_settings, sender.by)
        decided = await self._writer.do(stream, work.decide, creates=creates, work=work)
        self._shadow.offer(rows, decided)
        return decided

    async def label(self, stream: str, labels: Sequence[Label], sender: Sender) -> records.LabelResult:
        """Take in late labels, and return once they are on disk."""
        return await self._writer.do(stream, lambda live, session, at: live.label(labels, sender, session, at))

    async def create(self, stream: str, settings: StreamSettings, sender: Sender) -> records.StreamDetail:
        """Create a stream; the same again changes nothing."""
        wanted = resolved_settings(settings, self._defaults)
        new_online(self.model, wanted)  # refuses wrong settings before anything is written

        def action(live: LiveStream, session: Writing, _at: float) -> StateCopy:
            settings = read_record(session.event(live.row.id, 1).payload)["settings"]
            if json.dumps(settings, sort_keys=True) != json.dumps(wanted, sort_keys=True):
                raise StreamExistsError(f"stream {stream!r} exists with other settings: {json.dumps(settings):.400}")
            return live.copied()

        return await self._report(await self._writer.do(stream, action, creates=NewStream(wanted, sender.by)))

    async def change(self, stream: str, policy: Mapping[str, Any], sender: Sender) -> records.SettingsChange:
        """Set the policy from the next row on."""
        return await self._writer.do(stream, lambda live, session, at: live.change_policy(policy, sender, session, at))

    async def restart_monitor(self, stream: str, sender: Sender) -> records.StreamDetail:
        """Start a new monitoring run, without the evidence so far."""

        def action(live: LiveStream, session: Writing, at: float) -> StateCopy:
            live.restart_monitor(sender, session, at)
            return live.copied()

        return await self._report(await self._writer.do(stream, action))

    async def note(self, stream: str, text: str, sender: Sender, *, acknowledge: bool = False) -> records.StreamEvent:
        """Keep a note in the log of a stream; it may acknowledge the alarm."""
        return await self._writer.do(
            stream, lambda live, session, at: live.note(text, sender, session, at, acknowledge=acknowledge)
        )

    async def forget(self, stream: str, ids: Sequence[Id], sender: Sender) -> int:
        """Erase decisions; return how many were found."""
        erased = await self._writer.do(stream, lambda live, session, at: erase_rows(live, ids, sender, session, at))
        await asyncio.to_thread(self._store.sweep)
        return erased

    async def delete(self, stream: str, sender: Sender) -> None:
        """Delete a stream; return once nothing of it is left."""
        await self._writer.do(stream, lambda live, session, _at: live.erase(session))
        self._shadow.forget(stream)
        await self.finish_deletions()

    async def finish_deletions(self) -> None:
        """Erase what is left of deleted streams, also of those whose deletion was cut off."""
        async with self._deleting:  # in one thread, however many are deleted
            await asyncio.to_thread(erase_deleted, self._store)

    async def detail(self, stream: str) -> records.StreamDetail:
        """Return a stream in detail."""

        def copied(live: LiveStream, _session: Writing, _at: float) -> StateCopy:
            started = time.thread_time()
            copy = live.copied()
            self._budget.charge(time.thread_time() - started)
            return copy

        async def report() -> records.StreamDetail:
            return await self._report(await self._writer.do(stream, copied))

        return await self._budget.read(("detail", stream), report)

    async def history(
        self, stream: str, *, start: float | None = None, end: float | None = None, points: int = 300
    ) -> records.StreamHistory:
        """Return a stream over time, between two times (seconds since 1970)."""
        within = {"start": start or 0.0, "end": 1e18 if end is None else end, "limit": points}

        async def history() -> records.StreamHistory:
            return await asyncio.to_thread(self._history, stream, within)

        return await self._budget.read(("history", stream, *within.values()), history)

    async def decision(self, stream: str, name: Id) -> LoggedDecision:
        """Return a decision as it was made, by its id, with the labels that came for it."""
        return await asyncio.to_thread(lambda: find_decision(self._store, self._row(stream), name, self.model))

    async def log(self, stream: str, *, after: int = 0, limit: int = 100) -> LoggedPage:
        """Return events of a stream after event number `after`, in order."""
        return await asyncio.to_thread(
            lambda: page_of_log(self._store, self._row(stream), self.model, after=after, limit=limit)
        )

    async def shadow(self, stream: str) -> records.ShadowComparison:
        """Return how the shadow model compares with the active model on a stream."""
        row = await asyncio.to_thread(self._row, stream)
        return self._shadow.report(stream, row.id, active=self._version)

    async def page(
        self, *, after: str | None = None, limit: int = 100, search: str | None = None, alarmed: bool = False
    ) -> records.StreamPage:
        """Return summaries of streams, by name."""
        which: dict[str, Any] = {"search": search or "", "alarmed": alarmed}
        rows = await asyncio.to_thread(partial(self._store.streams, after=after or "", limit=limit + 1, **which))
        total = await asyncio.to_thread(partial(self._store.count_streams, **which))
        page = rows[:limit]
        following = page[-1].name if len(rows) > limit and page else None
        return records.StreamPage([summary_of_row(row) for row in page], total, following)

    async def changed_since(self, seq: Mapping[str, int]) -> Sequence[records.StreamSummary]:
        """Return those of the named streams whose seq differs from the given one."""
        rows = await asyncio.to_thread(lambda: [self._store.stream(name) for name in seq])
        return [summary_of_row(row) for row in rows if row is not None and row.seq != seq[row.name]]

    async def reload_model(self, sender: Sender) -> records.ModelCard:
        """Read the model folder again and activate it; refuse a model that the deployment gate refuses."""
        try:
            version = self._version = await asyncio.to_thread(
                partial(self._registry.take_from_folder, by=sender.by, again=True)
            )
        except RefusedError:  # by the gate, or by a store that is unavailable
            raise
        except (ObilError, OSError) as error:
            raise ModelRefusedError(f"the model cannot be read: {error}") from None
        return self._registry.card(version)

    def follow_model(self) -> None:
        """Take over the version that is active in the store, so that rows are read by its columns."""
        active = self._registry.active_version()
        if active != self._version:
            self._registry.get(active)
            self._version = active
        self._shadow.follow(self._registry.shadow())

    async def ready(self) -> bool:
        """Return whether decisions can be made and stored."""
        return await self._probe.ready()

    def prune(self, before: float) -> int:
        """Erase some of what is older than a time; return how many events."""
        return erase_old(self._store, self._writer, before)

    def _row(self, stream: str) -> StreamRow:
        row = self._store.stream(stream)
        if row is None:
            raise UnknownStreamError(f"there is no stream {stream!r}")
        return row

    async def _report(self, copy: StateCopy) -> records.StreamDetail:
        return await asyncio.to_thread(self._detail, copy)

    def _history(self, stream: str, within: Mapping[str, Any]) -> records.StreamHistory:
        from obil.service.streams.history_figures import HistoryFigures  # noqa: PLC0415  # deciding needs no reports
        from obil.service.streams.stream_report import history_of  # noqa: PLC0415

        started = time.thread_time()
        row = self._row(stream)
        model = self._registry.get(row.model)
        if row.model not in self._figures:
            if len(self._figures) >= MAX_LOADED:
                self._figures.clear()
            self._figures[row.model] = HistoryFigures(model)
        found = history_of(row, self._store.points(row.id, **within), self._figures[row.model], model)
        self._budget.charge(time.thread_time() - started)
        return found

    def _detail(self, copy: StateCopy) -> records.StreamDetail:
        from obil.service.streams.stream_report import detail_of  # noqa: PLC0415  # deciding needs no reports

        started = time.thread_time()
        events = self._store.audit(copy.row.id, limit=MAX_EVENTS)
        found = detail_of(copy, self._registry.get(copy.version), events)
        self._budget.charge(time.thread_time() - started)
        return found

    def _open(
        self, name: str, live: LiveStream | None, session: Writing, new: NewStream | None, at: float
    ) -> LiveStream:
        """Bring a stream up to date with the store and the current version, creating it if asked to."""
        row = session.lock(name)
        if row is None:
            if new is None:
                raise UnknownStreamError(f"there is no stream {name!r}")
            row = session.add_stream(name, at, self._version)
        # after the lock: read before it, the version may be older than the one another process gave the stream
        self._version = current = session.meta(CURRENT) or self._version
        if live is None or not self._catch_up(live, row, session):
            live = self._read(row, session, new, current)
        if live.version != current:
            live.take_model(current, self._registry.get(current), session, at)
        return live

    def _catch_up(self, live: LiveStream, row: StreamRow, session: Writing) -> bool:
        """Replay what other processes did to a stream since; return whether that was possible in memory."""
        if live.row == row:
            return True
        if (live.row.id, live.row.created) != (row.id, row.created) or live.row.seq >= row.seq:
            return False  # deleted and created again, or the store was restored from a backup
        if session.snapshot_seq(row.id) > live.row.seq:
            return False  # events older than a snapshot may have been erased or rewritten
        self._replayed(live.online, row, live.row.seq, session)
        live.follow(row)
        return True

    def _read(self, row: StreamRow, session: Writing, new: NewStream | None, current: str) -> LiveStream:
        """Create a new stream, or restore one from its last snapshot and the events since."""
        if row.seq == 0:
            settings = self._default_settings if new is None else new.settings
            online, sender = self._new_online(current, settings), "service" if new is None else new.by
            payload = write_record({"settings": dict(settings), "model": current})
            session.append(row.id, StoredEvent(1, row.created, CREATED, sender, None, None, 0, 0, payload))
            return LiveStream(row._replace(seq=1, model=current), online, current, snapshot_seq=0, created=True)
        snapshot = session.snapshot(row.id)
        restored = (
            None
            if snapshot is None
            else OnlineClassifier.from_state(self._registry.get(snapshot.model), snapshot.state)
        )
        seq = 0 if snapshot is None else snapshot.seq
        online = self._replayed(restored, row, seq, session)
        last_point_at = session.last_point_at(row.id)
        return LiveStream(row, online, row.model, snapshot_seq=seq, last_point_at=last_point_at)

    def _replayed(
        self, online: OnlineClassifier | None, row: StreamRow, seq: int, session: Writing
    ) -> OnlineClassifier:
        """Return a stream after the events since event `seq`."""
        events = session.events_after(row.id, seq)
        if len(events) != row.seq - seq:
            raise NotStoredError(
                f"the log of {row.name!r} has {len(events)} events after event {seq}, expected {row.seq - seq}"
            )
        online = replay(online, events, self._registry.get)
        if online.n_rows != row.n_rows:
            raise NotStoredError(f"the log of {row.name!r} has {online.n_rows} rows, expected {row.n_rows}")
        return online

    def _new_online(self, version: str, settings: Mapping[str, Any]) -> OnlineClassifier:
        """Return a stream without rows: restoring one is faster than creating it."""
        name = json.dumps([version, dict(settings)], sort_keys=True)
        if name not in self._templates:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            self._templates[name] = new_online(self._registry.get(version), settings).state()
        return OnlineClassifier.from_state(self._registry.get(version), self._templates[name])
