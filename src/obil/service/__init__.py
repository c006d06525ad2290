"""Serve a model over HTTP: many streams, durable, monitored, safe to expose.

`Client` and its errors need nothing but the standard library; the rest needs `obil[service]`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
