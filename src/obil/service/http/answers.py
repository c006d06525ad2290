"""Turn the records of the service into JSON that says no more than they know."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from obil.service.streams.operations import Labelled, Series, SettingsChange, StreamDetail, StreamPage, StreamSummary


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON; numbers that JSON does not have become null.

    >>> json_bytes({"threshold": float("inf")})
    b'{"threshold":null}'
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def time_text(seconds: float) -> str:
    """Return a moment as ISO 8601 in UTC.

    >>> time_text(0.0)
    '1970-01-01T00:00:00.000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def summary_record(summary: StreamSummary) -> dict[str, Any]:
    """Return a stream at a glance."""
    record = {item.name: getattr(summary, item.name) for item in fields(StreamSummary)}
    return record | {"created": time_text(summary.created), "updated": time_text(summary.updated)}


def detail_record(detail: StreamDetail) -> dict[str, Any]:
    """Return a stream in depth, flat."""
    rest = {item.name: getattr(detail, item.name) for item in fields(StreamDetail) if item.name != "summary"}
    return summary_record(detail.summary) | rest | {"changes": [change_record(change) for change in detail.changes]}


def change_record(change: SettingsChange) -> dict[str, Any]:
    """Return one line of a stream's audit."""
    return {item.name: getattr(change, item.name) for item in fields(SettingsChange)} | {"at": time_text(change.at)}


def page_record(page: StreamPage) -> dict[str, Any]:
    """Return some streams."""
    return {"streams": [summary_record(one) for one in page.streams], "total": page.total, "next": page.next}


def series_record(series: Series) -> dict[str, Any]:
    """Return a stream over time."""
    return {item.name: getattr(series, item.name) for item in fields(Series)}


def labelled_record(labelled: Labelled) -> dict[str, Any]:
    """Return what became of labels."""
    return labelled._asdict()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        return _plain(value.tolist())
    return [_plain(inner) for inner in value]
