"""Read a policy back from JSON, or from a word on the command line."""

from collections.abc import Callable, Mapping
from typing import Any

from obil.bayes.costs import EQUAL_COSTS, Costs
from obil.errors import InvalidInputError
from obil.policies.alert_budget import AlertBudget
from obil.policies.cost_policy import CostPolicy
from obil.policies.fbeta_policy import FBetaPolicy
from obil.policies.gmean_policy import GMeanPolicy
from obil.policies.policy import Policy
from obil.policies.precision_floor import PrecisionFloor
from obil.policies.recall_floor import RecallFloor

# name -> its one setting, if it has one, and how to build it
_SETTING: dict[str, tuple[str, Callable[..., Policy]]] = {
    FBetaPolicy.name: ("beta", FBetaPolicy),
    RecallFloor.name: ("recall", RecallFloor),
    PrecisionFloor.name: ("precision", PrecisionFloor),
    AlertBudget.name: ("rate", AlertBudget),
}
_NAMES = sorted([*_SETTING, CostPolicy.name, GMeanPolicy.name])

TEXT_CHOICES = "cost, f1, fbeta:2, gmean, recall:0.9, precision:0.8, budget:0.01"


def policy_from_json(record: Mapping[str, Any]) -> Policy:
    """Return the policy that wrote `record` with its `to_json`.

    >>> policy_from_json({"name": "recall", "recall": 0.9})
    RecallFloor(recall=0.9)
    """
    if not isinstance(record, Mapping):
        raise InvalidInputError(f"a policy is written as an object with a name, got {record!r:.40}")
    settings = dict(record)
    name = settings.pop("name", None)
    if not isinstance(name, str) or name not in _NAMES:
        raise InvalidInputError(f"a policy is named one of {', '.join(_NAMES)}, got {name!r:.40}")
    if name == CostPolicy.name:
        return CostPolicy.from_json(settings)
    expected = [_SETTING[name][0]] if name in _SETTING else []
    if list(settings) != expected:
        raise InvalidInputError(f"the policy {name!r} holds the settings {expected}, got {list(settings)!r:.80}")
    return _SETTING[name][1](**settings) if expected else GMeanPolicy()


def policy_from_text(text: str, *, costs: Costs = EQUAL_COSTS) -> Policy:
    """Return the policy that a word such as "f1" or "precision:0.8" names; "cost" takes `costs`.

    >>> policy_from_text("f1")
    FBetaPolicy(beta=1.0)
    >>> policy_from_text("budget:0.01")
    AlertBudget(rate=0.01)
    """
    name, colon, value = text.strip().lower().partition(":")
    if not colon:
        plain: dict[str, Policy] = {"cost": CostPolicy(costs), "f1": FBetaPolicy(), "gmean": GMeanPolicy()}
        if name in plain:
            return plain[name]
        if name in _SETTING:
            raise InvalidInputError(
                f"the policy {name!r} needs a number after a colon: {TEXT_CHOICES}; got {text!r:.40}"
            )
    if name not in _SETTING:
        raise InvalidInputError(f"a policy is one of {TEXT_CHOICES}; got {text!r:.40}")
    try:
        number = float(value)
    except ValueError:
        raise InvalidInputError(f"after the colon comes a number: {TEXT_CHOICES}; got {text!r:.40}") from None
    return _SETTING[name][1](number)
