"""Classifiers that stay right when the class balance changes.

Names are loaded when they are first used, so that `import obil` and `obil --help` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obil.bayes.costs import Costs as Costs
    from obil.estimators.obil_classifier import OBILClassifier as OBILClassifier
    from obil.estimators.ratio_classifier import RatioClassifier as RatioClassifier
    from obil.evaluation.backtest import backtest as backtest
    from obil.evaluation.verify import verify as verify
    from obil.monitor import LabelShiftMonitor as LabelShiftMonitor
    from obil.online.estimate_prior import estimate_prior as estimate_prior
    from obil.online.online_classifier import OnlineClassifier as OnlineClassifier
    from obil.policies import AlertBudget as AlertBudget
    from obil.policies import CostPolicy as CostPolicy
    from obil.policies import FBetaPolicy as FBetaPolicy
    from obil.policies import GMeanPolicy as GMeanPolicy
    from obil.policies import PrecisionFloor as PrecisionFloor
    from obil.policies import RecallFloor as RecallFloor
    from obil.serving.files import load as load
    from obil.serving.files import save as save
    from obil.trackers import BBSE as BBSE
    from obil.trackers import Algorithm2 as Algorithm2
    from obil.trackers import BayesBank as BayesBank
    from obil.trackers import FixedPrior as FixedPrior
    from obil.trackers import GridFilter as GridFilter
    from obil.trackers import OnlineEM as OnlineEM
    from obil.trackers import SafeTracker as SafeTracker
    from obil.trackers import WindowEM as WindowEM

__version__ = "0.1.0"

_HOMES = {
    "BBSE": "obil.trackers",
    "AlertBudget": "obil.policies",
    "Algorithm2": "obil.trackers",
    "BayesBank": "obil.trackers",
    "CostPolicy": "obil.policies",
    "Costs": "obil.bayes.costs",
    "FBetaPolicy": "obil.policies",
    "FixedPrior": "obil.trackers",
    "GMeanPolicy": "obil.policies",
    "GridFilter": "obil.trackers",
    "LabelShiftMonitor": "obil.monitor",
    "OBILClassifier": "obil.estimators.obil_classifier",
    "OnlineClassifier": "obil.online.online_classifier",
    "OnlineEM": "obil.trackers",
    "PrecisionFloor": "obil.policies",
    "RatioClassifier": "obil.estimators.ratio_classifier",
    "RecallFloor": "obil.policies",
    "SafeTracker": "obil.trackers",
    "WindowEM": "obil.trackers",
    "backtest": "obil.evaluation.backtest",
    "estimate_prior": "obil.online.estimate_prior",
    "load": "obil.serving.files",
    "save": "obil.serving.files",
    "verify": "obil.evaluation.verify",
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
