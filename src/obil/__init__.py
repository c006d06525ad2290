"""Classifiers that stay right when the class prior changes.

The public interface is what this package and `obil.trackers`, `obil.policies`, `obil.monitor`, `obil.networks`,
`obil.datasets`, `obil.service`, `obil.spark`, `obil.sql`, `obil.mlflow`, `obil.river`, `obil.kafka` and
`obil.onnx` list in `__all__`. Every other module is private: it may change at any time. Names are loaded when they are
first used, so that `import obil` and `obil --help` stay fast.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
