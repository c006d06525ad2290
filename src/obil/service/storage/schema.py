"""Lay out what the service keeps, in tables that SQLite and PostgreSQL both have."""

FORMAT = 1

# {words} differ between the two; everything a request waits for is one row of `events` and one of `streams`
TABLES = (
    "CREATE TABLE IF NOT EXISTS obil_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS model_files (version TEXT NOT NULL, name TEXT NOT NULL, content {blob} NOT NULL, "
    "PRIMARY KEY (version, name))",
    "CREATE TABLE IF NOT EXISTS streams (id {serial}, name TEXT NOT NULL UNIQUE, created {real} NOT NULL, "
    "updated {real} NOT NULL, seq {integer} NOT NULL, n_rows {integer} NOT NULL, n_labels {integer} NOT NULL, "
    "n_alerts {integer} NOT NULL, trusted {integer} NOT NULL, model TEXT NOT NULL, summary TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS alarmed_streams ON streams (name) WHERE trusted = 0",
    # where a stream stood after event `seq`, packed; needs the model of that version to be unpacked
    "CREATE TABLE IF NOT EXISTS snapshots (stream {integer} PRIMARY KEY, seq {integer} NOT NULL, model TEXT NOT NULL, "
    "state {blob} NOT NULL)",
    # everything that ever happened to a stream, in order: replayed from the first, they give its state bit for bit
    "CREATE TABLE IF NOT EXISTS events (stream {integer} NOT NULL, seq {integer} NOT NULL, at {real} NOT NULL, "
    "kind TEXT NOT NULL, sender TEXT NOT NULL, retry_key TEXT, digest {blob}, first_row {integer} NOT NULL, "
    "n_rows {integer} NOT NULL, payload {blob} NOT NULL, PRIMARY KEY (stream, seq))",
    "CREATE UNIQUE INDEX IF NOT EXISTS retried_events ON events (stream, retry_key) WHERE retry_key IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS changes_of_settings ON events (stream, seq) WHERE kind = 'settings'",
    "CREATE INDEX IF NOT EXISTS old_events ON events (at)",
    "CREATE TABLE IF NOT EXISTS points (stream {integer} NOT NULL, at_row {integer} NOT NULL, at {real} NOT NULL, "
    "prior {real}, low {real}, high {real}, log_threshold {real}, n_rows {integer} NOT NULL, "
    "n_alerts {integer} NOT NULL, log_evidence {real}, PRIMARY KEY (stream, at_row)){compact}",
    "CREATE TABLE IF NOT EXISTS api_keys (id TEXT PRIMARY KEY, name TEXT NOT NULL, hash {blob} NOT NULL, "
    "scopes TEXT NOT NULL, created {real} NOT NULL, expires {real}, revoked {real})",
)
SQLITE_WORDS = {
    "blob": "BLOB",
    "real": "REAL",
    "integer": "INTEGER",
    "serial": "INTEGER PRIMARY KEY",
    "compact": " WITHOUT ROWID",
}
POSTGRES_WORDS = {
    "blob": "BYTEA",
    "real": "DOUBLE PRECISION",
    "integer": "BIGINT",
    "serial": "BIGSERIAL PRIMARY KEY",
    "compact": "",
}
OF_ONE_STREAM = ("points", "events", "snapshots")
