"""Say which class it means when no label has come."""

from typing import Any

from obil.errors import InvalidInputError
from obil.serving.ratio_model import RatioModel


def unlabeled_class(unlabeled_as: Any, model: RatioModel, positive: int | None) -> int | None:
    """Return the number of the class that unlabeled_as means, or None where it means nothing."""
    if unlabeled_as is None:
        return None
    names = model.classes_.tolist()
    if isinstance(unlabeled_as, str) and unlabeled_as == "negative" and unlabeled_as not in names:
        if positive is None or len(names) != 2:
            raise InvalidInputError(f'unlabeled_as="negative" needs two classes: name one of {names} instead')
        return 1 - positive
    if unlabeled_as not in names:
        raise InvalidInputError(f'unlabeled_as must be None, "negative" or one of {names}, got {unlabeled_as!r:.40}')
    return int(names.index(unlabeled_as))
