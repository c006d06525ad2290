"""Limit the requests in progress: of all, and of each API key."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from obil.service.http.access import ANONYMOUS
from obil.service.refusals import BusyError, TooManyRequestsError


class InProgress:
    """Counts requests from the time their body has arrived until they are answered.

    Without keys only the limit of all requests holds.

    >>> requests = InProgress(most=10, most_per_key=1)
    >>> with requests.one("till 7"):
    ...     with requests.one("till 7"):
    ...         pass
    Traceback (most recent call last):
        ...
    obil.service.refusals.TooManyRequestsError: the key has 1 requests in progress, as many as a key may have: ...
    """

    def __init__(self, *, most: int, most_per_key: int) -> None:
        self._most, self._most_per_key = most, most_per_key
        self.total = 0
        self._of_key: Counter[str] = Counter()

    @contextmanager
    def one(self, caller: str) -> Iterator[None]:
        """Count a request for as long as the block runs, or refuse it."""
        if self.total >= self._most:
            raise BusyError(f"{self.total} requests are in progress, as many as the service allows: try again")
        if caller != ANONYMOUS and self._of_key[caller] >= self._most_per_key:
            raise TooManyRequestsError(
                f"the key has {self._of_key[caller]} requests in progress, as many as a key may have: wait for them"
            )
        self.total += 1
        self._of_key[caller] += 1
        try:
            yield
        finally:
            self.total -= 1
            self._of_key[caller] -= 1
            if not self._of_key[caller]:
                del self._of_key[caller]
