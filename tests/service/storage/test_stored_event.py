"""Decided rows come back from their bytes bit for bit."""

import numpy as np
import pytest

from obil.errors import InvalidStateError
from obil.service.storage.stored_event import DecidedRows, inputs_of, read_rows, write_rows


def decided(n_classes: int, n_sources: int | None, *, seed: int = 0) -> DecidedRows:
    """Return made-up rows; without sources, log ratios are the evidence."""
    rng = np.random.default_rng(seed)
    ratios = rng.normal(size=(7, n_classes))
    ratios[:, 0] = 0.0
    evidence = None if n_sources is None else rng.normal(size=(7, n_sources, n_classes))
    if evidence is not None:
        evidence[:, :, 0] = 0.0
    ids, numbers, flags = ["a", 2, "c", "d", 5, "f", "g"], np.arange(7) % n_classes, np.full(7, 3, "u1")
    return DecidedRows(ids, ratios, evidence, numbers, flags, "v1", np.abs(ratios), np.arange(7.0))


@pytest.mark.parametrize("n_classes", [2, 3, 300])
@pytest.mark.parametrize("n_sources", [None, 1, 5])
def test_rows_come_back_bit_for_bit(n_classes: int, n_sources: int | None) -> None:
    rows = decided(n_classes, n_sources)
    payload = write_rows(rows, inputs=[{"x": i} for i in range(7)])
    found = read_rows(payload)
    assert found.ids == rows.ids
    assert inputs_of(payload) == [{"x": i} for i in range(7)]
    for one, other in zip(found[1:], rows[1:], strict=True):
        if isinstance(other, np.ndarray):
            assert (one.tobytes(), one.shape) == (other.tobytes(), other.shape)
        else:
            assert one == other


@pytest.mark.parametrize("n_sources", [None, 5])
def test_rows_cut_short_are_refused(n_sources: int | None) -> None:
    payload = write_rows(decided(2, n_sources))
    for length in (0, 5, len(payload) // 2, len(payload) - 1):
        with pytest.raises(InvalidStateError, match="damaged"):
            read_rows(payload[:length])


def test_what_all_rows_have_is_stored_once_and_comes_back_for_each() -> None:
    rows = decided(3, None)
    alike = rows._replace(priors=np.tile(rows.priors[:1], (7, 1)), thresholds=np.full(7, 0.25))
    payload = write_rows(alike)
    assert len(write_rows(rows)) - len(payload) == 6 * (3 + 1) * 8
    found = read_rows(payload)
    assert found.priors.tobytes() == alike.priors.tobytes()
    assert found.thresholds is not None
    assert found.thresholds.tobytes() == np.full(7, 0.25).tobytes()
    assert len(read_rows(write_rows(rows._replace(priors=rows.priors * np.nan))).priors) == 7
