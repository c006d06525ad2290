"""Let a run decide one stream, whose state is a small file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from obil.arrays import FloatArray
from obil.cli.label_journal import Label
from obil.cli.saved_stream import is_keyed
from obil.datasets.table_stream import Columns
from obil.errors import EstimationError, InvalidStateError
from obil.online.decision import Decisions
from obil.online.online_classifier import OnlineClassifier
from obil.online.state.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from obil.online.state.resume import resumed
from obil.serving.ratio_model import RatioModel, Scores


@dataclass(slots=True)
class SingleStream:
    """One stream of all rows."""

    online: OnlineClassifier
    path: Path | None  # of its state
    start_prior: FloatArray

    @property
    def model(self) -> RatioModel:
        """The model that scores."""
        return self.online.model

    @property
    def positive(self) -> Any:
        """The class that is alerted on."""
        return self.online.positive

    @property
    def n_rows(self) -> int:
        """How many rows were decided."""
        return self.online.n_rows

    def read(self) -> Checkpoint | None:
        """Return the state on disk; None where there is none."""
        if self.path is None or not self.path.exists():
            return None
        if is_keyed(self.path):
            raise InvalidStateError(
                f"{self.path} belongs to keyed streams: give --by and their column, or another --state"
            )
        return read_checkpoint(self.path)

    def resume(self, saved: Checkpoint, *, change_policy: bool) -> None:
        """Continue from a state."""
        self.online = resumed(self.online, saved.online, name=str(self.path), change_policy=change_policy)
        if self.online.n_rows != saved.n_rows:
            raise InvalidStateError(f"{self.path} is damaged: its field 'n_rows' is wrong")

    def open(self) -> None:
        """Begin to write: a state is written as a whole."""

    def require_keys(self, rows: Columns) -> None:
        """Refuse rows that belong to no stream: all belong to this one."""

    def decide(self, rows: Columns, scores: Scores, ids: Sequence[str] | None) -> Decisions:
        """Decide rows, in order, which are known by their ids, or by their numbers."""
        return self.online.decide_scores(scores, ids=ids)

    def feedback(self, label: Label, decision: str | int, number: int) -> bool:
        """Learn the class of a decision; return whether it is remembered."""
        return self.online.feedback(decision, self.model.classes_.tolist()[number], propensity=label.propensity)

    def state(self) -> bytes:
        """Return what `resume` continues from."""
        return self.online.state()

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the state on disk."""
        assert self.path is not None  # else a run has no checkpoints
        write_checkpoint(self.path, checkpoint)

    def close(self) -> None:
        """Let the state go."""

    def summary(self) -> dict[str, Any]:
        """Return the prior, its interval and the threshold now."""
        online, names = self.online, self.model.classes_.tolist()
        try:
            interval = online.interval()
        except EstimationError:
            interval = None
        return {
            "prior_at_start": dict(zip(names, self.start_prior.tolist(), strict=True)),
            "prior": dict(zip(names, online.prior.tolist(), strict=True)),
            "interval_90": None if interval is None else dict(zip(names, interval.tolist(), strict=True)),
            "log_threshold": online.log_threshold,
            "expected": None if online.positive is None else expected_of(online),
        }


def expected_of(online: OnlineClassifier) -> dict[str, Any]:
    """Return what is to be expected of the next rows, each figure with its interval and where it comes from."""
    now = online.performance().now
    figures = {name: asdict(one) for name, one in now.figures()}
    return {**figures, "trusted": now.trusted, "text": now.describe()}
