"""Save a model, or a running stream with its model, as a folder, and load either: JSON and safetensors, no pickle."""

import json
import os
from collections.abc import Collection
from typing import Any

from obil.errors import InvalidStateError
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.packed_state import refuse_constant
from obil.serving import files
from obil.serving.ratio_model import RatioModel

STREAM = "stream.json"  # OnlineClassifier.state(), in the folder of its model


def save(obj: Any, folder: str | os.PathLike[str]) -> None:
    """Write a fitted classifier, or an `OnlineClassifier` with its model, to a folder: whole or not at all.

    An older model or stream at the same place is replaced; anything else that is there is left alone.

    >>> save(OnlineClassifier(model), "stream/")  # doctest: +SKIP
    """
    if not isinstance(obj, OnlineClassifier):
        files.save(obj, folder)
        return
    state = json.dumps(obj.state(), allow_nan=False)
    files.save(obj.model, folder, beside={STREAM: state.encode()})


def load(folder: str | os.PathLike[str], *, trusted: Collection[str] = ()) -> RatioModel | OnlineClassifier:
    """Read what `save` wrote, checking every file before anything is built from it.

    A stream continues bit for bit where it was saved. A wrapped estimator is built only from listed scikit-learn and
    imbalanced-learn types; `trusted` names further types that you vouch for.

    >>> load("no such folder")
    Traceback (most recent call last):
        ...
    obil.errors.ModelFileError: ...
    """
    model = files.load(folder, trusted=trusted)
    saved = files.saved_beside(folder, STREAM)
    if saved is None:
        return model
    try:
        state = json.loads(saved, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidStateError(f"{STREAM} in {os.fspath(folder)} is damaged: it is not JSON") from None
    return OnlineClassifier.from_state(model, state)
