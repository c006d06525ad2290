"""Track the class prior of a stream: one tracker per module, behind one protocol."""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

if TYPE_CHECKING:
    from obil.trackers.algorithm2 import Algorithm2 as Algorithm2
    from obil.trackers.bayes_bank import BayesBank as BayesBank
    from obil.trackers.bbse import BBSE as BBSE
    from obil.trackers.fixed_prior import FixedPrior as FixedPrior
    from obil.trackers.grid_filter import GridFilter as GridFilter
    from obil.trackers.online_em import OnlineEM as OnlineEM
    from obil.trackers.safe_tracker import SafeTracker as SafeTracker
    from obil.trackers.tracker import LearnsFromLabels as LearnsFromLabels
    from obil.trackers.tracker import PriorTracker as PriorTracker
    from obil.trackers.view_reference import ViewReference as ViewReference
    from obil.trackers.window_em import WindowEM as WindowEM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
