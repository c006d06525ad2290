from .cost_policy import CostPolicy as CostPolicy
from .curve_policies import AlertBudget as AlertBudget
from .curve_policies import FBetaPolicy as FBetaPolicy
from .curve_policies import GMeanPolicy as GMeanPolicy
from .curve_policies import PrecisionFloor as PrecisionFloor
from .curve_policies import RecallFloor as RecallFloor
from .policy import BoundPolicy as BoundPolicy
from .policy import Policy as Policy
