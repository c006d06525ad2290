"""Read where a stream of `obil stream` stands, whichever kind of state it has, without disturbing it."""

from pathlib import Path
from typing import NamedTuple

from obil.cli.label_journal import LabelJournal, journal_of
from obil.online.keyed_checkpoint import KeyedCheckpoint
from obil.online.state.checkpoint import Checkpoint, read_checkpoint

KEYED = b"SQLite format 3\0"  # the first bytes of a file with the states of keyed streams


class SavedStream(NamedTuple):
    """A checkpoint, the column of the keys where it is one of keyed streams, and the labels that wait for it."""

    checkpoint: Checkpoint
    by: str | None
    journal: LabelJournal


def read_stream(state: Path) -> SavedStream:
    """Return the last checkpoint of a stream; nothing is written."""
    if not is_keyed(state):
        checkpoint, by = read_checkpoint(state), None
    else:
        saved = KeyedCheckpoint(state).read()
        if saved is None:
            raise FileNotFoundError(2, "no stream has written it yet", str(state))
        checkpoint, by = saved
    return SavedStream(checkpoint, by, LabelJournal(journal_of(state), checkpoint.labels_bytes))


def is_keyed(state: Path) -> bool:
    """Return whether a file holds the states of keyed streams."""
    with state.open("rb") as file:
        return file.read(len(KEYED)) == KEYED
