"""Networks that estimate posteriors: architectures, training, losses whose minimiser is the posterior.

Naming the settings needs no torch; using an architecture or a loss does.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
