"""Classifiers that stay right when the class prior changes.

The public interface is what this package and `obil.trackers`, `obil.policies`, `obil.monitor`, `obil.networks`,
`obil.datasets`, `obil.service` and `obil.spark` list in `__all__`. Every other module is private: it may change at any
time. Names are loaded when they are first used, so that `import obil` and `obil --help` stay fast.
"""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from obil import datasets as datasets
    from obil import monitor as monitor
    from obil import networks as networks
    from obil import policies as policies
    from obil import service as service
    from obil import spark as spark
    from obil import trackers as trackers
    from obil.bayes.costs import Costs as Costs
    from obil.calibration.gate import Gate as Gate
    from obil.calibration.verdict import Verdict as Verdict
    from obil.errors import ConcurrentUseError as ConcurrentUseError
    from obil.errors import EstimationError as EstimationError
    from obil.errors import InvalidInputError as InvalidInputError
    from obil.errors import InvalidStateError as InvalidStateError
    from obil.errors import ModelFileError as ModelFileError
    from obil.errors import NotStartedError as NotStartedError
    from obil.errors import ObilError as ObilError
    from obil.estimators.obil_classifier import OBILClassifier as OBILClassifier
    from obil.estimators.ratio_classifier import RatioClassifier as RatioClassifier
    from obil.evaluation.backtest import backtest as backtest
    from obil.evaluation.backtest_result import Backtest as Backtest
    from obil.evaluation.verify import Verification as Verification
    from obil.evaluation.verify import verify as verify
    from obil.online.decision import Decision as Decision
    from obil.online.decision import Decisions as Decisions
    from obil.online.estimate_prior import estimate_prior as estimate_prior
    from obil.online.files import load as load
    from obil.online.files import save as save
    from obil.online.online_classifier import OnlineClassifier as OnlineClassifier
    from obil.online.reports.explain import ChangeReport as ChangeReport
    from obil.online.reports.performance_report import PerformanceReport as PerformanceReport
    from obil.serving.holdout import Holdout as Holdout
    from obil.serving.ratio_model import RatioModel as RatioModel
    from obil.serving.ratio_model import Scores as Scores
    from obil.trackers.evidence import PriorEstimate as PriorEstimate
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
