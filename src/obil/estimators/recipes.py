"""The ensembles by name: which members, on which problems, fused how."""

import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from obil.errors import InvalidInputError
from obil.networks.settings import PAPER_TRAINING, ModuleKind, NetworkKind, Training

FUSIONS = ("mean", "dropout", "stacked")


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorKind:
    """A scikit-learn classifier."""

    estimator: Any


Kind = NetworkKind | ModuleKind | EstimatorKind


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """Kinds of members with the settings that suit them; each can be overridden by the classifier's own."""

    kinds: tuple[Kind, ...]  # each is fitted on every associated problem
    whole: tuple[Kind, ...] = ()  # each is fitted once, on all rows at their own class prior
    loss: str = "cross_entropy"
    fusion: str = "mean"
    cv: float = 0.2  # a number of folds to cross-fit, or the fraction of rows held out to calibrate
    rebalances: bool = True  # False: where no ratios are given, every problem has the class prior of the rows


def recipe_of(member: Any) -> Recipe:
    """Return the recipe that `member` means: a name, a classifier, a torch module, or several of them.

    >>> recipe_of("paper").loss
    'squared_error'
    """
    if isinstance(member, str):
        if member not in RECIPES:
            raise InvalidInputError(f"member must be one of {', '.join(RECIPES)}, or a model, got {member!r:.40}")
        return RECIPES[member]
    if isinstance(member, Sequence):
        if not member:
            raise InvalidInputError("member must name at least one kind of member, got an empty list")
        parts = [recipe_of(one) for one in member]
        return parts[0] if len(parts) == 1 else _mixed(parts)
    if isinstance(member, NetworkKind | ModuleKind):
        return Recipe((member,), fusion="dropout" if isinstance(member, NetworkKind) and member.dropout else "mean")
    if _is_module(member):
        return Recipe((ModuleKind(partial(copy.deepcopy, member)),))
    if hasattr(member, "fit") and hasattr(member, "get_params"):
        return Recipe((EstimatorKind(member),), cv=5)
    raise InvalidInputError(
        f"member must be a name ({', '.join(RECIPES)}), a scikit-learn classifier, a torch module or a list of them, "
        f"got {member!r:.60}"
    )


def _mixed(parts: list[Recipe]) -> Recipe:
    """Return the recipe of several: networks that want different losses cannot share one ensemble's."""
    kinds = tuple(kind for part in parts for kind in part.kinds)
    losses = {part.loss for part in parts if not all(isinstance(kind, EstimatorKind) for kind in part.kinds)}
    if len(losses) > 1:
        raise InvalidInputError(f"members of a list must agree on the loss, got {sorted(losses)}: give loss=")
    return Recipe(
        kinds=kinds,
        whole=tuple(kind for part in parts for kind in part.whole),
        loss=losses.pop() if losses else "cross_entropy",
        fusion="stacked",
        cv=0.2 if any(isinstance(kind, ModuleKind) for kind in kinds) else 5,
        rebalances=all(part.rebalances for part in parts),
    )


def _is_module(member: Any) -> bool:
    torch = sys.modules.get("torch")  # a module exists only where torch was imported
    return torch is not None and isinstance(member, torch.nn.Module)


# chosen on splits of the paper's sets other than those reported: see docs/choosing.md
NETWORK = NetworkKind()
PAPER = NetworkKind(hidden=(128, 64, 32), dropout=0.2, inputs="standard", skip=False, training=PAPER_TRAINING)
# where classes are nearly normal a linear model is hard to beat, and it extrapolates
LINE = NetworkKind(hidden=(), dropout=0.0, inputs="smooth", skip=False, training=Training(learning_rate=0.02))
BOOSTER = EstimatorKind(
    HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=100, l2_regularization=1.0, max_features=0.5, early_stopping=False
    )
)
FOREST = EstimatorKind(RandomForestClassifier(300))
TREES = (BOOSTER, BOOSTER, BOOSTER, BOOSTER, FOREST)
RECIPES = {
    "tabular": Recipe((NETWORK,), (LINE, *TREES), fusion="stacked", cv=5, rebalances=False),
    "mlp": Recipe((NETWORK,), fusion="dropout"),
    "paper": Recipe((PAPER,), loss="squared_error", fusion="dropout", cv=5),
    "trees": Recipe((), TREES, fusion="stacked", cv=5),
}
