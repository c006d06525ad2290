"""Classifiers that stay right when the class balance changes.

Names are loaded when they are first used, so that `import obil` and `obil --help` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obil.bayes.costs import Costs as Costs
    from obil.estimators.obil_classifier import OBILClassifier as OBILClassifier
    from obil.estimators.ratio_classifier import RatioClassifier as RatioClassifier
    from obil.evaluate.backtest import backtest as backtest
    from obil.evaluate.verify import verify as verify
    from obil.model.files import load as load
    from obil.model.files import save as save
    from obil.monitor import LabelShiftMonitor as LabelShiftMonitor
    from obil.policy import AlertBudget as AlertBudget
    from obil.policy import CostPolicy as CostPolicy
    from obil.policy import FBetaPolicy as FBetaPolicy
    from obil.policy import GMeanPolicy as GMeanPolicy
    from obil.policy import PrecisionFloor as PrecisionFloor
    from obil.policy import RecallFloor as RecallFloor
    from obil.prior import BBSE as BBSE
    from obil.prior import Algorithm2 as Algorithm2
    from obil.prior import BayesBank as BayesBank
    from obil.prior import FixedPrior as FixedPrior
    from obil.prior import GridFilter as GridFilter
    from obil.prior import OnlineEM as OnlineEM
    from obil.prior import SafeTracker as SafeTracker
    from obil.prior import WindowEM as WindowEM
    from obil.stream.online_classifier import OnlineClassifier as OnlineClassifier
    from obil.stream.prevalence import estimate_prior as estimate_prior

__version__ = "0.1.0"

_HOMES = {
    "BBSE": "obil.prior",
    "AlertBudget": "obil.policy",
    "Algorithm2": "obil.prior",
    "BayesBank": "obil.prior",
    "CostPolicy": "obil.policy",
    "Costs": "obil.bayes.costs",
    "FBetaPolicy": "obil.policy",
    "FixedPrior": "obil.prior",
    "GMeanPolicy": "obil.policy",
    "GridFilter": "obil.prior",
    "LabelShiftMonitor": "obil.monitor",
    "OBILClassifier": "obil.estimators.obil_classifier",
    "OnlineClassifier": "obil.stream.online_classifier",
    "OnlineEM": "obil.prior",
    "PrecisionFloor": "obil.policy",
    "RatioClassifier": "obil.estimators.ratio_classifier",
    "RecallFloor": "obil.policy",
    "SafeTracker": "obil.prior",
    "WindowEM": "obil.prior",
    "backtest": "obil.evaluate.backtest",
    "estimate_prior": "obil.stream.prevalence",
    "load": "obil.model.files",
    "save": "obil.model.files",
    "verify": "obil.evaluate.verify",
}

__all__ = [
    "BBSE",
    "AlertBudget",
    "Algorithm2",
    "BayesBank",
    "CostPolicy",
    "Costs",
    "FBetaPolicy",
    "FixedPrior",
    "GMeanPolicy",
    "GridFilter",
    "LabelShiftMonitor",
    "OBILClassifier",
    "OnlineClassifier",
    "OnlineEM",
    "PrecisionFloor",
    "RatioClassifier",
    "RecallFloor",
    "SafeTracker",
    "WindowEM",
    "backtest",
    "estimate_prior",
    "load",
    "save",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'obil' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
