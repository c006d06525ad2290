"""Choose the threshold from the current prior and held-out rows: one policy per module, behind one protocol."""

from typing import TYPE_CHECKING

from obil.lazy import lazy_names

if TYPE_CHECKING:
    from obil.policies.alert_budget import AlertBudget as AlertBudget
    from obil.policies.cost_policy import CostPolicy as CostPolicy
    from obil.policies.fbeta_policy import FBetaPolicy as FBetaPolicy
    from obil.policies.gmean_policy import GMeanPolicy as GMeanPolicy
    from obil.policies.policy import BoundPolicy as BoundPolicy
    from obil.policies.policy import Policy as Policy
    from obil.policies.precision_floor import PrecisionFloor as PrecisionFloor
    from obil.policies.recall_floor import RecallFloor as RecallFloor
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "alert_budget": "AlertBudget",
            "cost_policy": "CostPolicy",
            "fbeta_policy": "FBetaPolicy",
            "gmean_policy": "GMeanPolicy",
            "policy": "BoundPolicy Policy",
            "precision_floor": "PrecisionFloor",
            "recall_floor": "RecallFloor",
        },
    )
