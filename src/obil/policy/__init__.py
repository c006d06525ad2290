"""Policies: from the prior, and held-out rows, to a threshold; one a file, behind one protocol."""

from obil.policy.alert_budget import AlertBudget
from obil.policy.cost_policy import CostPolicy
from obil.policy.fbeta_policy import FBetaPolicy
from obil.policy.gmean_policy import GMeanPolicy
from obil.policy.notation import TEXT_CHOICES, policy_from_json, policy_from_text
from obil.policy.one_against_rest import one_against_rest
from obil.policy.operating_curve import OperatingCurve
from obil.policy.policy import BoundPolicy, Policy
from obil.policy.precision_floor import PrecisionFloor
from obil.policy.recall_floor import RecallFloor

__all__ = [
    "TEXT_CHOICES",
    "AlertBudget",
    "BoundPolicy",
    "CostPolicy",
    "FBetaPolicy",
    "GMeanPolicy",
    "OperatingCurve",
    "Policy",
    "PrecisionFloor",
    "RecallFloor",
    "one_against_rest",
    "policy_from_json",
    "policy_from_text",
]
