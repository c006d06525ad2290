"""Policies: from the prior, and held-out rows, to a threshold; one a file, behind one protocol."""

from obil.policies.alert_budget import AlertBudget
from obil.policies.cost_policy import CostPolicy
from obil.policies.fbeta_policy import FBetaPolicy
from obil.policies.gmean_policy import GMeanPolicy
from obil.policies.notation import TEXT_CHOICES, policy_from_json, policy_from_text
from obil.policies.one_against_rest import one_against_rest
from obil.policies.operating_curve import OperatingCurve
from obil.policies.policy import BoundPolicy, Policy
from obil.policies.precision_floor import PrecisionFloor
from obil.policies.recall_floor import RecallFloor

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
