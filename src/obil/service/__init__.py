"""Serve a model over HTTP: many streams, durable, monitored, safe to expose.

`Client` and its errors need nothing but the standard library; the rest needs `obil[service]`.
"""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

if TYPE_CHECKING:
    from obil.service.client.client import Client as Client
    from obil.service.client.client import StreamClient as StreamClient
    from obil.service.client.connection import NotReachedError as NotReachedError
    from obil.service.client.connection import ServiceError as ServiceError
    from obil.service.running import open_service as open_service
    from obil.service.service_settings import ServiceSettings as ServiceSettings
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
