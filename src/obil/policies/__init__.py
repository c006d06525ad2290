"""Choose the threshold from the current prior and held-out rows: all policies behind one protocol."""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

if TYPE_CHECKING:
    from obil.policies.cost_policy import CostPolicy as CostPolicy
    from obil.policies.curve_policies import AlertBudget as AlertBudget
    from obil.policies.curve_policies import FBetaPolicy as FBetaPolicy
    from obil.policies.curve_policies import GMeanPolicy as GMeanPolicy
    from obil.policies.curve_policies import PrecisionFloor as PrecisionFloor
    from obil.policies.curve_policies import RecallFloor as RecallFloor
    from obil.policies.policy import BoundPolicy as BoundPolicy
    from obil.policies.policy import Policy as Policy
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
