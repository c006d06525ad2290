"""Give every stream its place: in memory, in the store, and in the answers of the service."""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from obil.errors import ObilError
from obil.online.decision_ids import Id
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.packed_state import pack_stream, unpack_stream
from obil.service.refusals import ModelRefusedError, NotStoredError, RefusedError, StreamExistsError, UnknownStreamError
from obil.service.storage.store import Store
from obil.service.storage.store_probe import StoreProbe
from obil.service.storage.stored_event import CREATED, StoredEvent, read_record, write_record
from obil.service.storage.writing import StreamRow, Writing
from obil.service.streams.erasure import erase_rows
from obil.service.streams.group_commit import GroupCommit
from obil.service.streams.joint_decisions import RowsToDecide
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.model_registry import CURRENT, ModelRegistry
from obil.service.streams.operations import (
    Decided,
    Label,
    Labelled,
    Rows,
    Sender,
    Series,
    SettingsChange,
    StreamDetail,
    StreamPage,
    StreamSettings,
    StreamSummary,
)
from obil.service.streams.replay import fresh_online, replay, same_settings, settled
from obil.service.streams.retention import erase_old
from obil.service.streams.scoring import score
from obil.service.streams.stream_report import Moment, detail_of, moment_of, series_of, summary_of_row
from obil.service.streams.stream_request import Birth
from obil.serving.ratio_model import RatioModel

SCORE_APART = 64  # rows; more are scored by another thread, so that single rows need not wait for them
MOST_CHANGES = 20  # of the settings, that a report shows
MOST_FRESH = 1_000  # settings of new streams that are remembered

log = logging.getLogger("obil.service")


class StreamHub:
    """All streams of one model folder.

    Parameters
    ----------
    store
        Where they are kept.
    registry
        The versions of the model.
    defaults
        Settings of streams that are made by their first row.
    store_inputs
        Whether rows are kept as they were sent, beside their log ratios.
    most_streams, idle_seconds
        How many streams stay in memory, and how long an idle one does.
    """

    def __init__(
        self,
        store: Store,
        registry: ModelRegistry,
        *,
        defaults: StreamSettings | None = None,
        store_inputs: bool = False,
        most_streams: int = 2_000,
        idle_seconds: float = 600.0,
    ) -> None:
        self._store, self._registry = store, registry
        self._defaults = StreamSettings() if defaults is None else defaults
        self._store_inputs = store_inputs
        self._version = _version_to_serve(registry)
        self._settled = settled(self._defaults, self._defaults)
        self._fresh: dict[str, bytes] = {}  # packed streams that have seen no row, by version and settings
        fresh_online(self.model, self._settled)  # refuses wrong defaults now
        self._probe = StoreProbe(store)
        self._writer = GroupCommit(store, self._open, most_streams=most_streams, idle_seconds=idle_seconds)

    @property
    def model(self) -> RatioModel:
        """The model that scores from now on."""
        return self._registry.get(self._version)

    @property
    def model_card(self) -> Mapping[str, Any]:
        """Version, classes, columns, the gate's verdict and the reliability diagram."""
        return self._registry.card(self._version)

    @property
    def n_live(self) -> int:
        """How many streams are in memory."""
        return self._writer.n_streams

    def close(self) -> None:
        """Finish what was asked, write snapshots, and let go of the store."""
        self._writer.close()
        self._store.close()

    async def decide(self, stream: str, rows: Rows, sender: Sender) -> Decided:
        """Decide rows, let them vote, and return when they are safe on disk."""
        if not self._store_inputs and rows.inputs is not None:
            rows = replace(rows, inputs=None)
        work = RowsToDecide(rows, sender)
        if rows.n_rows > SCORE_APART:
            version = self._version
            work = replace(
                work, scored=await asyncio.to_thread(score, rows, self._registry.get(version)), version=version
            )

        def act(live: LiveStream, session: Writing, at: float) -> Decided:
            current = work.scored is not None and work.version == live.version
            scored = work.scored if work.scored is not None and current else score(rows, live.online.model)
            return live.decide(rows, scored, sender, session, at)

        decided: Decided = await self._writer.do(stream, act, creates=Birth(self._settled, sender.by), work=work)
        return decided

    async def label(self, stream: str, labels: Sequence[Label], sender: Sender) -> Labelled:
        """Take in late labels, and return when they are safe on disk."""
        labelled: Labelled = await self._writer.do(
            stream, lambda live, session, at: live.label(labels, sender, session, at)
        )
        return labelled

    async def create(self, stream: str, settings: StreamSettings, sender: Sender) -> StreamDetail:
        """Make a stream in advance; the same again changes nothing."""
        wished = settled(settings, self._defaults)
        fresh_online(self.model, wished)  # refuses wrong settings before anything is written

        def act(live: LiveStream, session: Writing, _at: float) -> Moment:
            made = read_record(session.event(live.row.id, 1).payload)["settings"]
            if not same_settings(made, wished):
                raise StreamExistsError(f"the stream {stream!r} was made with other settings: {json.dumps(made):.400}")
            return moment_of(live)

        return await self._report(await self._writer.do(stream, act, creates=Birth(wished, sender.by)))

    async def change(self, stream: str, policy: Mapping[str, Any], sender: Sender) -> SettingsChange:
        """Set the policy from the next row on."""
        changed: SettingsChange = await self._writer.do(
            stream, lambda live, session, at: live.change_policy(policy, sender, session, at)
        )
        return changed

    async def restart_monitor(self, stream: str, sender: Sender) -> StreamDetail:
        """Forget the evidence against label shift and watch afresh."""

        def act(live: LiveStream, session: Writing, at: float) -> Moment:
            live.restart_monitor(sender, session, at)
            return moment_of(live)

        return await self._report(await self._writer.do(stream, act))

    async def forget(self, stream: str, ids: Sequence[Id], sender: Sender) -> int:
        """Erase what is kept of decisions; return how many were found."""
        erased: int = await self._writer.do(
            stream, lambda live, session, at: erase_rows(live, ids, sender, session, at)
        )
        await asyncio.to_thread(self._store.sweep)
        return erased

    async def delete(self, stream: str, sender: Sender) -> None:
        """Erase a whole stream."""
        await self._writer.do(stream, lambda live, session, _at: live.erase(session))
        await asyncio.to_thread(self._store.sweep)

    async def detail(self, stream: str) -> StreamDetail:
        """Return a stream in depth."""
        return await self._report(await self._writer.do(stream, lambda live, _session, _at: moment_of(live)))

    async def history(
        self, stream: str, *, start: float | None = None, end: float | None = None, points: int = 300
    ) -> Series:
        """Return a stream over time, between two moments (seconds since 1970)."""
        row = await asyncio.to_thread(self._store.stream, stream)
        if row is None:
            raise UnknownStreamError(f"there is no stream {stream!r}")
        found = await asyncio.to_thread(
            partial(self._store.points, row.id, start=start or 0.0, end=1e18 if end is None else end, most=points)
        )
        return await asyncio.to_thread(series_of, row, found, self._registry.get(row.model))

    async def page(
        self, *, after: str | None = None, limit: int = 100, search: str | None = None, alarmed: bool = False
    ) -> StreamPage:
        """Return streams at a glance."""
        which: dict[str, Any] = {"search": search or "", "alarmed": alarmed}
        rows = await asyncio.to_thread(partial(self._store.streams, after=after or "", limit=limit + 1, **which))
        total = await asyncio.to_thread(partial(self._store.count_streams, **which))
        shown = rows[:limit]
        following = shown[-1].name if len(rows) > limit and shown else None
        return StreamPage([summary_of_row(row) for row in shown], total, following)

    async def changed_since(self, seq: Mapping[str, int]) -> Sequence[StreamSummary]:
        """Return those of the named streams whose seq is another one than given."""
        rows = await asyncio.to_thread(lambda: [self._store.stream(name) for name in seq])
        return [summary_of_row(row) for row in rows if row is not None and row.seq != seq[row.name]]

    async def reload_model(self, sender: Sender) -> Mapping[str, Any]:
        """Read the model folder again; refuse a model that the gate refuses."""
        try:
            version = self._version = await asyncio.to_thread(self._registry.take_from_folder)
        except RefusedError:  # by the gate, or by a store that is away
            raise
        except (ObilError, OSError) as error:
            raise ModelRefusedError(f"the model cannot be read: {error}") from None
        return self._registry.card(version)

    def follow_model(self) -> None:
        """Take the version that another process has reloaded; else rows would be read by the columns of the old one."""
        current = self._registry.current_version()
        if current is not None and current != self._version:
            self._registry.get(current)
            self._version = current

    async def ready(self) -> bool:
        """Return whether decisions can be taken and kept."""
        return await self._probe.ready()

    def prune(self, before: float) -> int:
        """Erase what is older than a moment; return how many events went."""
        return erase_old(self._store, self._writer, before)

    async def _report(self, moment: Moment) -> StreamDetail:
        return await asyncio.to_thread(self._detail, moment)

    def _detail(self, moment: Moment) -> StreamDetail:
        changes = self._store.changes(moment.row.id, most=MOST_CHANGES)
        return detail_of(moment, self._registry.get(moment.version), changes)

    def _open(self, name: str, live: LiveStream | None, session: Writing, birth: Birth | None, at: float) -> LiveStream:
        """Bring a stream up to what the store holds and to the current version, making it where that was asked for."""
        row = session.lock(name)
        if row is None:
            if birth is None:
                raise UnknownStreamError(f"there is no stream {name!r}")
            row = session.add_stream(name, at, self._version)
        # behind the lock: one that was read before it may be older than what another process has given the stream
        self._version = current = session.meta(CURRENT) or self._version
        if live is None or not self._catch_up(live, row, session):
            live = self._read(row, session, birth, current)
        if live.version != current:
            live.take_model(current, self._registry.get(current), session, at)
        return live

    def _catch_up(self, live: LiveStream, row: StreamRow, session: Writing) -> bool:
        """Do again what other processes did to a stream since; return whether it could be done in memory."""
        if live.row == row:
            return True
        if (live.row.id, live.row.created) != (row.id, row.created) or live.row.seq >= row.seq:
            return False  # erased and made again, or the store is one that was put back
        if session.snapshot_seq(row.id) > live.row.seq:
            return False  # what is older than a snapshot may be erased, or changed where a row was
        self._replayed(live.online, row, live.row.seq, session)
        live.follow(row)
        return True

    def _read(self, row: StreamRow, session: Writing, birth: Birth | None, current: str) -> LiveStream:
        """Make a new stream, or bring one back: the last snapshot, and what happened since."""
        if row.seq == 0:
            settings = self._settled if birth is None else birth.settings
            online, sender = self._fresh_online(current, settings), "service" if birth is None else birth.by
            born = write_record({"settings": dict(settings), "model": current})
            session.append(row.id, StoredEvent(1, row.created, CREATED, sender, None, None, 0, 0, born))
            return LiveStream(row._replace(seq=1, model=current), online, current, snapshot_seq=0, made=True)
        snapshot = session.snapshot(row.id)
        packed = None if snapshot is None else unpack_stream(self._registry.get(snapshot.model), snapshot.state)
        seq = 0 if snapshot is None else snapshot.seq
        return LiveStream(row, self._replayed(packed, row, seq, session), row.model, snapshot_seq=seq)

    def _replayed(
        self, online: OnlineClassifier | None, row: StreamRow, seq: int, session: Writing
    ) -> OnlineClassifier:
        """Return a stream that stood after event `seq` as its row says it stands now."""
        events = session.events_after(row.id, seq)
        if len(events) != row.seq - seq:
            raise NotStoredError(
                f"the log of {row.name!r} holds {len(events)} events after its event {seq}, {row.seq - seq} happened"
            )
        online = replay(online, events, self._registry.get)
        if online.n_rows != row.n_rows:
            raise NotStoredError(f"the log of {row.name!r} holds {online.n_rows} rows, {row.n_rows} were decided")
        return online

    def _fresh_online(self, version: str, settings: Mapping[str, Any]) -> OnlineClassifier:
        """Return a stream that has seen no row: unpacking one is ten times quicker than making it."""
        name = json.dumps([version, dict(settings)], sort_keys=True)
        if name not in self._fresh:
            if len(self._fresh) >= MOST_FRESH:
                self._fresh.clear()
            self._fresh[name] = pack_stream(fresh_online(self._registry.get(version), settings))
        return unpack_stream(self._registry.get(version), self._fresh[name])


def _version_to_serve(registry: ModelRegistry) -> str:
    """Return the version of the folder, or where the gate refuses that, the one that has served until now."""
    try:
        return registry.take_from_folder()
    except ModelRefusedError as error:
        last = registry.current_version()
        if last is None:
            raise
        log.error("the model folder is refused, the last version serves on", extra={"fields": {"reason": str(error)}})
        return last
