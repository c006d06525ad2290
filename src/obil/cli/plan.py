"""Plan a deployment from a saved model's held-out scores."""

from pathlib import Path
from typing import Annotated

import typer

from obil.cli import common, tables

N_PRIORS = 5  # of a range


@common.one_line_errors()
def plan(
    model: common.ModelFolder,
    prior: Annotated[
        str | None,
        typer.Option(
            "--prior", help="Priors to plan for: .01,.02 or from .01:.1; around the training prior if left out."
        ),
    ] = None,
    cost_fp: common.CostFalsePositive = None,
    cost_fn: common.CostFalseNegative = None,
    policy: common.PolicyText = None,
    positive: Annotated[str | None, typer.Option("--positive", help="Class to alert on; the second of two.")] = None,
    labels: Annotated[int, typer.Option("--labels", min=1, help="How many rows will be labelled.")] = 200,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows within which adapting should pay.")] = 10_000,
    level: Annotated[float, typer.Option("--level", help="Level of the intervals.")] = 0.9,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the simulated streams and labels.")] = 0,
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw the plan to this PNG file.")] = None,
    trust: common.Trust = None,
    as_json: common.AsJson = False,
) -> None:
    """Say from held-out scores what adapting would save, how soon, and what labels and the monitor would tell.

    The held-out rows are taken as the truth about the scores of each class. Where more than the prior moves, see
    `obil backtest`.
    """
    from obil.cli.progress import working
    from obil.evaluation.plan import plan as planned
    from obil.serving.ratio_model import class_named

    if plot is not None:
        tables.require_file_to_write(plot, unlike=model, option="--plot")
    fitted = tables.load_model(model, trust)
    chosen = None if positive is None else fitted.classes_.tolist()[class_named(positive, fitted.classes_)]
    rule = common.chosen_policy(policy, cost_fp, cost_fn)
    with working("Planning..."):
        found = planned(
            fitted, priors=None if prior is None else priors_of(prior), policy=rule, positive=chosen, n_labels=labels,
            n_rows=rows, level=level, random_state=seed,
        )  # fmt: skip
    if plot is not None:
        from obil.evaluation.plan_plot import draw_plan

        tables.write_whole(plot, lambda path: draw_plan(found, path))
    if as_json:
        common.print_json({"model": str(model)} | found.to_json())
        return
    typer.echo(str(found))
    if plot is not None:
        typer.echo(f"\nwrote {plot}")


def priors_of(text: str) -> list[float]:
    """Return the priors that a text lists, or five from one to another.

    >>> priors_of(".01, .05"), [round(one, 4) for one in priors_of(".01:.16")]
    ([0.01, 0.05], [0.01, 0.02, 0.04, 0.08, 0.16])
    """
    import numpy as np

    from obil.errors import InvalidInputError

    first, colon, last = text.partition(":")
    try:
        found = [float(first), float(last)] if colon else [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(
            f"--prior must be numbers such as .01,.02 or a range .01:.1, got {text!r:.40}"
        ) from None
    for one in found:
        if not 0.0 < one < 1.0:
            raise InvalidInputError(f"--prior must lie between 0 and 1, got {one:g}")
    return [float(one) for one in np.geomspace(found[0], found[1], N_PRIORS)] if colon else found
