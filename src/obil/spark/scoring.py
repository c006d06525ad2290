"""Score a table: add log ratio, posterior at a given prior, and decision to its columns."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructField, StructType

from obil.arrays import PriorLike
from obil.bayes.costs import Costs
from obil.errors import InvalidInputError
from obil.online.decision_rule import DecisionRule, class_number
from obil.policies import CostPolicy, Policy
from obil.policies.notation import policy_from_json
from obil.spark.columns import (
    class_values,
    feature_columns,
    model_input_of_arrow,
    require_free,
    scored_fields,
    vector_values,
)
from obil.spark.shipped_model import ShippedModel


def score(
    df: DataFrame,
    model: Any,
    *,
    prior: PriorLike | Mapping[Any, float] | None = None,
    costs: Costs | None = None,
    policy: Policy | None = None,
    positive: Any = None,
    features: Sequence[str] | None = None,
    trusted: Collection[str] = (),
) -> DataFrame:
    """Return the table with the columns `log_ratio`, `posterior` and `decision` added.

    Parameters
    ----------
    df
        Any table, streaming or not.
    model
        A model folder, a fitted classifier, or what `obil.load` returns. Its files are sent to the executors.
    prior
        The prior to decide at, for example from `estimate_prior`; the training prior if None.
    costs, policy, positive
        As for `OnlineClassifier`.
    features
        The columns a model fitted without names reads, in its order, or one column of arrays.
    trusted
        Further types of a wrapped estimator to allow, as for `obil.load`.

    Notes
    -----
    With two classes `log_ratio` and `posterior` are numbers, of `classes_[1]`; with more they are arrays in the
    order of the classes.

    >>> score(table, "model/", prior=0.02).columns  # doctest: +SKIP
    ['amount', 'age', 'log_ratio', 'posterior', 'decision']
    """
    shipped = ShippedModel.of(model, trusted=trusted)
    fitted = shipped.load()
    names = feature_columns(df, fitted, features)
    fields = scored_fields(fitted)
    require_free([field.name for field in fields], df.columns)
    if costs is not None and policy is not None:
        raise InvalidInputError("give costs or a policy, not both: costs=... means policy=CostPolicy(costs)")
    number = class_number(positive, fitted)
    settings = DecisionRule(fitted, CostPolicy(costs) if costs is not None else policy, number).policy.to_json()
    at = (fitted.prior_ if prior is None else fitted.as_prior(prior)).tolist()
    kinds = [to_arrow_type(field.dataType) for field in fields]
    places = [df.columns.index(name) for name in names]
    load = shipped.loader(df)

    def scored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        model = load()
        rule = DecisionRule(model, policy_from_json(settings), number)
        for batch in batches:
            if batch.num_rows:
                ratios = model.log_ratios(model_input_of_arrow([batch.column(i) for i in places], names, model))
                decided = rule.decide(ratios, np.tile(at, (len(ratios), 1)))
                added = [
                    vector_values(ratios),
                    vector_values(decided.posteriors),
                    class_values(model.classes_[decided.numbers]),
                ]
                columns = [pa.array(values, type=kind) for values, kind in zip(added, kinds, strict=True)]
                every = [*batch.columns, *columns]
                yield pa.RecordBatch.from_arrays(every, names=[str(number) for number in range(len(every))])

    # in Arrow, and by number because a name may occur twice: the table's own columns pass unchanged
    every_field = [*df.schema.fields, *fields]
    by_number = [StructField(str(i), field.dataType, metadata=field.metadata) for i, field in enumerate(every_field)]
    result = df.toDF(*map(str, range(len(df.columns)))).mapInArrow(scored, StructType(by_number))
    return result.toDF(*(field.name for field in every_field))
