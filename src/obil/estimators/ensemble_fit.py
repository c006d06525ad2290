"""Fit the members of an ensemble, each on its own problem, and score held-out rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from obil.arrays import FloatArray, IntArray
from obil.calibration.cross_fit import HeldOutRows, Split, fit_estimator, held_out_once, score_method, spare_rows
from obil.calibration.freezing.freeze import freeze
from obil.errors import InvalidInputError
from obil.estimators.labelled_rows import LabelledRows
from obil.estimators.recipes import EstimatorKind, Kind
from obil.networks.settings import NetworkKind
from obil.resampling.associated import AssociatedProblem, associated_problem, class_ratio
from obil.serving.features import FeatureMap
from obil.serving.networks.dense_network import DenseScorer
from obil.serving.scorers import EstimatorScorer, Scorer, floor_of

MISSING_TORCH = (
    "networks are trained with torch, which is not installed: pip install 'obil[torch]', or take member='trees' "
    "(obil fit: another --model)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One member to fit: its kind, and the class ratio of its problem or None to leave the rows as they are."""

    kind: Kind
    ratio: float | None
    group: int = 0  # which of the recipe's kinds it is


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """What all members have in common."""

    loss: Any
    sampling: str = "undersample"
    device: str = "cpu"
    n_passes: int = 0  # with dropout, on the held-out rows; 0 measures no variance


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A fitted member: what serves, and what dropout passes need."""

    plan: Plan
    scorer: Scorer
    fitted_network: Any = None  # networks.members.FittedNetwork


@dataclass(frozen=True, slots=True, eq=False)
class MemberScores:
    """The scores of held-out rows by each member."""

    held_out: HeldOutRows  # which of the labelled rows
    scores: FloatArray  # (n, M, K)
    variances: FloatArray | None  # (n, M) over dropout passes
    second: FloatArray  # (m, M, K) by the second fold, of the rows that have one

    @property
    def rows(self) -> IntArray:
        """The labelled rows that are scored, each once, (n,)."""
        return self.held_out.rows


def fit_members(
    rows: LabelledRows,
    plans: Sequence[Plan],
    splits: Sequence[Split],
    options: Options,
    *,
    refit: bool,
    seed: int,
    n_jobs: int | None,
    progress: Any = None,
) -> tuple[list[list[Member]], MemberScores]:
    """Fit every plan on the training side of every split and score the rows it has not seen.

    The result has the members of each fold; to `refit`, those fitted on all rows come last.
    """
    everything = np.arange(len(rows.labels))
    unseen = [np.concatenate([test, spare]) for (_, test), spare in zip(splits, spare_rows(splits), strict=True)]
    sides = [(train, new) for (train, _), new in zip(splits, unseen, strict=True)]
    sides += [(everything, everything[:0])] if refit else []
    maps = [_feature_maps(rows.take(train), plans) for train, _ in sides]
    together = _trained_together(plans, options)
    jobs = (
        delayed(_fit_and_score)(
            rows.take(train), rows.X[new], [plans[number] for number in numbers], options,
            maps[side].get(_inputs(plans[numbers[0]])), [_seed(seed, side, number) for number in numbers],
        )
        for side, (train, new) in enumerate(sides)
        for numbers in together
    )  # fmt: skip
    done = _with_progress(Parallel(n_jobs=n_jobs, return_as="generator")(jobs), len(sides) * len(together), progress)
    results = [one for of_job in done for one in of_job]
    by_side = [results[side * len(plans) : (side + 1) * len(plans)] for side in range(len(sides))]
    members = [
        [
            _as_planned(member, plan, maps[side].get(_inputs(plan)))
            for (member, _, _), plan in zip(fitted, plans, strict=True)
        ]
        for side, fitted in enumerate(by_side)
    ]
    held_out = by_side[: len(splits)]
    every = np.concatenate([np.stack([scores for _, scores, _ in fold], axis=1) for fold in held_out])
    held_out_rows, places, second = held_out_once(splits, unseen)
    variances = None
    if options.n_passes:
        passes = np.concatenate([np.stack([variance for _, _, variance in fold], axis=1) for fold in held_out])
        variances = passes[places]
    return members, MemberScores(held_out_rows, every[places], variances, every[second])


def _trained_together(plans: Sequence[Plan], options: Options) -> list[list[int]]:
    """Return the numbers of the plans that one job fits: networks of one kind on a GPU, else each plan alone."""
    groups: list[list[int]] = []
    for number, plan in enumerate(plans):
        follows = bool(groups) and plans[groups[-1][0]].kind is plan.kind and not isinstance(plan.kind, EstimatorKind)
        if follows and torch_part("members").train_together(plan.kind, options.device):
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _fit_and_score(
    rows: LabelledRows,
    unseen: Any,
    plans: Sequence[Plan],
    options: Options,
    features: FeatureMap | None,
    seeds: Sequence[int],
) -> list[tuple[Member, FloatArray, FloatArray | None]]:
    """Fit members; return each with the scores of rows it has not seen and their variance."""
    results = []
    for member, seed in zip(fit_some(rows, plans, options, features, seeds), seeds, strict=True):
        scores, variance = np.empty((0, rows.n_classes)), np.empty(0) if options.n_passes else None
        if len(unseen):
            scores = member.scorer.scores(unseen)
            variance = variance_of(member, unseen, n_passes=options.n_passes, seed=seed) if options.n_passes else None
        results.append((member, scores, variance))
    return results


def variance_of(member: Member, X: Any, *, n_passes: int, seed: int) -> FloatArray:
    """Return the variance of a member's log ratios over dropout passes, (n,)."""
    if member.fitted_network is None:
        raise InvalidInputError(
            "fusion='dropout' weights networks by their dropout, and a scikit-learn member has none: use 'stacked'"
        )
    variance: FloatArray = member.fitted_network.variance(X, n_passes=n_passes, seed=seed)
    return variance


def fit_some(
    rows: LabelledRows, plans: Sequence[Plan], options: Options, features: FeatureMap | None, seeds: Sequence[int]
) -> list[Member]:
    """Fit members of one kind, each on its associated problem; networks on a GPU are trained together."""
    kind = plans[0].kind
    problems = [_problem(rows, plan, options, seed) for plan, seed in zip(plans, seeds, strict=True)]
    if isinstance(kind, EstimatorKind):
        return [
            Member(plan, _fit_estimator(kind.estimator, rows, problem, seed))
            for plan, problem, seed in zip(plans, problems, seeds, strict=True)
        ]
    members = torch_part("members")
    shared = {
        "features": features, "loss": options.loss, "n_classes": rows.n_classes, "device": options.device,
    }  # fmt: skip
    if members.train_together(kind, options.device):
        networks = members.fit_networks_together(kind, rows.X, rows.labels, problems, seeds=seeds, **shared)
    else:
        networks = [
            members.fit_network(kind, rows.X, rows.labels, problem, seed=seed, **shared)
            for problem, seed in zip(problems, seeds, strict=True)
        ]
    return [Member(plan, network.scorer, network) for plan, network in zip(plans, networks, strict=True)]


def _problem(rows: LabelledRows, plan: Plan, options: Options, seed: int) -> AssociatedProblem:
    weights = None if (rows.weights == 1.0).all() else rows.weights
    own_ratio = class_ratio(rows.labels, n_classes=rows.n_classes, sample_weight=weights)
    return associated_problem(
        rows.labels,
        ratio=own_ratio if plan.ratio is None else plan.ratio,
        n_classes=rows.n_classes,
        method=options.sampling,
        random_state=seed,
        sample_weight=weights,
    )


def torch_part(name: str) -> Any:
    """Return a module of `obil.networks`, or name the extra it needs."""
    from importlib import import_module  # noqa: PLC0415  # only training networks needs torch

    try:
        return import_module(f"obil.networks.{name}")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] == "torch":
            raise InvalidInputError(MISSING_TORCH) from None
        raise


def _fit_estimator(estimator: Any, rows: LabelledRows, problem: AssociatedProblem, seed: int) -> Scorer:
    fresh = clone(estimator)
    settings = fresh.get_params()
    unseeded = sorted(name for name in settings if name.endswith("random_state") and settings[name] is None)
    fresh.set_params(**{name: _seed(seed, 0, number) for number, name in enumerate(unseeded)})
    weights = None if (problem.weights == problem.weights[0]).all() else problem.weights
    X, labels = rows.X[problem.rows], rows.labels[problem.rows]
    X[:, np.isnan(X).all(axis=0)] = 0.0  # boosters refuse a column without values; as a constant it is never used
    with threadpool_limits(1):  # members run in parallel already, and sums keep their order
        fitted = fit_estimator(fresh, X, labels, weights)
        method = score_method(fitted)
        floor = floor_of(np.asarray(fitted.predict_proba(X), dtype=np.float64)) if method == "predict_proba" else 0.0
    training_prior = problem.training_prior
    if weights is not None and not _takes_weights(fitted):
        training_prior = np.bincount(labels, minlength=rows.n_classes) / len(labels)
    return freeze(EstimatorScorer(fitted, method, training_prior, floor, rows.X.shape[1]), X)


def _takes_weights(fitted: Any) -> bool:
    last = fitted.steps[-1][1] if isinstance(fitted, Pipeline) else fitted
    return bool(has_fit_parameter(last, "sample_weight"))


def _inputs(plan: Plan) -> str | None:
    return plan.kind.inputs if isinstance(plan.kind, NetworkKind) else None


def _feature_maps(rows: LabelledRows, plans: Iterable[Plan]) -> dict[str | None, FeatureMap]:
    """Learn each feature map that the plans need, from training rows alone."""
    wanted = sorted({inputs for plan in plans if (inputs := _inputs(plan)) is not None})
    if not wanted:
        return {}
    fit_feature_map = torch_part("inputs").fit_feature_map
    return {inputs: fit_feature_map(rows.X, inputs=inputs, categories=rows.categories) for inputs in wanted}


def _as_planned(member: Member, plan: Plan, features: FeatureMap | None) -> Member:
    """Return the member with the very plan and map of the others: another process gave it copies."""
    if features is None or not isinstance(member.scorer, DenseScorer):
        return replace(member, plan=plan)
    scorer = replace(member.scorer, features=features)
    return replace(member, plan=plan, scorer=scorer, fitted_network=replace(member.fitted_network, scorer=scorer))


def _seed(seed: int, side: int, number: int) -> int:
    return int(np.random.SeedSequence([seed, side, number]).generate_state(1)[0])


def _with_progress(results: Iterable[Any], total: int, progress: Any) -> Iterator[Any]:
    for done, result in enumerate(results, start=1):
        yield result
        if progress is not None:
            progress(done, total)
