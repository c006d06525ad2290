"""Data to try things on: named sets, splits, prior paths, simulated streams."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
