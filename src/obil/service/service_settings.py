"""Set the service up from OBIL_SERVICE_... variables, with defaults that are safe on one machine."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class ServiceSettings(BaseSettings):
    """What an operator may set; a wrong value stops the service before it starts.

    >>> ServiceSettings(host="0.0.0.0").needs_keys
    True
    """

    model_config = SettingsConfigDict(env_prefix="OBIL_SERVICE_", extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(default=8642, ge=0, le=65_535)
    allowed_hosts: tuple[str, ...] = ()  # names this service is called by, besides loopback's and `host`
    require_keys: bool = False  # on loopback too; beyond it they are always required
    key_cache_seconds: float = Field(default=5.0, ge=0.0, le=300.0)  # how long a revoked key may still be taken

    max_body_bytes: int = Field(default=8_000_000, ge=1_000)
    max_rows: int = Field(default=50_000, ge=1)
    max_watchers: int = Field(default=64, ge=1)  # open event streams

    store: str = "sqlite:///obil.db"
    store_inputs: bool = False  # keep raw features beside the log ratios
    retain_days: float | None = Field(default=None, gt=0.0)
    memory_streams: int = Field(default=1_000, ge=1)  # streams kept in memory; idle ones leave it

    metric_streams: int = Field(default=200, ge=0)  # named in /metrics; the rest is counted as one
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def needs_keys(self) -> bool:
        """Whether a request must bring an API key."""
        return self.require_keys or self.host not in LOOPBACK

    @property
    def host_names(self) -> frozenset[str]:
        """The names under which this service answers, in small letters."""
        bound = set() if self.host in {"0.0.0.0", "::", ""} else {self.host}  # noqa: S104  # compared, not bound to
        return LOOPBACK | {name.lower() for name in {*self.allowed_hosts, *bound}}
