"""Classifiers that stay right when the class balance changes.

Names are loaded when they are first used, so that `import obil` and `obil --help` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obil.bayes.costs import Costs as Costs
    from obil.prior import BBSE as BBSE
    from obil.prior import Algorithm2 as Algorithm2
    from obil.prior import BayesBank as BayesBank
    from obil.prior import FixedPrior as FixedPrior
    from obil.prior import GridFilter as GridFilter
    from obil.prior import OnlineEM as OnlineEM
    from obil.prior import WindowEM as WindowEM

__version__ = "0.1.0"

_HOMES = {
    "BBSE": "obil.prior",
    "Algorithm2": "obil.prior",
    "BayesBank": "obil.prior",
    "Costs": "obil.bayes.costs",
    "FixedPrior": "obil.prior",
    "GridFilter": "obil.prior",
    "OnlineEM": "obil.prior",
    "WindowEM": "obil.prior",
}

__all__ = ["BBSE", "Algorithm2", "BayesBank", "Costs", "FixedPrior", "GridFilter", "OnlineEM", "WindowEM"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'obil' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
