"""Score the rows of requests; those that wait together are scored in one call, whichever streams they are for."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from obil.errors import ObilError
from obil.service.refusals import BadInputError, ModelChangedError, RefusedError
from obil.service.streams.operations import Rows
from obil.serving.ratio_model import RatioModel, Scores


def score(rows: Rows, model: RatioModel) -> Scores:
    """Return the log ratios and the evidence of rows by the model they were read for."""
    if rows.read_for is not None and not _read_alike(rows.read_for, model):
        raise ModelChangedError("the model was replaced during this request: send it again")
    try:
        scores = model.score(rows.table)
    except (ObilError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # obil's own, or those of the wrapped model, which may be any
        raise BadInputError(f"these rows cannot be scored: {error!s:.300}") from None
    scores.log_ratios[:, 0] = scores.evidence[..., 0] = 0.0  # it may be -0.0, which the log does not store
    return scores


def score_together(requests: Sequence[Rows], model: RatioModel) -> list[Scores | None]:
    """Return the scores of the rows of each request, None for those that must be scored by themselves.

    >>> from obil import RatioClassifier
    >>> model = RatioClassifier.from_scores([-2.0, -1.0, 1.0, -1.0, 1.0, 2.0] * 10, [0, 0, 0, 1, 1, 1] * 10).model_
    >>> requests = [Rows(np.array([[value]]), 1) for value in (-1.0, 2.0, np.nan)]
    >>> [len(one.log_ratios) for one in score_together(requests[:2], model)]
    [1, 1]
    >>> score_together(requests, model)  # one of them is wrong
    [None, None, None]
    """
    found: list[Scores | None] = [None] * len(requests)
    alike: dict[tuple[object, ...], list[int]] = {}
    for place, rows in enumerate(requests):
        if type(rows.table) is np.ndarray:
            key = id(rows.read_for), rows.table.shape[1:], rows.table.dtype
            alike.setdefault(key, []).append(place)
    for places in alike.values():
        if len(places) == 1:
            continue
        joined = Rows(
            np.concatenate([requests[place].table for place in places]),
            sum(requests[place].n_rows for place in places),
            read_for=requests[places[0]].read_for,
        )
        try:
            scores = score(joined, model)
        except RefusedError:
            continue
        ends = accumulate((requests[place].n_rows for place in places), initial=0)
        for place, (first, end) in zip(places, pairwise(ends), strict=True):
            found[place] = Scores(scores.log_ratios[first:end], scores.evidence[first:end])
    return found


def _read_alike(one: RatioModel, two: RatioModel) -> bool:
    """Return whether a table means the same to both: category codes and column order may have changed."""
    return one is two or (one.columns, one.feature_names) == (two.columns, two.feature_names)
