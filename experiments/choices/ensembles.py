"""Fit members once, and fuse some of them by each method: what number, resampling and fusion change."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.choices.losses import loaded
from experiments.choices.measures import Measures, measured, prior_at
from obil.arrays import FloatArray, IntArray
from obil.calibration.calibrate import fit_calibrator
from obil.calibration.linear import SLOPE_SD
from obil.datasets.splits import stratified_split
from obil.estimators.ensemble_fit import Member, MemberScores, Options, Plan, fit_members, variance_of
from obil.estimators.fusion import fuse
from obil.estimators.labelled_rows import LabelledRows
from obil.estimators.recipes import NETWORK, TREES
from obil.networks.members import as_loss
from obil.resampling.associated import class_ratio, target_ratios

SUBSETS = {1: [0], 3: [0, 2, 4], 5: [*range(5)], 7: [*range(7)], 10: [*range(10)]}  # of the list of ratios, cycled


def run(cell: dict[str, Any], settings: dict[str, Any]) -> dict[str, Measures]:
    """Return the measures of every number of members and fusion that one family of problems allows."""
    fitted = _Fitted.of(cell["data"], cell["seed"], cell["family"], settings["mc_samples"])
    found: dict[str, Measures] = {}
    if cell["family"] == "original":
        nets, trees = [*range(5)], [*range(5, 5 + len(TREES))]
        for n in (1, 3, 5):
            found[f"{n} networks, mean"] = fitted.measures(nets[:n], "mean")
        found["5 networks, dropout"] = fitted.measures(nets, "dropout")
        found["trees, mean"] = fitted.measures(trees, "mean")
        for how in ("mean", "stacked"):
            found[f"5 networks and trees, {how}"] = fitted.measures([*nets, *trees], how)
        pair = ("5 networks and trees, stacked", "5 networks and trees, mean")
        found["difference, networks and trees, stacked - mean"] = _difference(*(found[name] for name in pair))
        return found
    for n, chosen in SUBSETS.items():
        if n > len(fitted.members):
            break
        found[f"{n} networks, mean"] = fitted.measures(chosen, "mean")
        if n > 1 and cell["family"] == "undersample":
            found[f"{n} networks, dropout"] = fitted.measures(chosen, "dropout")
            found[f"difference, {n} networks, dropout - mean"] = _difference(
                found[f"{n} networks, dropout"], found[f"{n} networks, mean"]
            )
    return found


def _difference(one: Measures, other: Measures) -> Measures:
    return {name: one[name] - other[name] for name in one}


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """Members with their scores of held-out rows, and the rows to measure by."""

    members: list[Member]
    member_scores: MemberScores
    seconds: list[float]  # to fit each
    variance_seconds: list[float]  # to make its dropout passes
    held_out: LabelledRows
    test: tuple[FloatArray, IntArray]
    ratio: float
    seed: int = field(default=0)

    @classmethod
    def of(cls, name: str, seed: int, family: str, n_passes: int) -> "_Fitted":
        """Fit ten networks on undersampled problems, or five on others, on 80 % of the training rows of a split."""
        X, labels = loaded(name)
        split = stratified_split(labels, test_size=0.3, random_state=seed, rows=X)
        count = len(split.train)
        numbers = np.arange(count)
        rows = LabelledRows(X[split.train], labels[split.train], np.ones(count), np.arange(2), (), numbers, count)
        inner = stratified_split(rows.labels, test_size=0.2, random_state=seed, rows=rows.X)
        ratio = class_ratio(rows.labels[inner.train], n_classes=2)
        if family == "original":
            plans = [*[Plan(NETWORK, None)] * 5, *(Plan(kind, None, 1 + TREES.index(kind)) for kind in TREES)]
        else:
            targets = target_ratios(10 if family == "undersample" else 5, ratio)
            plans = [Plan(NETWORK, target) for target in targets]
        marks = [time.process_time()]
        (members,), member_scores = fit_members(
            rows,
            plans,
            [(inner.train, inner.test)],
            Options(as_loss("cross_entropy", 2), sampling="undersample" if family == "original" else family),
            refit=False,
            seed=seed,
            n_jobs=None,
            progress=lambda done, total: marks.append(time.process_time()),
        )
        held_out = rows.take(member_scores.rows)
        variances, passes = [], [time.process_time()]
        for member in members:
            networks = member.fitted_network is not None
            variances.append(
                variance_of(member, held_out.X, n_passes=n_passes, seed=seed) if networks else np.zeros(len(held_out.X))
            )
            passes.append(time.process_time())
        return cls(
            members,
            replace(member_scores, variances=np.stack(variances, axis=1)),
            np.diff(marks).tolist(),
            np.diff(passes).tolist(),
            held_out,
            (X[split.test], labels[split.test]),
            class_ratio(rows.labels, n_classes=2),
            seed,
        )

    def measures(self, chosen: list[int], how: str) -> Measures:
        """Fuse the chosen members and calibrate on the held-out rows; measure the test rows."""
        started = time.process_time()
        variances = self.member_scores.variances
        member_scores = replace(
            self.member_scores,
            scores=self.member_scores.scores[:, chosen],
            variances=None if variances is None or how != "dropout" else variances[:, chosen],
            second=self.member_scores.second[:, chosen],
        )
        members = [self.members[i] for i in chosen]
        held_out = self.held_out
        fused = fuse(
            how,
            [members],
            member_scores,
            held_out.X,
            held_out.labels,
            held_out.weights,
            slope_sd=SLOPE_SD,
            seed=self.seed,
        )
        calibrator = fit_calibrator(fused.scores, held_out.labels, held_out.weights)
        seconds = time.process_time() - started + sum(self.seconds[i] for i in chosen)
        if how == "dropout":
            seconds += sum(self.variance_seconds[i] for i in chosen)
        rows, labels = self.test
        log_ratios = calibrator.apply(fused.folds[0].scores(rows))
        return measured(log_ratios, labels, prior_at(self.ratio)) | {"seconds": seconds}
