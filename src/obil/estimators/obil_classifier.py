"""The paper's ensemble as a scikit-learn classifier: members on associated problems, fused, then calibrated."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import validate_data

from obil.arrays import IntArray
from obil.calibration.calibrate import CALIBRATIONS
from obil.calibration.cross_fit import Split, averages
from obil.calibration.linear import SLOPE_SD, class_prior
from obil.errors import InvalidInputError
from obil.estimators.ensemble_fit import Member, MemberScores, Options, Plan, fit_members, torch_part
from obil.estimators.fit_progress import fit_progress
from obil.estimators.fit_scorer import fit_views, freeze_together
from obil.estimators.fusion import best_members, fuse
from obil.estimators.labelled_rows import LabelledRows, is_fraction, out_of_fold_splits
from obil.estimators.leading_features import fit_row_inputs
from obil.estimators.ratio_mixin import HeldOutScores, RatioMixin, as_weights, warn_of_dependence
from obil.estimators.recipes import FUSIONS, EstimatorKind, Recipe, recipe_of
from obil.networks.settings import ModuleKind
from obil.resampling.associated import METHODS, class_ratio, target_ratios
from obil.serving.columns import ColumnEncoder
from obil.serving.folds import FoldScorer
from obil.serving.ratio_model import View, as_dataframe
from obil.serving.scorers import MARGIN, Scorer

REFRESH_FRACTION = 0.3  # of the new rows held out, where scores are otherwise cross-fitted


class OBILClassifier(RatioMixin, BaseEstimator):  # type: ignore[misc]  # sklearn is untyped
    """Likelihood ratios from an ensemble of networks (and trees), each trained at a less imbalanced class prior.

    Every member is trained on an associated problem, its training prior is divided out, the log-likelihood ratios
    are fused, and the fused ratio is calibrated on held-out rows. Columns may be categorical (in a DataFrame) and
    have missing values. Training networks needs torch; serving them does not.

    Parameters
    ----------
    n_members
        Members of each kind, one per associated problem; `ratios`, where they are numbers, say how many instead, and
        "trees" has five whatever it is.
    ratios
        The class ratio, most common to rarest, of each problem; "original" leaves all as the rows are. None means
        the member's own: 1, 2, 5, 10 and the original for "mlp" and "paper", "original" for "tabular".
    loss
        "cross_entropy", "squared_error", "exponential", ... or a loss of `obil.networks.losses`; None means the
        member's own.
    member
        "tabular" (networks on ranks beside trees), "mlp" (the networks alone), "paper" (Algorithm 1: squared error,
        standardised inputs), "trees"; or a scikit-learn classifier, a torch module, or a list of these.
    fusion
        "stacked" (weights that predict unseen rows best), "dropout" (the paper's: by the variance over dropout
        passes), "mean"; None means the member's own.
    mc_samples
        Dropout passes.
    sampling
        How problems are made: "undersample", "oversample" or "weight".
    cv
        A number of folds, a splitter or (train, test) pairs for out-of-fold scores, or the fraction of rows held out
        instead; None means the member's own. Each fold has an ensemble of its own, and their mean decides.
    calibration
        As in `RatioClassifier`.
    views
        Whether to fit cheap members on feature subsets, too: what supports a move of the prior without labels; and to
        choose the inputs that late labels recalibrate by.
    categorical_features
        Columns of an array that hold codes; categorical columns of a DataFrame are found.
    device
        "cpu", "cuda", or "auto": a GPU where there is one. There, networks of one kind are trained together.
    random_state
        Seed of everything: same seed, same model, whatever `n_jobs` is.
    n_jobs
        Members fitted at once.
    verbose
        Show on standard error how many of the members are fitted, and the time that is left: 0 or 1.

    Attributes
    ----------
    model_ : RatioModel
        What serves, and what `obil.save` writes.
    members_ : list
        The fitted members, those of the first fold first.
    fusion_temperature_ : float or None
        What dropout variances were divided by; infinite where equal weights were best.
    encoder_ : ColumnEncoder
        How the columns of a DataFrame are read, where one was given.
    classes_, prior_, holdout_
        The user's classes, the training prior, and the held-out rows.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.arange(60.0).reshape(-1, 1)
    >>> model = OBILClassifier(member=LogisticRegression(), n_members=3, random_state=0)
    >>> model = model.fit(X, X[:, 0] + 7 * (X[:, 0] % 2) > 40)
    >>> bool(model.predict_proba([[36.0]], prior=0.01)[0, 1] < model.predict_proba([[36.0]])[0, 1])
    True
    """

    def __init__(
        self,
        *,
        n_members: int = 5,
        ratios: Sequence[float] | str | None = None,
        loss: Any = None,
        member: Any = "tabular",
        fusion: str | None = None,
        mc_samples: int = 30,
        sampling: str = "undersample",
        cv: Any = None,
        calibration: str = "affine",
        views: bool = True,
        categorical_features: Sequence[int] | None = None,
        device: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_members = n_members
        self.ratios = ratios
        self.loss = loss
        self.member = member
        self.fusion = fusion
        self.mc_samples = mc_samples
        self.sampling = sampling
        self.cv = cv
        self.calibration = calibration
        self.views = views
        self.categorical_features = categorical_features
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        time: npt.ArrayLike | None = None,
    ) -> Self:
        """Fit members, fuse and calibrate. A fit that fails or is interrupted leaves the classifier as it was.

        `sample_weight` defines the population, `groups` stay on one side of every split, `time` makes the
        held-out rows blocks of time (or the last ones).
        """
        with self._all_or_nothing():
            recipe = self._check_settings()
            rows = self._prepared(X, y, sample_weight, recipe)
            cv = recipe.cv if self.cv is None else self.cv
            seed = self._seed()
            splits = out_of_fold_splits(rows, cv, groups=groups, time=time, seed=seed)
            refit = not averages(splits, len(rows.labels))
            folds, member_scores, _ = self._fit_members(rows, splits, recipe, refit=refit, seed=seed)
            blocks = None if groups is None and time is None else member_scores.held_out.folds
            times = None if time is None else np.asarray(time)[rows.origin][member_scores.rows]
            self._finish(folds, member_scores, rows, recipe, seed, splits, refit=refit, blocks=blocks, times=times)
        warn_of_dependence(self.model_)
        return self

    def refresh(self, X: Any, y: Any, *, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Retrain on new labelled rows: new members join, and those that now predict worst leave.

        Part of the rows is set aside; new members are fitted on the rest. The old and the new are judged by log loss
        on the rows set aside, the best of each kind are kept, as many as one fold has, and they are fused and
        calibrated anew. Rows that the old members were trained on must not be among them: they would not be held out
        then.
        Hand the result to a running `OnlineClassifier` (`online.model = refreshed`): its prior survives.
        """
        self._fitted()
        with self._all_or_nothing():
            recipe, old = self._check_settings(), list(self.members_)
            known = self.classes_
            rows = self._prepared(X, y, sample_weight, recipe, fresh=False)
            if not np.array_equal(known, self.classes_):
                raise InvalidInputError(
                    f"refresh needs rows of each class {known.tolist()}, got {self.classes_.tolist()}"
                )
            seed = self._seed()
            cv = recipe.cv if self.cv is None else self.cv
            splits = out_of_fold_splits(rows, cv if is_fraction(cv) else REFRESH_FRACTION, seed=seed)
            (new,), member_scores, options = self._fit_members(rows, splits, recipe, refit=False, seed=seed)
            slope_sd = _slope_sd([*old, *new])
            kept, member_scores = best_members(old, new, member_scores, rows, options, slope_sd=slope_sd, seed=seed)
            before = self.model_.evidence
            self._finish([kept], member_scores, rows, recipe, seed, splits)
            if before is not None and self.model_.evidence is not None:  # what rows and blocks are like stays
                evidence = replace(self.model_.evidence, tolerance=before.tolerance, block=before.block)
                self.model_ = replace(self.model_, evidence=evidence)
        return self

    def _fit_members(
        self, rows: LabelledRows, splits: list[Split], recipe: Recipe, *, refit: bool, seed: int
    ) -> tuple[list[list[Member]], MemberScores, Options]:
        plans = self._plans(recipe, rows)
        options = self._options(recipe, plans, rows.n_classes)
        with fit_progress(f"Fitting {len(plans)} members", verbose=self.verbose) as progress:
            fitted = fit_members(
                rows, plans, splits, options, refit=refit, seed=seed, n_jobs=self.n_jobs, progress=progress
            )
        return *fitted, options

    def _check_settings(self) -> Recipe:
        recipe = recipe_of(self.member)
        for name, chosen, known in (
            ("fusion", self.fusion, (None, *FUSIONS)),
            ("sampling", self.sampling, METHODS),
            ("calibration", self.calibration, CALIBRATIONS),
        ):
            if chosen not in known:
                raise InvalidInputError(f"{name} must be one of {', '.join(map(str, known))}, got {chosen!r}")
        if not isinstance(self.n_members, Integral) or self.n_members < 1:
            raise InvalidInputError(f"n_members must be a whole number of at least 1, got {self.n_members!r}")
        if not isinstance(self.mc_samples, Integral) or self.mc_samples < 2:
            raise InvalidInputError(f"mc_samples must be a whole number of at least 2, got {self.mc_samples!r}")
        if isinstance(self.cv, Real) and not (self.cv >= 2 if isinstance(self.cv, Integral) else 0.0 < self.cv < 1.0):
            raise InvalidInputError(f"cv must be at least 2 folds or a fraction of the rows, got {self.cv!r}")
        return recipe

    def _prepared(
        self, X: Any, y: Any, sample_weight: npt.ArrayLike | None, recipe: Recipe, *, fresh: bool = True
    ) -> LabelledRows:
        """Check the rows and put them in a canonical order, so that the order of the rows changes nothing."""
        if y is None:
            self._learn_classes(X, y)
        X = as_dataframe(X)
        if fresh:  # what an earlier fit on another kind of rows left behind
            for name in ("encoder_", "takes_any_shape_"):
                self.__dict__.pop(name, None)
        codes = () if self.categorical_features is None else np.asarray(self.categorical_features).tolist()
        categories: tuple[int, ...] = tuple(codes)
        if any(isinstance(kind, ModuleKind) for kind in recipe.kinds):
            matrix = np.asarray(X)
            self.takes_any_shape_ = True
        elif _has_names(X):
            if not fresh and not hasattr(self, "encoder_"):
                raise InvalidInputError("the classifier was fitted on an array: refresh it with an array, got a table")
            validate_data(self, X, reset=fresh, skip_check_array=True)
            if fresh:
                self.encoder_ = ColumnEncoder.fit(X)
            matrix = self.encoder_.encode(X)
            categories = (*categories, *self.encoder_.categories)
        else:
            matrix = validate_data(self, X, reset=fresh, dtype=np.float64, ensure_all_finite="allow-nan")
        if any(type(code) is not int or not 0 <= code < matrix.shape[1] for code in codes):
            raise InvalidInputError(
                f"categorical_features must name columns 0 to {matrix.shape[1] - 1}, got {codes!r:.60}"
            )
        _, numbers = self._learn_classes(matrix, y)
        weights = np.ones(len(numbers))
        if sample_weight is not None:
            weights = as_weights(sample_weight, len(numbers))
            class_prior(numbers, weights, len(self.classes_))
        return LabelledRows.in_order(matrix, numbers, weights, classes=self.classes_, categories=categories)

    def _plans(self, recipe: Recipe, rows: LabelledRows) -> list[Plan]:
        """Return one plan per kind and ratio; a ratio of None leaves the rows as they are."""
        original = class_ratio(rows.labels, n_classes=rows.n_classes, sample_weight=rows.weights)
        ratios: list[float | None]
        if isinstance(self.ratios, str) and self.ratios != "original":
            raise InvalidInputError(f"ratios must be numbers or 'original', got {self.ratios!r:.40}")
        if isinstance(self.ratios, str) or (self.ratios is None and not recipe.rebalances):
            ratios = [None] * self.n_members
        elif self.ratios is None:
            ratios = [None if ratio == original else ratio for ratio in target_ratios(self.n_members, original)]
        else:
            ratios = [float(ratio) for ratio in self.ratios]
        if not ratios:
            raise InvalidInputError("ratios must name at least one class ratio, got none")
        plans = [Plan(kind, ratio, group) for group, kind in enumerate(recipe.kinds) for ratio in ratios]
        seen: dict[int, int] = {}  # the same kind named twice is one kind
        for kind in recipe.whole:
            group = seen.setdefault(id(kind), len(recipe.kinds) + len(seen))
            plans.append(Plan(kind, None, group))
        return plans

    def _options(self, recipe: Recipe, plans: list[Plan], n_classes: int) -> Options:
        device, loss = "cpu", None
        if any(not isinstance(plan.kind, EstimatorKind) for plan in plans):
            members = torch_part("members")
            loss = members.as_loss(recipe.loss if self.loss is None else self.loss, n_classes)
            device = members.as_device(self.device)
        n_passes = self.mc_samples if self._fusion(recipe) == "dropout" and len(plans) > 1 else 0
        return Options(loss, self.sampling, device, n_passes)

    def _fusion(self, recipe: Recipe) -> str:
        return self.fusion or recipe.fusion

    def _finish(
        self,
        folds: list[list[Member]],
        member_scores: MemberScores,
        rows: LabelledRows,
        recipe: Recipe,
        seed: int,
        splits: list[Split],
        *,
        refit: bool = False,
        blocks: IntArray | None = None,
        times: npt.NDArray[Any] | None = None,
    ) -> None:
        """Fuse and calibrate on the held-out rows, and keep what serves."""
        held_out = rows.take(member_scores.rows)
        slope_sd = _slope_sd(folds[0])
        fused = fuse(
            self._fusion(recipe), folds, member_scores, held_out.X, held_out.labels, held_out.weights,
            slope_sd=slope_sd, seed=seed,
        )  # fmt: skip
        of_folds = fused.folds[: len(splits)]
        scorer: Scorer = of_folds[0] if len(of_folds) == 1 else FoldScorer(tuple(of_folds))
        views: tuple[View, ...] = ()
        if self.views:
            views = fit_views(rows.X, rows.labels, rows.weights, splits, random_state=seed, n_jobs=self.n_jobs)
            views = freeze_together(scorer, views, rows.X).views
        encoder = getattr(self, "encoder_", None)
        self.members_ = [member for fold in (folds[-1:] if refit else folds) for member in fold]
        self.fusion_temperature_ = fused.temperature
        model = self._calibrated_model(
            HeldOutScores(fused.scores, held_out.labels, held_out.weights, fused.pairs, blocks, times),
            scorer,
            class_prior(rows.labels, rows.weights, rows.n_classes),
            method=self.calibration,
            slope_sd=slope_sd,
            refitted=fused.folds[-1] if refit else None,
            random_state=seed,
        )
        names = None if encoder is None else encoder.names
        model = replace(model, view_members=views, encoder=encoder, feature_names=names)
        # rows were sorted by what they hold; the order of a stream is that of time, or that in which they were given
        given = rows.origin[member_scores.rows]
        order = np.lexsort((given,) if times is None else (given, times))
        model = model.with_rows_in(order)
        if self.views:
            inputs = fit_row_inputs(rows.X, model, member_scores.rows[order], categories=rows.categories)
            model = replace(model, inputs=inputs)
        self.model_ = model

    def _check_rows(self, X: Any) -> Any:
        X = as_dataframe(X)
        if hasattr(self, "takes_any_shape_"):
            return np.asarray(X)
        if hasattr(self, "encoder_") and _has_names(X):
            validate_data(self, X, reset=False, skip_check_array=True)
            return X
        return validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Put back every attribute when a fit fails or is interrupted."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kinds = (*(recipe := recipe_of(self.member)).kinds, *recipe.whole)
        own = [get_tags(kind.estimator).input_tags for kind in kinds if isinstance(kind, EstimatorKind)]
        tags.input_tags.allow_nan = all(input_tags.allow_nan for input_tags in own)
        return tags


def _slope_sd(members: Sequence[Member]) -> float | None:
    """Return how far the slope may be from 1 before data, or None: margins are on a scale of their own."""
    on_margins = [getattr(member.scorer, "link", None) == MARGIN for member in members]
    if any(on_margins) and not all(on_margins):
        raise InvalidInputError(
            "a member without predict_proba cannot be fused with others: wrap it in CalibratedClassifierCV"
        )
    return None if any(on_margins) else SLOPE_SD


def _has_names(X: Any) -> bool:
    """Return whether X is a table whose columns have names, which scikit-learn takes only as text."""
    return hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns)
