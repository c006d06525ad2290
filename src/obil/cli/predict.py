"""Score and decide the rows of a table at one prior."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from obil.cli.common import (
    CostFalseNegative,
    CostFalsePositive,
    ModelFolder,
    PolicyText,
    Trust,
    chosen_policy,
    one_line_errors,
)
from obil.cli.tables import (
    load_model,
    names_of,
    read_for_model,
    require_file_to_write,
    show_table,
    stated_prior,
    table_argument,
    working,
    write_table,
)

if TYPE_CHECKING:
    import pandas as pd

    from obil.online.decision import Decisions
    from obil.serving.ratio_model import RatioModel


def predict(
    model: ModelFolder,
    data: Annotated[Path, table_argument("Rows to decide")],
    prior: Annotated[
        str | None,
        typer.Option("--prior", help="Share of the positive class, or a=.7,b=.2,c=.1; that of training if not given."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File to write: .csv, .csv.gz or .parquet; standard output if not given."),
    ] = None,
    keep: Annotated[str | None, typer.Option("--keep", help="Columns to copy to the output: id,date.")] = None,
    cost_fp: CostFalsePositive = None,
    cost_fn: CostFalseNegative = None,
    policy: PolicyText = None,
    positive: Annotated[
        str | None, typer.Option("--positive", help="The class that costs and policy speak of, of more than two.")
    ] = None,
    trust: Trust = None,
) -> None:
    """Write the log ratio, the posterior and the decision of each row, all at one prior."""
    with one_line_errors():
        from obil.errors import InvalidInputError
        from obil.online.online_classifier import OnlineClassifier
        from obil.serving.ratio_model import class_named
        from obil.trackers import FixedPrior

        kept = names_of(keep)
        if out is not None:
            require_file_to_write(out, unlike=data)
        rule = chosen_policy(policy, cost_fp, cost_fn)
        fitted = load_model(model, trust)
        if fitted.n_classes > 2 and positive is None and not (policy is None and cost_fp is None and cost_fn is None):
            raise InvalidInputError(
                f"costs and policies of {fitted.n_classes} classes speak of one: give --positive, one of "
                f"{fitted.classes_.tolist()!r:.200}"
            )
        label = None if positive is None else fitted.classes_[class_named(positive, fitted.classes_)]
        start = None if prior is None else fitted.as_prior(stated_prior(prior, fitted, label))
        online = OnlineClassifier(
            fitted, policy=rule, tracker=FixedPrior(), prior=start, positive=label, monitor=False, horizon=0
        )
        table = read_for_model(data, fitted, text=kept)
        with working(f"Scoring {len(table.frame):,} rows..."):
            decisions = online.decide_log_ratios(fitted.log_ratios(table.rows))
        scored = _scored(table.frame[kept], decisions, fitted)
        if out is not None:
            write_table(scored, out)
    if out is None:
        scored.to_csv(sys.stdout, index=False)
    else:
        _report(decisions, fitted, online.log_threshold, out)


def _scored(kept: "pd.DataFrame", decisions: "Decisions", model: "RatioModel") -> "pd.DataFrame":
    """Return the kept columns with what was found; of two classes, only the second one's columns."""
    import pandas as pd

    posteriors = decisions.posteriors
    found: dict[str, Any] = {}
    if model.n_classes == 2:
        found |= {"log_ratio": decisions.log_ratios[:, 1], "posterior": posteriors[:, 1]}
    else:
        names = model.classes_.tolist()
        found |= {f"log_ratio_{name}": decisions.log_ratios[:, k] for k, name in enumerate(names) if k}
        found |= {f"posterior_{name}": posteriors[:, k] for k, name in enumerate(names)}
    found["decision"] = decisions.labels
    ours = pd.DataFrame(found, index=kept.index)
    return kept.rename(columns={name: f"{name}_kept" for name in kept.columns if name in ours.columns}).join(ours)


def _report(decisions: "Decisions", model: "RatioModel", threshold: float | None, out: Path) -> None:
    import numpy as np

    shares = zip(model.classes_.tolist(), decisions.priors[0].tolist(), strict=True)
    counts = np.bincount(decisions.numbers, minlength=model.n_classes).tolist()
    rows = [(name, f"{share:.4g}", f"{count:,}") for (name, share), count in zip(shares, counts, strict=True)]
    show_table(f"{len(decisions):,} rows written to {out}", ("class", "prior", "decided"), rows)
    if threshold is not None:
        typer.echo(f"Decided positive above a log ratio of {threshold:.3f}")
    if not decisions.reachable.all():
        typer.echo("Note: no threshold meets the policy at this prior, so nothing is alerted.")
