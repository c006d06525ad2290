"""Print a calibrated score and its decision as SQL."""

from typing import Annotated

import typer

from obil.cli import common, tables


@common.one_line_errors()
def sql(
    model: common.ModelFolder,
    prior: Annotated[
        str | None, typer.Option("--prior", help="Prior of the positive class; that of training if not given.")
    ] = None,
    dialect: Annotated[str, typer.Option("--dialect", help="duckdb, postgres or bigquery.")] = "duckdb",
    score: Annotated[
        str | None,
        typer.Option("--score", help="Column of the score; the one that `obil fit --score` had if not given."),
    ] = None,
    cost_fp: common.CostFalsePositive = None,
    cost_fn: common.CostFalseNegative = None,
    policy: common.PolicyText = None,
    positive: Annotated[str | None, typer.Option("--positive", help="The class to alert on.")] = None,
    trust: common.Trust = None,
) -> None:
    """Print log ratio, posterior and decision as SQL over a score column: what stands between SELECT and FROM.

    The model calibrates a score that another system computes (`obil fit --score`).
    """
    from obil.cli.table_notes import warn_if_balanced
    from obil.errors import InvalidInputError
    from obil.sql import sql_expressions

    rule = common.chosen_policy(policy, cost_fp, cost_fn)
    fitted = tables.load_model(model, trust)
    label = tables.positive_class(positive, fitted, needed=False)
    start = None if prior is None else tables.stated_prior(prior, fitted, label)
    column = score or next(iter(fitted.feature_names or ()), None)
    if column is None:
        raise InvalidInputError("this model knows no name of its score column: give --score")
    found = sql_expressions(fitted, column, prior=start, dialect=dialect, policy=rule, positive=label)
    if prior is None:
        warn_if_balanced(fitted.prior_)
    typer.echo(f"  {found.select_list()}")
