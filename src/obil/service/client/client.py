"""Call the service from Python with the standard library alone: typed records, retries that count once."""

import io
import os
import secrets
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from obil.errors import InvalidInputError
from obil.service import records
from obil.service.client.connection import ServiceConnection
from obil.service.records import Id

Row = Mapping[str, Any] | Sequence[Any]
PAGE_SIZE = 1_000  # streams per request


class Client:
    """A client of one service.

    Requests are sent again after a lost connection or a response of status 503. Rows and labels carry an idempotency
    key, so that they count once, however often they were sent.

    Parameters
    ----------
    url
        The address of the service, such as http://127.0.0.1:8642.
    key
        The API key, if the service needs one.
    timeout
        Seconds to wait for a response.
    retries
        How often a request that failed is sent again, at most.

    >>> Client("http://127.0.0.1:8642").stream("shop").name
    'shop'
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 30.0, retries: int = 4) -> None:
        self._connection = ServiceConnection(url, key, timeout=timeout, retries=retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def stream(self, name: str) -> "StreamClient":
        """Return a stream by its name, without a request."""
        return StreamClient(self._connection, name)

    def streams(self, *, search: str | None = None, alarmed: bool = False) -> Iterator[records.StreamSummary]:
        """Iterate over streams by name: all, those whose name contains `search`, or those with an alarm."""
        after: str | None = None
        while True:
            query = {"after": after, "limit": PAGE_SIZE, "search": search, "alarmed": "true" if alarmed else None}
            page = self._connection.record(records.StreamPage, "GET", "/v1/streams", query=query)
            yield from page.streams
            after = page.next
            if after is None:
                return

    def model(self, version: str | None = None) -> records.ModelCard:
        """Return the active model, or one version of it."""
        path = "/v1/model" if version is None else _path_of(version)
        return self._connection.record(records.ModelCard, "GET", path)

    def reload_model(self) -> records.ModelCard:
        """Make the service read its model folder again, and activate it."""
        return self._connection.record(records.ModelCard, "POST", "/v1/model/reload")

    def models(self) -> records.ModelVersions:
        """Return all versions of the model, the newest first."""
        return self._connection.record(records.ModelVersions, "GET", "/v1/models")

    def upload_model(self, folder: str | os.PathLike[str]) -> records.ModelCard:
        """Upload a model folder that `obil.save` wrote, without activating it; a large one needs a longer timeout."""
        tar = _tar_of(Path(folder))
        return self._connection.record(records.ModelCard, "POST", "/v1/models", tar=tar, repeatable=False)

    def activate_model(self, version: str) -> records.ModelCard:
        """Have all streams score with a version from their next row on."""
        return self._connection.record(records.ModelCard, "POST", f"{_path_of(version)}/activate")

    def roll_back_model(self) -> records.ModelCard:
        """Activate the version that was active before; done twice, nothing has changed."""
        return self._connection.record(records.ModelCard, "POST", "/v1/model/rollback", repeatable=False)

    def start_shadow(self, version: str, *, fraction: float = 0.1) -> records.ModelVersions:
        """Compare a version with the active one, on a fraction of the rows of all streams."""
        query = {"fraction": fraction}
        return self._connection.record(records.ModelVersions, "POST", f"{_path_of(version)}/shadow", query=query)

    def stop_shadow(self) -> records.ModelVersions:
        """Compare no version."""
        return self._connection.record(records.ModelVersions, "DELETE", "/v1/model/shadow")

    def delete_model(self, version: str) -> None:
        """Delete an uploaded version that was never active."""
        self._connection.request("DELETE", _path_of(version), repeatable=False)


class StreamClient:
    """One stream of a service.

    >>> Client("http://127.0.0.1:8642").stream("shop").name  # nothing is asked of the service yet
    'shop'
    """

    def __init__(self, connection: ServiceConnection, name: str) -> None:
        self.name = name
        self._connection, self._path = connection, f"/v1/streams/{quote(name, safe='')}"

    def decide(
        self, rows: Row | Sequence[Row], *, ids: Id | Sequence[Id] | None = None, idempotency_key: str | None = None
    ) -> records.Decisions:
        """Decide one row or many, and update the prior with them.

        Parameters
        ----------
        rows
            A mapping by column name or a sequence of values; or a sequence of such rows.
        ids
            An id for every row, for its label to refer to; its number in the stream if None.
        idempotency_key
            Your own key for this request, to send it again after a crash of your process; random if None.
        """
        body: dict[str, Any] = {"rows": _as_many(rows)}
        if ids is not None:
            body["ids"] = [ids] if isinstance(ids, str | int) else list(ids)
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        return self._connection.record(records.Decisions, "POST", f"{self._path}/decisions", body, idempotency_key=key)

    def label(
        self,
        labels: Mapping[Any, Any],
        *,
        propensity: float | Mapping[Any, float] = 1.0,
        idempotency_key: str | None = None,
    ) -> records.LabelResult:
        """Send true labels, by id.

        Parameters
        ----------
        labels
            The true class by the id of a decision.
        propensity
            The probability with which each label was requested: one for all, or by id.
        idempotency_key
            As for `decide`.
        """
        by_id = propensity if isinstance(propensity, Mapping) else dict.fromkeys(labels, propensity)
        sent = [{"id": name, "label": label, "propensity": by_id[name]} for name, label in labels.items()]
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        body = {"labels": sent}
        return self._connection.record(records.LabelResult, "POST", f"{self._path}/labels", body, idempotency_key=key)

    def create(self, **settings: Any) -> records.StreamDetail:
        """Create the stream with settings (see docs/service.md); the same again changes nothing."""
        return self._connection.record(records.StreamDetail, "PUT", self._path, settings)

    def state(self) -> records.StreamDetail:
        """Return prior, credible interval, threshold, monitor and expected performance."""
        return self._connection.record(records.StreamDetail, "GET", self._path)

    def history(
        self, *, start: float | datetime | None = None, end: float | datetime | None = None, points: int = 300
    ) -> records.StreamHistory:
        """Return the stream over time, between two times."""
        query = {"start": _seconds(start), "end": _seconds(end), "points": points}
        return self._connection.record(records.StreamHistory, "GET", f"{self._path}/history", query=query)

    def shadow(self) -> records.ShadowComparison:
        """Return how the shadow model compares with the active one on this stream."""
        return self._connection.record(records.ShadowComparison, "GET", f"{self._path}/shadow")

    def set_policy(
        self, policy: str | Mapping[str, Any] | None = None, *, costs: Mapping[str, float] | None = None
    ) -> records.SettingsChange:
        """Set a policy ("f1", "precision:0.8", ...) or costs from the next row on."""
        if (policy is None) == (costs is None):
            raise InvalidInputError("set_policy needs a policy or costs, and not both")
        body: dict[str, Any] = {"policy": policy} if costs is None else {"costs": dict(costs)}
        return self._connection.record(records.SettingsChange, "PUT", f"{self._path}/settings", body, repeatable=False)

    def restart_monitor(self) -> records.StreamDetail:
        """Start a new monitoring run, without the evidence so far."""
        return self._connection.record(records.StreamDetail, "POST", f"{self._path}/monitor/restart", repeatable=False)

    def note(self, text: str = "", *, acknowledge: bool = False) -> records.StreamEvent:
        """Keep a note on the stream; it may acknowledge the alarm."""
        body = {"text": text, "acknowledge": acknowledge}
        return self._connection.record(records.StreamEvent, "POST", f"{self._path}/notes", body, repeatable=False)

    def decision(self, id: Id) -> records.StoredDecision:  # noqa: A002  # as in OnlineClassifier
        """Return a decision as it was made, and the labels that came for it."""
        path, query = self._at(id)
        return self._connection.record(records.StoredDecision, "GET", path, query=query)

    def log(self, *, after: int = 0) -> Iterator[records.LogEntry]:
        """Iterate over the log of the stream in order, from the event after number `after` on."""
        following: int | None = after
        while following is not None:
            query = {"after": following, "limit": PAGE_SIZE}
            page = self._connection.record(records.LogPage, "GET", f"{self._path}/log", query=query)
            yield from page.entries
            following = page.next

    def forget(self, id: Id) -> None:  # noqa: A002  # as in OnlineClassifier
        """Erase one decision."""
        path, query = self._at(id)
        self._connection.request("DELETE", path, query=query, repeatable=False)

    def delete(self) -> None:
        """Delete the stream."""
        self._connection.request("DELETE", self._path, repeatable=False)

    def _at(self, id: Id) -> tuple[str, dict[str, str]]:  # noqa: A002
        """Return the path and the query of a decision."""
        kind = "text" if isinstance(id, str) else "number"
        return f"{self._path}/decisions/{quote(str(id), safe='')}", {"type": kind}


def _as_many(rows: Any) -> list[Any]:
    plain = rows.tolist() if hasattr(rows, "tolist") else rows  # NumPy
    if isinstance(plain, Mapping):
        return [plain]
    if isinstance(plain, str) or not isinstance(plain, Sequence) or not plain:
        kind = type(rows).__name__
        raise InvalidInputError(f"rows must be one row or some (a DataFrame: frame.to_dict('records')), got {kind}")
    is_row = hasattr(plain[0], "__len__") and not isinstance(plain[0], str)  # of all cells, only strings have a length
    return list(plain) if is_row else [plain]


def _path_of(version: str) -> str:
    return f"/v1/models/{quote(version, safe='')}"


def _tar_of(folder: Path) -> bytes:
    """Return the files of a model folder as the service takes them."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name, recursive=False)
    return archive.getvalue()


def _seconds(time: float | datetime | None) -> float | None:
    return time.timestamp() if isinstance(time, datetime) else time
