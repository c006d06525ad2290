"""Make a stream with a log of many single-row events: by bulk insertion, as deciding them would take long."""

import sqlite3
import time
from pathlib import Path

import numpy as np

from obil.service.storage.store import open_store
from obil.service.storage.stored_event import CREATED, DECIDED, DecidedRows, StoredEvent, write_record, write_rows
from obil.service.storage.writing import EVENT_COLUMNS, SEGMENT_ROWS, Point
from obil.service.streams.live_stream import LiveStream
from obil.service.streams.model_registry import CURRENT, ModelRegistry
from obil.service.streams.operations import StreamSettings
from obil.service.streams.replay import new_online, resolved_settings
from tests.service.models import gaussian_rows

DAYS = 30.0
TOGETHER = 10_000


def id_of(number: int) -> str:
    """Return the id of a row."""
    return f"order-{number:08d}"


def make_long_stream(path: Path, folder: Path, name: str, *, n_rows: int, n_points: int = 2_000) -> None:
    """Add a stream to an SQLite store: a row and an id in each event, over the last month."""
    store = open_store(str(path))
    store.open_secret()
    registry = ModelRegistry(folder, store)
    version = registry.take_from_folder()
    model, settings = registry.get(version), resolved_settings(StreamSettings(), StreamSettings())
    online, now = new_online(model, settings), time.time()
    with store.writing() as session:
        session.set_meta(CURRENT, version)
        row = session.add_stream(name, now - DAYS * 86_400.0, version)
        digest_of = session.digests.of_id
        created = write_record({"settings": settings, "model": version})
        session.append(row.id, StoredEvent(1, row.created, CREATED, "test", None, None, 0, 0, created))
    at = np.linspace(row.created, now, n_rows)
    values, _ = gaussian_rows(TOGETHER, 0.2, seed=7)
    scored = model.score(values)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    places = ", ".join("?" * (1 + len(StoredEvent._fields)))
    for first in range(0, n_rows, TOGETHER):
        numbers = range(first, min(first + TOGETHER, n_rows))
        n = len(numbers)
        ids = [id_of(number) for number in numbers]
        decided = online.decide_log_ratios(scored.log_ratios[:n], evidence=scored.evidence_from(first)[:n], ids=ids)
        one = DecidedRows(
            [id_of(0)], decided.log_ratios[:1], decided.evidence[:1], decided.numbers[:1], np.ones(1, np.uint8),
            version, decided.effective_priors[:1], None if decided.thresholds is None else decided.thresholds[:1],
        )  # fmt: skip
        before, after = write_rows(one).split(id_of(0).encode())
        payloads = [before + name.encode() + after for name in ids]
        connection.executemany(
            f"INSERT INTO events (stream, {EVENT_COLUMNS}) VALUES ({places})",
            (
                (row.id, number + 2, at[number], DECIDED, "test", None, None, number, 1, payload)
                for number, payload in zip(numbers, payloads, strict=True)
            ),
        )
        connection.executemany(
            "INSERT INTO event_ids (stream, segment, digest, seq) VALUES (?, ?, ?, ?)",
            sorted((row.id, number // SEGMENT_ROWS, digest_of(id_of(number)), number + 2) for number in numbers),
        )
    connection.execute("COMMIT")
    connection.close()
    live = LiveStream(row._replace(seq=n_rows + 1, n_rows=n_rows), online, version, snapshot_seq=0)
    with store.writing() as session:
        live.save_snapshot(session)
        session.save_stream(live.described()._replace(updated=now))
        every = max(1, n_rows // n_points)
        for end in range(every, n_rows + 1, every):
            prior = 0.2 + 0.1 * float(np.sin(end / n_rows * 20.0))
            threshold = float(-np.log(prior / (1.0 - prior)))
            session.add_point(
                row.id, Point(end, at[end - 1], prior, prior - 0.02, prior + 0.02, threshold, every, every // 5, 0.1)
            )
    store.close()
