"""Read the settings of the service from OBIL_SERVICE_... variables, with defaults that are safe on one machine."""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from obil.errors import InvalidInputError

PREFIX = "OBIL_SERVICE_"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class ServiceSettings(BaseSettings):
    """The settings of an operator; a wrong value stops the service before it starts.

    >>> ServiceSettings(host="0.0.0.0").needs_keys
    True
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    def __init__(self, **values: Any) -> None:
        _refuse_unknown(os.environ)
        super().__init__(**values)

    host: str = "127.0.0.1"
    port: int = Field(default=8642, ge=0, le=65_535)
    allowed_hosts: tuple[str, ...] = ()  # host names of this service, besides loopback's and `host`
    require_keys: bool = False  # on loopback too; beyond it they are always required
    key_cache_seconds: float = Field(default=5.0, ge=0.0, le=300.0)  # how long a revoked key may still be accepted

    max_body_bytes: int = Field(default=8_000_000, ge=1_000)
    max_rows: int = Field(default=50_000, ge=1)
    body_memory_bytes: int = Field(default=64_000_000, ge=1_000)  # of the large bodies in progress together
    max_connections: int = Field(default=1_000, ge=10)
    max_requests: int = Field(default=500, ge=1)  # in progress at the same time
    max_requests_per_key: int = Field(default=250, ge=1)
    header_seconds: float = Field(default=10.0, gt=0.0)  # for the head of a request to arrive
    body_seconds: float = Field(default=30.0, gt=0.0)
    response_seconds: float = Field(default=30.0, gt=0.0)  # for a client to resume reading its response
    max_subscribers: int = Field(default=64, ge=1)  # open event streams

    upload_bytes: int | None = Field(default=None, ge=1)  # of a model that is uploaded; None: none can be
    upload_seconds: float = Field(default=120.0, gt=0.0)  # for it to arrive

    store: str = "sqlite:///obil.db"
    secret_file: Path | None = None  # of the store's digests; None: beside an SQLite file, or obil.secret
    store_inputs: bool = False  # store raw features beside the log ratios
    retain_days: float | None = Field(default=None, gt=0.0)
    memory_streams: int = Field(default=10_000, ge=1)  # most streams in memory; idle ones leave it

    metric_streams: int = Field(default=200, ge=0)  # named in /metrics; the others are counted together
    tracing: str = "off"  # the OpenTelemetry exporter that spans go to; needs obil[otel]
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def needs_keys(self) -> bool:
        """Whether a request must bring an API key."""
        return self.require_keys or self.host not in LOOPBACK

    @property
    def keys_in_clear(self) -> bool:
        """Whether keys are sent over a network without TLS, unless a proxy on the way adds it."""
        return self.host not in LOOPBACK

    @property
    def host_names(self) -> frozenset[str]:
        """The host names of this service, in lower case."""
        bound = set() if self.host in {"0.0.0.0", "::", ""} else {self.host}  # noqa: S104  # compared, not bound to
        return LOOPBACK | {name.lower() for name in {*self.allowed_hosts, *bound}}


def _refuse_unknown(variables: Iterable[str]) -> None:
    """Refuse a variable that looks like a setting and is none: it would be ignored without a warning."""
    known = [f"{PREFIX}{name.upper()}" for name in ServiceSettings.model_fields]
    unknown = sorted(name for name in variables if name.upper().startswith(PREFIX) and name.upper() not in known)
    if unknown:
        near = get_close_matches(unknown[0].upper(), known, n=1)
        remedy = f"did you mean {near[0]}?" if near else "unset it (the settings are in docs/service.md)"
        raise InvalidInputError(f"the environment has {unknown[0]!r:.80}, which is no setting of the service: {remedy}")
