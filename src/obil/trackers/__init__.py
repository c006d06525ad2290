"""Track the class prior of a stream: one tracker per module, behind one protocol."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
