"""Fit the small models of the tests of the service."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import obil


def gaussian_rows(n_rows: int, prevalence: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n_rows) < prevalence).astype(int)
    return rng.normal(size=(n_rows, 3)) + labels[:, None] * np.array([2.0, 0.6, 0.4]), labels


def saved_model(folder: Path, *, seed: int = 0, views: bool = False, named: bool = False) -> Path:
    rows, labels = gaussian_rows(3_000, 0.1, seed)
    table = pd.DataFrame(rows, columns=["amount", "age", "visits"]) if named else rows
    model = obil.RatioClassifier(LogisticRegression(), views=views, random_state=0).fit(table, labels)
    obil.save(model, folder)
    return folder
