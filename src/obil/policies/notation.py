"""Read a policy back from JSON, or from its name on the command line."""

from collections.abc import Mapping
from typing import Any

from obil import policies
from obil.bayes.costs import EQUAL_COSTS, Costs
from obil.errors import InvalidInputError
from obil.policies.policy import Policy

# name -> its class, imported when it is asked for, and its one setting
_SETTING = {
    "fbeta": ("FBetaPolicy", "beta"),
    "recall": ("RecallFloor", "recall"),
    "precision": ("PrecisionFloor", "precision"),
    "budget": ("AlertBudget", "rate"),
}
_NAMES = sorted([*_SETTING, "cost", "gmean"])

TEXT_CHOICES = "cost, f1, fbeta:2, gmean, recall:0.9, precision:0.8, budget:0.01"


def policy_from_json(record: Mapping[str, Any]) -> Policy:
    """Return the policy that wrote `record` with its `to_json`.

    >>> policy_from_json({"name": "recall", "recall": 0.9})
    RecallFloor(recall=0.9)
    """
    if not isinstance(record, Mapping):
        raise InvalidInputError(f"a policy must be a mapping with a name, got {record!r:.40}")
    settings = dict(record)
    name = settings.pop("name", None)
    if not isinstance(name, str) or name not in _NAMES:
        raise InvalidInputError(f"a policy must be named one of {', '.join(_NAMES)}, got {name!r:.40}")
    if name == "cost":
        return policies.CostPolicy.from_json(settings)
    class_name, setting = _SETTING.get(name, ("GMeanPolicy", None))
    expected = [] if setting is None else [setting]
    if list(settings) != expected:
        raise InvalidInputError(f"the policy {name!r} must hold the settings {expected}, got {list(settings)!r:.80}")
    policy: Policy = getattr(policies, class_name)(**settings)
    return policy


def policy_from_text(text: str, *, costs: Costs = EQUAL_COSTS) -> Policy:
    """Return the policy that a text such as "f1" or "precision:0.8" names; "cost" takes `costs`.

    >>> policy_from_text("f1")
    FBetaPolicy(beta=1.0)
    >>> policy_from_text("budget:0.01")
    AlertBudget(rate=0.01)
    """
    name, colon, value = text.strip().lower().partition(":")
    if not colon:
        if name == "cost":
            return policies.CostPolicy(costs)
        if name in ("f1", "gmean"):
            return policies.FBetaPolicy() if name == "f1" else policies.GMeanPolicy()
        if name in _SETTING:
            raise InvalidInputError(
                f"the policy {name!r} needs a number after a colon: {TEXT_CHOICES}; got {text!r:.40}"
            )
    if name not in _SETTING:
        raise InvalidInputError(f"a policy must be one of {TEXT_CHOICES}; got {text!r:.40}")
    try:
        number = float(value)
    except ValueError:
        raise InvalidInputError(f"a number must follow the colon: {TEXT_CHOICES}; got {text!r:.40}") from None
    return policy_from_json({"name": name, _SETTING[name][1]: number})
