"""Read the settings of a stream: costs or a policy, the initial prior, the label horizon."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from obil.arrays import as_integer, shown
from obil.bayes.costs import Costs
from obil.online.decision_rule import DecisionRule, class_number
from obil.policies import CostPolicy, Policy
from obil.policies.notation import policy_from_json, policy_from_text
from obil.service.http.request_bodies import read_json
from obil.service.refusals import BadInputError, as_bad_input
from obil.service.streams.operations import StreamSettings, as_class
from obil.serving.ratio_model import RatioModel

_COSTS = ("false_positive", "false_negative", "true_positive", "true_negative")
LONGEST_HORIZON = 10_000_000


def settings_of_json(body: bytes, model: RatioModel) -> StreamSettings:
    """Return the settings of a new stream; an empty body or object takes the defaults."""
    request = _object(body or b"{}")
    _require_fields(request, {"policy", "costs", "tracker", "prior", "positive", "horizon", "unlabeled_as"})
    classes = model.classes_.tolist()
    positive, unlabeled_as, tracker = (request.get(name) for name in ("positive", "unlabeled_as", "tracker"))
    if positive is not None:
        positive = as_class(positive, classes, where="positive")
    if unlabeled_as is not None and unlabeled_as != "negative":
        unlabeled_as = as_class(unlabeled_as, classes, where="unlabeled_as")
    if tracker not in (None, "safe", "bank"):
        raise BadInputError(f'tracker must be "safe" or "bank", got {shown(tracker)}', where="tracker")
    horizon = request.get("horizon")
    if horizon is not None:
        with as_bad_input("horizon"):
            horizon = as_integer("horizon", horizon, 0, LONGEST_HORIZON)
    policy = _policy(request) if {"policy", "costs"} & request.keys() else None
    if policy is not None:
        with as_bad_input("policy"):
            DecisionRule(model, policy, class_number(positive, model))
    as_json = None if policy is None else policy.to_json()
    return StreamSettings(as_json, tracker, _prior(request.get("prior"), model), positive, horizon, unlabeled_as)


def policy_of_json(body: bytes) -> dict[str, Any]:
    """Return `Policy.to_json()` of `{"costs": ...}` or `{"policy": ...}`."""
    request = _object(body)
    _require_fields(request, {"policy", "costs"})
    return _policy(request).to_json()


def _object(body: bytes) -> dict[str, Any]:
    request = read_json(body)
    if type(request) is not dict:
        raise BadInputError(f"the body must be an object, got {shown(request)}")
    return request


def _require_fields(request: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(request.keys() - known)
    if unknown:
        raise BadInputError(
            f"field {unknown[0]!r:.80} is unknown: the body may have {', '.join(sorted(known))}", where=unknown[0][:128]
        )


def _policy(request: Mapping[str, Any]) -> Policy:
    costs, policy = request.get("costs"), request.get("policy")
    if (costs is None) == (policy is None):
        raise BadInputError("the body must have costs or a policy, and not both", where="policy")
    with as_bad_input("policy" if costs is None else "costs"):
        if costs is not None:
            return CostPolicy(_costs(costs))
        if type(policy) is str:
            return policy_from_text(policy)
        if type(policy) is dict:
            return policy_from_json(policy)
    raise BadInputError(
        f"policy must be a name such as 'f1' or an object with a name, got {shown(policy)}", where="policy"
    )


def _costs(costs: Any) -> Costs:
    if type(costs) is not dict or not {"false_positive", "false_negative"} <= costs.keys() <= set(_COSTS):
        raise BadInputError(
            "costs must have false_positive and false_negative, and may have true_positive and true_negative, "
            f"got {shown(costs, 80)}",
            where="costs",
        )
    for name, cost in costs.items():
        if type(cost) not in (int, float):
            raise BadInputError(f"{name} must be a number, got {shown(cost)}", where=f"costs.{name}")
    return Costs(**costs)


def _prior(prior: Any, model: RatioModel) -> Any:
    """Return an initial prior unchanged: a number for the second class, an array, or an object by class name."""
    if prior is None:
        return None
    names = [str(name) for name in model.classes_.tolist()]
    values = prior
    if type(prior) is dict:
        if set(prior) != set(names):
            raise BadInputError(
                f"prior must have the classes {names!r:.200}, got {sorted(prior)!r:.120}", where="prior"
            )
        values = [prior[name] for name in names]
    cells = values if type(values) is list else [values]
    if not all(type(cell) in (int, float) for cell in cells):
        raise BadInputError(f"prior must consist of numbers, got {shown(prior, 80)}", where="prior")
    with as_bad_input("prior", OverflowError):
        found = model.as_prior(values)
    if not np.all(found > 0.0):
        raise BadInputError(f"prior must be above 0 for every class, got {shown(prior, 80)}", where="prior")
    return prior
