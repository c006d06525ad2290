"""Say which class it means when no label has come."""

from typing import Any

from obil.errors import InvalidInputError
from obil.model.ratio_model import RatioModel


def meaning_of_silence(silence: Any, model: RatioModel, positive: int | None) -> int | None:
    """Return the number of the class that silence means, or None where it means nothing."""
    if silence is None:
        return None
    names = model.classes_.tolist()
    if isinstance(silence, str) and silence == "negative" and silence not in names:
        if positive is None or len(names) != 2:
            raise InvalidInputError(f'silence="negative" needs two classes: name one of {names} instead')
        return 1 - positive
    if silence not in names:
        raise InvalidInputError(f'silence must be None, "negative" or one of {names}, got {silence!r:.40}')
    return int(names.index(silence))
