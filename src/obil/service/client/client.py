"""Call the service from Python with nothing but the standard library: typed answers, retries that vote once."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from obil.errors import InvalidInputError
from obil.service.client.answers import (
    Decided,
    Decision,
    Id,
    Labelled,
    ModelCard,
    SettingsChange,
    StreamHistory,
    StreamState,
    StreamSummary,
    read,
)
from obil.service.client.connection import NotReachedError, ServiceConnection, ServiceError

__all__ = [
    "Client",
    "Decided",
    "Decision",
    "Labelled",
    "ModelCard",
    "NotReachedError",
    "ServiceError",
    "SettingsChange",
    "StreamClient",
    "StreamHistory",
    "StreamState",
    "StreamSummary",
]

Row = Mapping[str, Any] | Sequence[Any]
PAGE = 1_000  # streams asked for at once


class Client:
    """A service, at an address, with a key.

    Lost connections and answers of status 503 are tried again. Rows and labels carry an idempotency key, so that they
    count once, however often they had to be sent.

    Parameters
    ----------
    url
        Where the service is, such as http://127.0.0.1:8642.
    key
        The API key, where one is needed.
    timeout
        Seconds to wait for an answer.
    retries
        How often a request that failed is sent again, at most.

    >>> Client("http://127.0.0.1:8642").stream("shop").name
    'shop'
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 30.0, retries: int = 4) -> None:
        self._connection = ServiceConnection(url, key, timeout=timeout, retries=retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def stream(self, name: str) -> "StreamClient":
        """Return a stream by its name; nothing is asked of the service yet."""
        return StreamClient(self._connection, name)

    def streams(self, *, search: str | None = None, alarmed: bool = False) -> Iterator[StreamSummary]:
        """Go through all streams, or those whose name has a part or whose monitor has alarmed, by name."""
        after: str | None = None
        while True:
            query = {"after": after, "limit": PAGE, "search": search, "alarmed": "true" if alarmed else None}
            page = self._connection.ask("GET", "/v1/streams", query=query)
            yield from (read(StreamSummary, one) for one in page["streams"])
            after = page["next"]
            if after is None:
                return

    def model(self) -> ModelCard:
        """Return the model that serves."""
        return read(ModelCard, self._connection.ask("GET", "/v1/model"))

    def reload_model(self) -> ModelCard:
        """Let the service read its model folder again."""
        return read(ModelCard, self._connection.ask("POST", "/v1/model/reload"))


class StreamClient:
    """One stream of a service.

    >>> Client("http://127.0.0.1:8642").stream("shop").name  # nothing is asked of the service yet
    'shop'
    """

    def __init__(self, connection: ServiceConnection, name: str) -> None:
        self.name = name
        self._connection, self._path = connection, f"/v1/streams/{quote(name, safe='')}"

    def decide(
        self,
        rows: Row | Sequence[Row],
        *,
        ids: Id | Sequence[Id] | None = None,
        idempotency_key: str | None = None,
    ) -> Decided:
        """Decide one row or many, and let them vote.

        Parameters
        ----------
        rows
            A mapping by column or a flat sequence of cells; or a sequence of such rows.
        ids
            A name for every row, by which labels will call it; its number in the stream if None.
        idempotency_key
            A name of your own for this request, to send it again after your process has died; made up if None.
        """
        body: dict[str, Any] = {"rows": _as_many(rows)}
        if ids is not None:
            body["ids"] = [ids] if isinstance(ids, str | int) else list(ids)
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        return Decided.of(self._connection.ask("POST", f"{self._path}/decisions", body, idempotency_key=key))

    def label(
        self,
        labels: Mapping[Any, Any],
        *,
        propensity: float | Mapping[Any, float] = 1.0,
        idempotency_key: str | None = None,
    ) -> Labelled:
        """Tell true labels, by id.

        Parameters
        ----------
        labels
            The true class by the id of a decision.
        propensity
            With which probability each label was asked for: one for all, or by id.
        idempotency_key
            As for `decide`.
        """
        by_id = propensity if isinstance(propensity, Mapping) else dict.fromkeys(labels, propensity)
        records = [{"id": name, "label": label, "propensity": by_id[name]} for name, label in labels.items()]
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        body = {"labels": records}
        return read(Labelled, self._connection.ask("POST", f"{self._path}/labels", body, idempotency_key=key))

    def create(self, **settings: Any) -> StreamState:
        """Make the stream in advance; see docs/service.md for the settings. The same again changes nothing."""
        return StreamState.of(self._connection.ask("PUT", self._path, settings))

    def state(self) -> StreamState:
        """Return prior, interval, threshold, trust and expected performance."""
        return StreamState.of(self._connection.ask("GET", self._path))

    def history(
        self, *, start: float | datetime | None = None, end: float | datetime | None = None, points: int = 300
    ) -> StreamHistory:
        """Return the stream over time, between two moments."""
        query = {"start": _seconds(start), "end": _seconds(end), "points": points}
        return read(StreamHistory, self._connection.ask("GET", f"{self._path}/history", query=query))

    def set_policy(
        self, policy: str | Mapping[str, Any] | None = None, *, costs: Mapping[str, float] | None = None
    ) -> SettingsChange:
        """Set a policy ("f1", "precision:0.8", ...) or costs from the next row on."""
        if (policy is None) == (costs is None):
            raise InvalidInputError("give a policy or costs, and not both")
        body: dict[str, Any] = {"policy": policy} if costs is None else {"costs": dict(costs)}
        return read(SettingsChange, self._connection.ask("PUT", f"{self._path}/settings", body, repeatable=False))

    def restart_monitor(self) -> StreamState:
        """Forget the evidence against label shift, and watch afresh."""
        return StreamState.of(self._connection.ask("POST", f"{self._path}/monitor/restart", repeatable=False))

    def forget(self, id: Id) -> None:  # noqa: A002  # the word users know
        """Erase what is kept of one decision."""
        kind = "text" if isinstance(id, str) else "number"
        path = f"{self._path}/decisions/{quote(str(id), safe='')}"
        self._connection.ask("DELETE", path, query={"type": kind}, repeatable=False)

    def delete(self) -> None:
        """Erase the whole stream."""
        self._connection.ask("DELETE", self._path, repeatable=False)


def _as_many(rows: Any) -> list[Any]:
    plain = rows.tolist() if hasattr(rows, "tolist") else rows  # numpy's
    if isinstance(plain, Mapping):
        return [plain]
    if isinstance(plain, str) or not isinstance(plain, Sequence) or not plain:
        raise InvalidInputError("rows must be one row or a sequence of rows (of a table: frame.to_dict('records'))")
    has_cells = hasattr(plain[0], "__len__") and not isinstance(plain[0], str)  # a cell has no length, but for a word
    return list(plain) if has_cells else [plain]


def _seconds(moment: float | datetime | None) -> float | None:
    return moment.timestamp() if isinstance(moment, datetime) else moment
