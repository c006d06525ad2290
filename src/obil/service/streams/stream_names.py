"""Take the name of a stream only where no path, query, log or file could misread it."""

import re

from obil.service.refusals import BadInputError

PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)


def as_stream_name(name: str) -> str:
    """Return the name, or refuse it.

    >>> as_stream_name("shop-7.eu")
    'shop-7.eu'
    """
    if _NAME.fullmatch(name) is None:
        raise BadInputError(
            "a stream is named by 1 to 128 letters, digits, dots, hyphens and underscores, the first a letter or a "
            f"digit, got {name!r:.80}",
            where="stream",
        )
    return name
