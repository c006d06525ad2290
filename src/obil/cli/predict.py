"""Score and decide the rows of a table at one prior."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from obil.cli import common, tables
from obil.cli.progress import working

if TYPE_CHECKING:
    import pandas as pd

    from obil.online.decision import Decisions
    from obil.serving.ratio_model import RatioModel


@common.one_line_errors()
def predict(
    model: common.ModelFolder,
    data: Annotated[Path, tables.table_argument("Rows to decide")],
    prior: Annotated[
        str | None,
        typer.Option("--prior", help="Prior of the positive class, or a=.7,b=.2,c=.1; that of training if not given."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File to write: .csv, .csv.gz or .parquet; standard output if not given."),
    ] = None,
    keep: tables.Keep = None,
    cost_fp: common.CostFalsePositive = None,
    cost_fn: common.CostFalseNegative = None,
    policy: common.PolicyText = None,
    positive: Annotated[
        str | None, typer.Option("--positive", help="The class to alert on, where there are more than two.")
    ] = None,
    trust: common.Trust = None,
) -> None:
    """Write the log ratio, the posterior and the decision of each row, all at one prior."""
    from obil.cli.table_notes import warn_if_balanced
    from obil.online.online_classifier import OnlineClassifier
    from obil.trackers import FixedPrior

    kept = tables.names_of(keep)
    if out is not None:
        tables.require_file_to_write(out, unlike=data)
    rule = common.chosen_policy(policy, cost_fp, cost_fn)
    fitted = tables.load_model(model, trust)
    stated = any(option is not None for option in (policy, cost_fp, cost_fn))
    label = tables.positive_class(positive, fitted, needed=stated)
    if prior is None:
        warn_if_balanced(fitted.prior_)
    start = None if prior is None else fitted.as_prior(tables.stated_prior(prior, fitted, label))
    online = OnlineClassifier(
        fitted, policy=rule, tracker=FixedPrior(), prior=start, positive=label, monitor=False, horizon=0
    )
    table = tables.read_for_model(data, fitted, text=kept)
    with working(f"Scoring {len(table.frame):,} rows..."):
        decisions = online.decide_log_ratios(fitted.log_ratios(table.rows))
    scored = _scored(table.frame[kept], decisions)
    if out is None:
        scored.to_csv(sys.stdout, index=False)
    else:
        tables.write_table(scored, out)
        _report(decisions, fitted, online.log_threshold, out)


def _scored(kept: "pd.DataFrame", decisions: "Decisions") -> "pd.DataFrame":
    """Return the kept columns with what was found."""
    import pandas as pd

    ours = pd.DataFrame(decisions.columns(), index=kept.index)
    return kept.rename(columns={name: f"{name}_kept" for name in kept.columns if name in ours.columns}).join(ours)


def _report(decisions: "Decisions", model: "RatioModel", threshold: float | None, out: Path) -> None:
    import numpy as np

    counts = np.bincount(decisions.numbers, minlength=model.n_classes).tolist()
    classes = zip(model.classes_.tolist(), decisions.effective_priors[0].tolist(), counts, strict=True)
    rows = [(name, f"{prior:.4g}", f"{count:,}") for name, prior, count in classes]
    tables.show_table(f"{len(decisions):,} rows written to {out}", ("class", "prior", "decided"), rows)
    if threshold is not None:
        typer.echo(f"Decided positive above a log ratio of {threshold:.3f}")
    if not decisions.reachable.all():
        typer.echo("Note: no threshold meets the policy at this prior, so nothing is alerted.")
