"""What the examples of the pages start from: labelled payments, as names and as files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import obil

FEATURES = ["amount", "age"]


def payments(n_rows: int, *, seed: int, prior: float = 0.2) -> pd.DataFrame:
    """Return payments in the order of time, a fraction of them frauds, of three branches."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n_rows) < prior
    return pd.DataFrame(
        {
            "order": [f"order {seed}-{number}" for number in range(n_rows)],
            "day": pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(n_rows) // 10, unit="D"),
            "branch": rng.choice(["north", "south", "west"], n_rows),
            "amount": rng.normal(1.8 * fraud).round(4),
            "country": np.where(rng.random(n_rows) < 0.2 + 0.3 * fraud, "DE", "FR"),
            "age": rng.normal(45.0 - 12.0 * fraud, 12.0).round(2),
            "fraud": fraud.astype(int),
        }
    )


def judged(fraud: pd.Series, *, seed: int) -> list[str]:
    """Return what a judge says who is right about 85 % of the rows."""
    wrong = np.random.default_rng(seed).random(len(fraud)) < 0.15
    return ["yes" if says else "no" for says in (fraud == 1) != wrong]


def names_for(page: str) -> dict[str, Any]:
    """Return the names that the first block of a page takes for granted."""
    history, holdout, today = (payments(n, seed=seed) for seed, n in enumerate((1_200, 800, 400)))
    classes = np.array(["ok", "fraud"] if page in ("docs/safety.md", "docs/sets.md") else [0, 1])
    X, y = history[FEATURES], classes[history["fraud"]]
    fitted = LogisticRegression().fit(X, y)
    model = obil.RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(X, y)
    stream = today[FEATURES].to_dict("records")
    return {
        "obil": obil,
        "model": model,
        "online": obil.OnlineClassifier(model),
        "X": X,
        "y": y,
        "X_holdout": holdout[FEATURES],
        "y_holdout": classes[holdout["fraud"]],
        "stream": stream,
        "row": stream[0],
        "branches": history["branch"].to_list(),
        "fitted": fitted,
        "X_labeled": holdout[FEATURES],
        "y_labeled": classes[holdout["fraud"]],
        "scores": fitted.predict_proba(X)[:, 1],
        "table": history[["country", *FEATURES]],
        "new_table": holdout[["country", *FEATURES]],
        "new_y": classes[holdout["fraud"]],
        "labelled_verdicts": judged(holdout["fraud"][:200], seed=6),
        "labels": classes[holdout["fraud"][:200]],
        "verdicts": judged(today["fraud"], seed=7),
        "days": np.array_split(judged(today["fraud"], seed=7), 4),
        "photos": np.random.default_rng(0).normal(size=(200, 1, 28, 28)).astype(np.float32),
        "digits": np.arange(200) % 10,
    }


def write_files(folder: Path) -> None:
    """Write the model and the tables that the commands of the pages read."""
    obil.save(names_for("README.md")["model"], folder / "model")
    today = payments(600, seed=2, prior=0.3)
    tables = {
        "history": payments(1_500, seed=0),
        "holdout": payments(1_500, seed=1),
        "labeled": payments(1_500, seed=3),
        "today": today,
        "in": today,
        "north": payments(400, seed=4),
        "south": payments(400, seed=5),
        "labels": today[["order", "fraud"]].rename(columns={"fraud": "outcome"})[:200],
    }
    fitted = LogisticRegression().fit(tables["history"][FEATURES], tables["history"]["fraud"])
    tables["scored"] = tables["holdout"].assign(score=fitted.predict_proba(tables["holdout"][FEATURES])[:, 1])
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
