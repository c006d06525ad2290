"""Notice labels that are all of one class though the scores expect others: then only that class is reported."""

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from obil.arrays import FloatArray, IntArray
from obil.bayes.posterior import posteriors_at
from obil.errors import InvalidStateError
from obil.flat_record import in_record
from obil.trackers import PriorTracker, SafeTracker

FEWEST_LABELS = 20
# If the scores are right and labels come at random, 5 expected and none found has a chance of 1 in 150.
FEWEST_EXPECTED = 5.0
MOST_ROWS, MOST_NUMBERS = 64, 1_600  # of labelled rows that are kept to look at


class OneClass(NamedTuple):
    """Labels that are all of one class, and how many others the scores expect."""

    label: int  # the class
    n_labels: int
    n_rows: int  # the last of them, that were looked at
    expected_others: float  # labels of other classes among those rows


class OneClassMemory(NamedTuple):
    """The last labelled rows, in a ring, and what is known of the labels."""

    log_ratios: npt.NDArray[np.float32]  # (M, K)
    counts: IntArray  # (4,) the class, or UNKNOWN or MIXED; labels; rows, and the place of the next one


CLASS, N_LABELS, N_ROWS, NEXT = range(4)  # places in `counts`
UNKNOWN, MIXED = -1, -2


class OneClassLabels:
    """The labels of a stream as long as all are of one class; from the first other one on, nothing is kept.

    >>> labels = OneClassLabels(2)
    >>> for _ in range(30):
    ...     labels.add(np.zeros(2), 1)
    >>> labels.finding(np.array([0.5, 0.5]))
    OneClass(label=1, n_labels=30, n_rows=30, expected_others=15.0)
    >>> labels.add(np.zeros(2), 0)
    >>> labels.finding(np.array([0.5, 0.5])) is None
    True
    """

    def __init__(self, n_classes: int) -> None:
        most = max(min(MOST_ROWS, MOST_NUMBERS // n_classes // 2 * 2), FEWEST_LABELS)
        rows = np.zeros((most, n_classes), dtype=np.float32)
        self.memory = in_record(OneClassMemory(rows, np.array([UNKNOWN, 0, 0, 0])))[0]

    @classmethod
    def on(cls, memory: OneClassMemory) -> Self:
        """Return the labels whose memory lies in a record."""
        found = cls.__new__(cls)
        found.memory = memory
        return found

    @property
    def suspicious(self) -> bool:
        """Whether there are enough labels, all of one class, to look at what the scores expect."""
        return bool(self.memory.counts[CLASS] != MIXED and self.memory.counts[N_LABELS] >= FEWEST_LABELS)

    def add(self, log_ratios: FloatArray, label: int, replaced: int | None = None) -> None:
        """Take in a label with the log ratios of its row, (K,), and the other class that it takes the place of."""
        rows, counts = self.memory
        known = counts[CLASS]
        if known == MIXED:
            return
        if replaced is not None or known not in (UNKNOWN, label):
            rows[...] = 0.0
            counts[:] = MIXED, 0, 0, 0
            return
        rows[counts[NEXT]] = log_ratios
        counts[:] = label, counts[N_LABELS] + 1, min(counts[N_ROWS] + 1, len(rows)), (counts[NEXT] + 1) % len(rows)

    def forget_scores(self) -> None:
        """Look at no row that an earlier model scored."""
        self.memory.log_ratios[...] = 0.0
        self.memory.counts[N_ROWS:] = 0

    def finding(self, prior: FloatArray) -> OneClass | None:
        """Return what is wrong if the prior (K,) holds that the scores alone give; None where nothing is."""
        label, n_labels, n_rows, _ = self.memory.counts.tolist()
        if not self.suspicious or not n_rows:
            return None
        rows = self.memory.log_ratios[:n_rows].astype(np.float64)
        posteriors = posteriors_at(rows, np.tile(prior, (n_rows, 1)))
        expected = float((1.0 - posteriors[:, label]).sum())
        if expected < FEWEST_EXPECTED:
            return None
        return OneClass(label, n_labels, n_rows, expected)

    def finding_beside(self, tracker: PriorTracker) -> OneClass | None:
        """Return what is wrong at the prior that a tracker has from the scores."""
        if not self.suspicious:
            return None
        if not isinstance(tracker, SafeTracker):
            return self.finding(tracker.prior)
        labels = tracker.label_summary()
        return None if labels is None else self.finding(labels.unlabelled_prior)

    def require_possible(self) -> None:
        """Refuse a restored memory that no stream could have left."""
        rows = self.memory.log_ratios
        label, n_labels, n_rows, place = self.memory.counts.tolist()
        fits = MIXED <= label < rows.shape[1] and 0 <= n_rows <= min(n_labels, len(rows)) and 0 <= place < len(rows)
        if not fits or not np.isfinite(rows).all():
            raise InvalidStateError("this state is damaged: its labels of one class are none")
