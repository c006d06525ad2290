"""Let a run decide a stream for each key, whose states are in one SQLite file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from obil.cli.decision_log import kept_cell
from obil.cli.label_journal import Label
from obil.datasets.table_stream import Columns
from obil.errors import InvalidInputError, InvalidStateError
from obil.online.decision import Decisions
from obil.online.keyed_checkpoint import KeyedCheckpoint
from obil.online.online_classifier import OnlineClassifier
from obil.online.online_fleet import OnlineFleet
from obil.online.state.checkpoint import Checkpoint
from obil.online.state.resume import resumed
from obil.serving.ratio_model import RatioModel, Scores

MOST_IN_MEMORY = 8_192  # streams, as many as the keys of rows read together: about 120 megabytes


class KeyedStreams:
    """A stream for each value of a column.

    Parameters
    ----------
    model
        What scores the rows of all of them.
    by
        The column of the keys.
    path
        Where their states are kept; None keeps them in memory, for this run only.
    settings
        Those of each stream.
    """

    def __init__(self, model: RatioModel, by: str, path: Path | None, **settings: Any) -> None:
        self.model, self.by, self.path = model, by, path
        self.n_rows = 0
        self._start = OnlineClassifier(model, **settings)  # what a new key starts as
        self._states = None if path is None else KeyedCheckpoint(path)
        most = None if path is None else MOST_IN_MEMORY
        self._fleet = OnlineFleet(model, store=self._states, most_in_memory=most, **settings)

    @property
    def positive(self) -> Any:
        """The class that is alerted on."""
        return self._start.positive

    def read(self) -> Checkpoint | None:
        """Return the checkpoint on disk; None where there is none."""
        saved = None if self._states is None else self._states.read()
        if saved is None:
            return None
        checkpoint, by = saved
        if by != self.by:
            raise InvalidStateError(
                f"{self.path} belongs to streams by the column {by!r:.60}, not {self.by!r:.60}: give that one, or "
                "another --state"
            )
        return checkpoint

    def resume(self, saved: Checkpoint, *, change_policy: bool) -> None:
        """Continue from a checkpoint; the stream of a key is read when the key has a row."""
        resumed(self._start, saved.online, name=str(self.path), change_policy=change_policy)
        self.n_rows = saved.n_rows

    def open(self) -> None:
        """Become the only writer of the states."""
        if self._states is not None:
            self._states.open()

    def require_keys(self, rows: Columns) -> None:
        """Refuse rows without a key."""
        for row, cell in enumerate(rows[self.by].tolist()):
            if kept_cell(cell) == "":
                raise InvalidInputError(
                    f"column {self.by!r:.60} must name the stream of every row, got none in row {row}"
                )

    def feedback(self, label: Label, decision: str | int, number: int) -> bool:
        """Learn the class of a decision of a key; return whether it is remembered."""
        return self._fleet.feedback(
            label.key, decision, self.model.classes_.tolist()[number], propensity=label.propensity
        )

    def decide(self, rows: Columns, scores: Scores, ids: Sequence[str] | None) -> Decisions:
        """Decide rows, in order within each key, which are known by their ids, or by their numbers in the stream."""
        keys = [str(kept_cell(cell)) for cell in rows[self.by].tolist()]
        first, self.n_rows = self.n_rows, self.n_rows + len(keys)
        return self._fleet.decide_scores(scores, keys=keys, ids=ids or range(first, self.n_rows))

    def state(self) -> bytes:
        """Return what all streams have in common: the state of a new one."""
        return self._start.state()

    def write(self, checkpoint: Checkpoint) -> None:
        """Write the streams that had rows, and the checkpoint, in one transaction."""
        assert self._states is not None  # else a run has no checkpoints
        self._fleet.flush()
        self._states.commit(checkpoint, self.by)

    def close(self) -> None:
        """Let the states go."""
        if self._states is not None:
            self._states.close()

    def summary(self) -> dict[str, Any]:
        """Return how many streams there are."""
        return {"by": self.by, "keys": len(self._fleet)}
