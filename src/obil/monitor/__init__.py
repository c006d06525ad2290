"""Monitor a stream: can any class prior explain it, or is something else changing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
