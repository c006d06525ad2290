"""States of keyed streams are as the last commit left them, whatever happened since."""

import sqlite3
from pathlib import Path

import pytest

from obil.errors import InvalidInputError, InvalidStateError
from obil.online.keyed_checkpoint import KeyedCheckpoint
from obil.online.state.checkpoint import Checkpoint


def checkpoint(n_rows: int) -> Checkpoint:
    return Checkpoint("m", ["row"], n_rows, [n_rows, 0], "", 10 * n_rows, 4, "", b"start")


def test_what_was_set_after_the_last_commit_is_gone_together(tmp_path: Path) -> None:
    path = tmp_path / "today.state"
    with KeyedCheckpoint(path) as states:
        assert states.read() is None
        assert not path.exists()
        states.open()
        states["a"], states["b"] = b"1", b"2"
        states.commit(checkpoint(5), "branch")
        states["a"], states["c"] = b"3", b"4"
        del states["b"]
        assert sorted(states) == ["a", "c"]
        assert len(states) == 2
        assert states["a"] == b"3"
    with KeyedCheckpoint(path) as states:
        assert states.read() == (checkpoint(5), "branch")
        states.open()
        assert dict(states) == {"a": b"1", "b": b"2"}
        assert "c" not in states
        with pytest.raises(KeyError):
            states["c"]
        with pytest.raises(KeyError):
            del states["c"]


def test_a_file_that_was_never_committed_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "today.state"
    with KeyedCheckpoint(path) as states:
        states.open()
        states["a"] = b"1"
    assert path.exists()
    assert KeyedCheckpoint(path).read() is None


def test_a_file_has_one_writer_and_any_readers(tmp_path: Path) -> None:
    path = tmp_path / "today.state"
    with KeyedCheckpoint(path) as states, KeyedCheckpoint(path) as other:
        states.open()
        states.commit(checkpoint(1), "branch")
        assert other.read() == (checkpoint(1), "branch")
        with pytest.raises(InvalidInputError, match="one writer"):
            other.open()


def test_nothing_is_set_before_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"call open\(\) first"):
        KeyedCheckpoint(tmp_path / "today.state")["a"] = b"1"


@pytest.mark.parametrize("damage", ["text", "other tables", "no checkpoint", "changed checkpoint", "cut"])
def test_damaged_files_are_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "today.state"
    with KeyedCheckpoint(path) as states:
        states.open()
        states["a"] = b"1" * 20_000
        states.commit(checkpoint(1), "branch")
    connection = sqlite3.connect(path)
    if damage == "text":
        path.write_text("not a database, and long enough to be taken for one\n" * 100)
    elif damage == "other tables":
        connection.execute("PRAGMA application_id = 7")
    elif damage == "no checkpoint":
        connection.execute("DELETE FROM checkpoint")
    elif damage == "changed checkpoint":
        connection.execute("UPDATE checkpoint SET packed = CAST(substr(packed, 1, 90) AS BLOB) || x'00'")
    else:
        path.write_bytes(path.read_bytes()[:5_000])
    connection.commit()
    connection.close()
    with pytest.raises(InvalidStateError, match=r"today.state"):
        KeyedCheckpoint(path).read()


def test_a_path_that_no_file_can_be_made_at_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"unable to open") as raised:
        KeyedCheckpoint(tmp_path / "missing" / "today.state").open()
    assert raised.value.filename == str(tmp_path / "missing" / "today.state")
