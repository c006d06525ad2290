"""Define the tables of the service, for SQLite and PostgreSQL."""

from collections.abc import Callable
from typing import Any

Run = Callable[..., list[tuple[Any, ...]]]  # runs one statement with ? for each value; returns its rows, if it has any

NEVER_PRUNED = "('created', 'settings', 'noted')"  # kinds of events: the creation, and what people did and wrote
AUDITED = "kind NOT IN ('decided', 'labelled', 'created')"  # in the index and in its query, letter by letter

# the types in {} differ between SQLite and PostgreSQL; a request waits for one row of `events` and one of `streams`
META = "CREATE TABLE IF NOT EXISTS obil_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
MODELS = (  # a version that was active once is never deleted: the logs of streams need it
    "CREATE TABLE models (version TEXT PRIMARY KEY, source TEXT NOT NULL, added {real}, added_by TEXT NOT NULL, "
    "activated {real}, activated_by TEXT)"
)
TABLES = (
    MODELS,
    "CREATE TABLE model_files (version TEXT NOT NULL, name TEXT NOT NULL, content {blob} NOT NULL, "
    "PRIMARY KEY (version, name))",
    "CREATE TABLE streams (id {serial}, name TEXT NOT NULL UNIQUE, created {real} NOT NULL, "
    "updated {real} NOT NULL, seq {integer} NOT NULL, n_rows {integer} NOT NULL, n_labels {integer} NOT NULL, "
    "n_alerts {integer} NOT NULL, trusted {integer} NOT NULL, model TEXT NOT NULL, summary TEXT NOT NULL)",
    "CREATE INDEX alarmed_streams ON streams (name) WHERE trusted = 0",
    # what is left of them is erased in slices
    "CREATE TABLE deleted_streams (id {integer} PRIMARY KEY)",
    # the packed state of a stream after event `seq`; unpacking it needs the model of that version
    "CREATE TABLE snapshots (stream {integer} PRIMARY KEY, seq {integer} NOT NULL, model TEXT NOT NULL, "
    "state {blob} NOT NULL)",
    # all events of a stream in order: replayed from the first, they give its state bit for bit; `retry_key` and
    # `digest` are keyed digests of an idempotency key and a body, and without the latter the event was erased in part
    "CREATE TABLE events (stream {integer} NOT NULL, seq {integer} NOT NULL, at {real} NOT NULL, "
    "kind TEXT NOT NULL, sender TEXT NOT NULL, retry_key {blob}, digest {blob}, first_row {integer} NOT NULL, "
    "n_rows {integer} NOT NULL, payload {blob} NOT NULL, PRIMARY KEY (stream, seq))",
    "CREATE UNIQUE INDEX retried_events ON events (stream, retry_key) WHERE retry_key IS NOT NULL",
    # which events name an id: its digest, in segments of rows, so that new ids are written side by side
    "CREATE TABLE event_ids (stream {integer} NOT NULL, segment {integer} NOT NULL, digest {integer} NOT NULL, "
    "seq {integer} NOT NULL, PRIMARY KEY (stream, segment, digest, seq)){compact}",
    f"CREATE INDEX audited_events ON events (stream, seq) WHERE {AUDITED}",
    "CREATE INDEX old_events ON events (at)",
    "CREATE TABLE points (stream {integer} NOT NULL, at_row {integer} NOT NULL, at {real} NOT NULL, "
    "prior {real}, low {real}, high {real}, log_threshold {real}, n_rows {integer} NOT NULL, "
    "n_alerts {integer} NOT NULL, log_evidence {real}, PRIMARY KEY (stream, at_row)){compact}",
    "CREATE TABLE api_keys (id TEXT PRIMARY KEY, name TEXT NOT NULL, hash {blob} NOT NULL, "
    "scopes TEXT NOT NULL, created {real} NOT NULL, expires {real}, revoked {real})",
)
