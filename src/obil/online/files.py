"""Save a model, or a running stream with its model, as a folder, and load either: no pickle."""

import os
from collections.abc import Collection
from typing import Any

from obil.online.online_classifier import OnlineClassifier
from obil.serving import files
from obil.serving.ratio_model import RatioModel

STREAM = "stream.state"  # OnlineClassifier.state(), in the folder of its model


def save(obj: Any, folder: str | os.PathLike[str]) -> None:
    """Write a fitted classifier, or an `OnlineClassifier` with its model, to a folder: whole or not at all.

    An older model or stream at the same place is replaced; anything else that is there is left alone.

    >>> save(OnlineClassifier(model), "stream/")  # doctest: +SKIP
    """
    if not isinstance(obj, OnlineClassifier):
        files.save(obj, folder)
        return
    files.save(obj.model, folder, beside={STREAM: obj.state()})


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
    return model if saved is None else OnlineClassifier.from_state(model, saved)
