from .client.client import Client as Client
from .client.client import StreamClient as StreamClient
from .client.connection import NotReachedError as NotReachedError
from .client.connection import ServiceError as ServiceError
from .running import open_service as open_service
from .service_settings import ServiceSettings as ServiceSettings
