"""Fuse the scores of several members in log space, with fixed weights or with those of a gating network per row."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from obil.arrays import FloatArray
from obil.errors import InvalidInputError
from obil.serving.features import FeatureMap
from obil.serving.networks.dense_network import DenseNetwork, DenseScorer, outputs_of_rows, softmax_weights
from obil.serving.networks.network_stack import NetworkStack
from obil.serving.scorers import Scorer, as_matrix

MOST_MEMBERS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class GatingNetwork:
    """The gating network w_phi(x): the weight of each member for a row."""

    features: FeatureMap
    network: DenseNetwork

    def __post_init__(self) -> None:
        if self.network.widths[0] != self.features.n_inputs:
            raise InvalidInputError("the layers of a gating network do not fit its features")

    def weights(self, X: Any) -> FloatArray:
        """Return the weights of the members for each row, (n, M), which sum to 1."""
        return softmax_weights(outputs_of_rows(self.features, self.network, as_matrix(X)))


@dataclass(frozen=True, slots=True, eq=False)
class EnsembleScorer:
    """The weighted sum of the members' raw scores: their log ratios fused as a geometric mean.

    Such a mean of calibrated ratios is not calibrated itself: the calibrator comes after it.
    """

    members: tuple[Scorer, ...]
    weights: FloatArray  # (M,) the members' weights where there is no gating network
    gating: GatingNetwork | None = None
    stacks: tuple[NetworkStack, ...] = field(init=False)  # networks of the same inputs and shape, in one pass each
    others: tuple[tuple[float, Scorer], ...] = field(init=False)  # the rest, with their weights

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.members),) or not self.members:
            raise InvalidInputError(f"every member needs a weight, got {len(self.weights)} for {len(self.members)}")
        if not (np.isfinite(self.weights).all() and (self.weights >= 0.0).all() and self.weights.any()):
            raise InvalidInputError(f"weights of members are not negative and not all 0, got {self.weights.tolist()}")
        if self.gating is not None and self.gating.network.widths[-1] != len(self.members):
            raise InvalidInputError("the gating network has another number of outputs than there are members")
        if len(self.members) > MOST_MEMBERS:
            raise InvalidInputError(f"an ensemble has at most {MOST_MEMBERS:,} members, got {len(self.members):,}")
        widths = {member.n_features for member in self.members} - {None}
        if len(widths) > 1:
            raise InvalidInputError(f"members take rows of one width, got {sorted(map(str, widths))}")
        counts = {member.n_classes for member in self.members}
        if len(counts) > 1:
            raise InvalidInputError(f"members have the same classes, got {sorted(counts)} of them")
        stacks, others = self._arranged()
        object.__setattr__(self, "stacks", stacks)
        object.__setattr__(self, "others", others)

    @property
    def n_features(self) -> int | None:
        """The width of a row, or None where any is taken."""
        return self.members[0].n_features

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return self.members[0].n_classes

    def scores(self, X: Any) -> FloatArray:
        """Return the fused raw scores, (n, K)."""
        if len(self.stacks) == 1 and not self.others:
            return self.stacks[0].scores(X)
        if self.gating is not None:
            gated: FloatArray = (self.gating.weights(X)[:, :, None] * self.member_scores(X)).sum(axis=1)
            return gated
        parts = [stack.scores(X) for stack in self.stacks]
        parts += [weight * member.scores(X) for weight, member in self.others]
        fused = parts[0]
        for part in parts[1:]:
            fused = fused + part
        return fused

    def member_scores(self, X: Any) -> FloatArray:
        """Return the raw scores of each member, (n, M, K)."""
        return np.stack([member.scores(X) for member in self.members], axis=1)

    def _arranged(self) -> tuple[tuple[NetworkStack, ...], tuple[tuple[float, Scorer], ...]]:
        """Return what is computed in one pass, and the rest; members of weight 0 are in neither."""
        groups: dict[Any, list[int]] = {}
        for m, member in enumerate(self.members):
            if self.gating is None and self.weights[m] == 0.0:
                continue
            key: Any = m
            if isinstance(member, DenseScorer) and member.head == "tanh":
                key = (id(member.features), member.network.widths)
            groups.setdefault(key, []).append(m)
        stacks, others = [], []
        for places in groups.values():
            scorers = [member for m in places if isinstance(member := self.members[m], DenseScorer)]
            stack = self._stacked(scorers, places) if scorers else None
            if stack is None:
                others += [(float(self.weights[m]), self.members[m]) for m in places]
            else:
                stacks.append(stack)
        return tuple(stacks), tuple(others)

    def _stacked(self, scorers: list[DenseScorer], places: list[int]) -> NetworkStack | None:
        if self.gating is None:
            return NetworkStack.of(scorers, weights=self.weights[places], gating=None)
        if len(places) < len(self.members) or self.gating.features is not scorers[0].features:
            return None
        return NetworkStack.of(scorers, weights=self.weights[places], gating=self.gating.network)
