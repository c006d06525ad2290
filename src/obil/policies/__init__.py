"""Choose the threshold from the current prior and held-out rows: all policies behind one protocol."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
