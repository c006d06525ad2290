"""Decide many keyed streams with Structured Streaming: one online classifier per key, exactly once."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql import types as T  # noqa: N812  # the usual name

from obil.arrays import PriorLike
from obil.bayes.costs import Costs
from obil.errors import InvalidInputError
from obil.monitor import LabelShiftMonitor
from obil.online.online_classifier import HORIZON, OnlineClassifier
from obil.policies import Policy
from obil.serving.ratio_model import RatioModel
from obil.serving.scorers import ColumnScorer
from obil.spark import columns
from obil.spark.bucket_lines import DECIDED, EVIDENCE, ID, LABEL, PROPENSITY, RATIOS, TIME, RowLayout
from obil.spark.bucket_processor import BUCKET, GUARD, BucketProcessor
from obil.spark.shipped_model import ShippedModel
from obil.trackers import PriorTracker

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
BUCKETS = 64
MOST_BUCKETS = 1_000_000


def stream(
    df: DataFrame,
    model: Any,
    *,
    key: str | Sequence[str],
    time: str,
    id: str | None = None,  # noqa: A002  # the usual name
    label: str | None = None,
    propensity: str | None = None,
    costs: Costs | None = None,
    policy: Policy | None = None,
    tracker: PriorTracker | None = None,
    prior: PriorLike | Mapping[Any, float] | None = None,
    positive: Any = None,
    monitor: bool | LabelShiftMonitor = True,
    horizon: int = HORIZON,
    unlabeled_as: Any = None,
    expire_after: timedelta | None = None,
    features: Sequence[str] | None = None,
    trusted: Collection[str] = (),
    replaces: Sequence[Any] = (),
    buckets: int = BUCKETS,
) -> DataFrame:
    """Return the decisions of a keyed stream: each key has its own prior, updated by its own rows.

    Rows and delayed labels are one input: a line whose `label` is null is a row to decide, any other is the true label
    of the row with that `id`. Within a micro-batch the lines of a key are ordered by time; at equal times rows come
    before labels, then by id, then by content. Given the same log ratios, the decisions are bit for bit those of one
    `OnlineClassifier` per key.

    Parameters
    ----------
    df
        A streaming table, or another one, in which every key starts from the start prior.
    model
        A model folder, a fitted classifier, or what `obil.load` returns.
    key, time
        The columns that name the stream of a row and order it.
    id, label, propensity
        The columns of a row's id, its true label and the probability that the label was asked for; without `id` rows
        are numbered, and labels are not possible.
    costs, policy, tracker, prior, positive, monitor, horizon, unlabeled_as
        As for `OnlineClassifier`, for new keys. Costs and policy belong to the query: changed between two runs, they
        apply to every key from the next row on.
    expire_after
        How long a key may be idle, by the cluster's clock, before it is dropped; None keeps all. Spark then runs a
        batch at every trigger, so the query does not end by itself under `availableNow`.
    features, trusted
        As for `score`.
    replaces
        Models of earlier runs of this query, newest last: their keys' priors carry over to the new model.
    buckets
        Into how many groups keys are hashed; Spark calls Python once per group and micro-batch. No more cores than that
        can be used. It cannot change under a checkpoint: a query with another number is refused.

    Returns
    -------
    DataFrame
        The key, time and id of each row, with `log_ratio`, `prior`, `posterior`, `threshold`, `decision`, `trusted`.

    Notes
    -----
    This operator needs the RocksDB state store; `stream` sets it in the session.

    >>> decisions = stream(rows, "model/", key="customer", time="at")  # doctest: +SKIP
    >>> decisions.writeStream.format("parquet").start("decisions/")  # doctest: +SKIP
    """
    shipped = ShippedModel.of(model, trusted=trusted)
    fitted = shipped.load()
    names = columns.feature_columns(df, fitted, features)
    keys = [key] if isinstance(key, str) else list(key)
    if not keys:
        raise InvalidInputError("key must name at least one column, got none")
    if type(buckets) is not int or not 1 <= buckets <= MOST_BUCKETS:
        raise InvalidInputError(f"buckets must be an integer from 1 to {MOST_BUCKETS:,}, got {buckets!r:.40}")
    columns.require_columns(df, [name for name in (*keys, time, id, label, propensity) if name is not None])
    if label is not None and id is None:
        raise InvalidInputError("label needs id=, the column that joins labels to rows")
    if id is not None and not isinstance(df.schema[id].dataType, T.StringType | T.IntegralType):
        raise InvalidInputError(
            f"id must be a column of strings or integers: {id!r} is {df.schema[id].dataType.simpleString()}"
        )
    columns.require_free([*DECIDED, *(["id"] if id is None else [])], [*keys, time, *([] if id is None else [id])])
    old = _replaced(replaces, fitted, trusted)
    settings: dict[str, Any] = {"costs": costs, "policy": policy, "tracker": tracker, "prior": prior}
    settings |= {"positive": positive, "monitor": monitor, "horizon": horizon, "unlabeled_as": unlabeled_as}
    online = OnlineClassifier(fitted, **settings)
    n_inputs = int(getattr(online.tracker, "n_inputs", 0))  # they stand behind all views
    n_more = fitted.n_views + n_inputs if n_inputs else int(getattr(online.tracker, "n_views", 0))
    plain = fitted.evidence is None and fitted.n_folds == 1 and not n_more
    plain = plain and isinstance(fitted.scorer, ColumnScorer)  # other rows may lack all features, which evidence says
    inner_keys = {f"obil_key{i}": name for i, name in enumerate(keys)}
    layout = RowLayout(
        keys=tuple(inner_keys),
        n_classes=fitted.n_classes,
        evidence=None if plain else (fitted.n_folds, 1 + n_more),
        has_ids=id is not None,
        has_labels=label is not None,
        has_propensities=propensity is not None,
    )
    texts = [columns.as_text(df, name, role="a key") for name in keys]
    carried = [F.pmod(F.xxhash64(*texts), F.lit(buckets)).cast("int").alias(BUCKET)]
    carried += [text.alias(inner) for text, inner in zip(texts, inner_keys, strict=True)]
    carried.append(columns.as_ordered(df, time).alias(TIME))
    others = ((id, ID), (label, LABEL), (propensity, PROPENSITY))
    carried += [columns.named(name).alias(inner) for name, inner in others if name is not None]
    rows = _scored(df.select(*carried, *columns.numbered_features(names)), shipped, names, layout, {TIME: time, ID: id})
    expire_ms = None if expire_after is None else _milliseconds(expire_after)
    processor = BucketProcessor(shipped, old, online.state(), layout, buckets, expire_ms)
    if df.sparkSession.conf.get(PROVIDER, "") != ROCKS_DB:
        df.sparkSession.conf.set(PROVIDER, ROCKS_DB)
    id_type: T.DataType = T.LongType() if id is None else df.schema[id].dataType
    fields = [T.StructField(inner, T.StringType()) for inner in inner_keys]
    fields += [T.StructField(TIME, rows.schema[TIME].dataType), T.StructField(ID, id_type), *_decided_fields(fitted)]
    decided = rows.groupBy(BUCKET).transformWithStateInPandas(
        processor, T.StructType(fields), "append", "None" if expire_ms is None else "ProcessingTime"
    )
    given = {name: columns.from_text(F.col(inner), df.schema[name].dataType) for inner, name in inner_keys.items()}
    given.setdefault(time, columns.from_ordered(F.col(TIME), df.schema[time].dataType))  # one column may have two roles
    given.setdefault(id or "id", F.col(ID))
    return decided.select(*(column.alias(name) for name, column in given.items()), *DECIDED)


def _scored(
    inputs: DataFrame, shipped: ShippedModel, names: list[str], layout: RowLayout, needed: Mapping[str, str | None]
) -> DataFrame:
    """Score rows before the shuffle by bucket: in large batches, and only log ratios are sent."""
    load = shipped.loader(inputs)
    kept = [field for field in inputs.schema.fields if not field.name.startswith(columns.FEATURE)]
    extra = [RATIOS, *([] if layout.evidence is None else [EVIDENCE])]

    def scored(tables: Iterator[Any]) -> Iterator[Any]:
        model: RatioModel = load()
        for number, table in enumerate(tables):
            for inner, name in needed.items():
                if name is not None and table[inner].isna().any():
                    raise InvalidInputError(f"column {name!r} must not be null, and is in one line: filter such lines")
            found = table[[field.name for field in kept]].copy()
            for name in extra:
                found[name] = pd.Series([None] * len(table), dtype=object, index=table.index)
            to_score = table[LABEL].isna() if layout.has_labels else pd.Series(True, index=table.index)
            if to_score.any():
                scores = model.score(columns.model_input(table[to_score], names, model))
                found.loc[to_score, RATIOS] = _objects(columns.as_binary(scores.log_ratios))
                if layout.evidence is not None:
                    evidence = scores.evidence[:, :, : layout.evidence[1]]
                    found.loc[to_score, EVIDENCE] = _objects(columns.as_binary(evidence))
            if number == 0:
                yield found.iloc[:1].assign(**{BUCKET: GUARD})  # any line will do
            yield found

    return inputs.mapInPandas(scored, T.StructType([*kept, *(T.StructField(name, T.BinaryType()) for name in extra)]))


def _replaced(replaces: Any, model: RatioModel, trusted: Collection[str]) -> tuple[ShippedModel, ...]:
    """Return the models of earlier runs, which must have the same classes."""
    given = replaces if isinstance(replaces, list | tuple) else [replaces]
    old = tuple(ShippedModel.of(one, trusted=trusted) for one in given)
    for one in old:
        before, now = one.load().classes_.tolist(), model.classes_.tolist()
        if before != now:
            raise InvalidInputError(f"a replaced model has the classes {before!r:.80}, the new one {now!r:.80}")
    return old


def _objects(values: list[bytes]) -> Any:
    return pd.Series(values, dtype=object).to_numpy()


def _decided_fields(model: RatioModel) -> list[T.StructField]:
    kinds: dict[str, T.DataType] = dict.fromkeys(DECIDED, columns.vector_type(model))
    kinds |= {"threshold": T.DoubleType(), "decision": columns.class_type(model), "trusted": T.BooleanType()}
    return [T.StructField(name, kinds[name]) for name in DECIDED]


def _milliseconds(duration: Any) -> int:
    milliseconds = round(duration.total_seconds() * 1_000) if isinstance(duration, timedelta) else 0
    if milliseconds <= 0:
        raise InvalidInputError(f"expire_after must be a positive timedelta, got {duration!r}")
    return milliseconds
