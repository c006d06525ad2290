"""Rows to freeze models on: numbers on several scales, codes, strings, missing and unseen values."""

import numpy as np
import pandas as pd

from obil.arrays import FloatArray, IntArray


def labelled(n: int, n_classes: int, *, missing: bool, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Return four numbers and two columns of codes; with `missing`, a tenth of the cells are NaN."""
    rng = np.random.default_rng(seed)
    odds = np.array([6, 3, 1][:n_classes])
    labels = rng.choice(n_classes, n, p=odds / odds.sum())
    rows = rng.normal(size=(n, 6)) * [1.0, 100.0, 1e-3, 1.0, 1.0, 1.0]
    rows[:, 0] += labels
    rows[:, 1] -= 100.0 * (labels == n_classes - 1)
    rows[:, 3] = rows[:, 3].round()
    rows[:, 4] = rng.integers(0, 6, n) + (labels == 1)
    rows[:, 5] = rng.integers(0, 4, n)
    if missing:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows, labels


def unseen(n: int, n_classes: int, *, missing: bool) -> FloatArray:
    """Return fresh rows, some with numbers far outside and codes that training never had."""
    rows = labelled(n, n_classes, missing=missing, seed=1)[0]
    rows[: n // 20, :4] *= 50.0
    rows[n // 20 : n // 10, 4] = 17.0
    return rows


def table(n: int, *, seed: int = 0, categorical: bool = False, strange: bool = False) -> tuple[pd.DataFrame, IntArray]:
    """Return numbers, strings and truth values by name; with `strange`, strings that training never had."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(2, n, p=[0.7, 0.3])
    ward = np.where((labels == 1) & (rng.random(n) < 0.5), "D", rng.choice(list("ABCD"), n)).astype(object)
    if strange:
        ward[: n // 20], ward[n // 20 : n // 10] = "Z", np.nan
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n) + labels,
            "visits": rng.integers(0, 9, n),
            "ward": ward,
            "sex": rng.choice(["f", "m"], n).astype(object),
            "smokes": rng.random(n) < 0.3,
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    if categorical:
        frame = frame.assign(ward=frame["ward"].astype("category"), sex=frame["sex"].astype("category"))
    return frame, labels
