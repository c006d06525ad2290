"""Write the golden states of format 3: run again only when the format changes before a release.

`python -m tests.online.state.golden.make_stream_3`
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from obil.online.online_classifier import OnlineClassifier
from obil.policies import FBetaPolicy
from obil.serving.files import load
from obil.serving.ratio_model import RatioModel
from obil.trackers import BayesBank

HERE = Path(__file__).parent
MODEL = Path(__file__).parents[3] / "serving" / "golden" / "format_1"  # its bits are those of its file
N_BEFORE, N_AFTER = 300, 40
SETTINGS: dict[str, dict[str, Any]] = {
    "safe": {"horizon": 50, "prior": 0.2},
    "bank": {"horizon": 40, "tracker": BayesBank(), "unlabeled_as": "ill", "policy": FBetaPolicy(), "monitor": False},
}


def rows_and_labels() -> tuple[np.ndarray, np.ndarray]:
    """Return scores, in hundredths, and labels of rows of which 4 of 10 are well."""
    rng = np.random.default_rng(3)
    labels = rng.random(N_BEFORE + N_AFTER) < 0.4
    scores = np.round(rng.standard_normal(len(labels)) + 1.5 * labels, 2)
    return scores, np.where(labels, "well", "ill")


def before(name: str, model: RatioModel) -> OnlineClassifier:
    """Return the stream whose state is the golden one."""
    online, (scores, labels) = OnlineClassifier(model, **SETTINGS[name]), rows_and_labels()
    for first in range(0, N_BEFORE, 30):
        ids = [f"order {row}" for row in range(first, first + 30)] if first == N_BEFORE - 30 else None
        online.decide_many(scores[first : first + 30], ids=ids)
        for row in range(max(0, first - 10), first, 4):
            online.feedback(row, labels[row], propensity=0.5)
    online.feedback("order 299", "well")
    if online.monitor is not None:
        online.restart_monitor()
    online.decide(0.25)
    return online


def after(online: OnlineClassifier) -> dict[str, Any]:
    """Let a stream continue; return what it decides, and where it stands."""
    scores, labels = rows_and_labels()
    first = online.n_rows
    decided = online.decide_many(scores[N_BEFORE : N_BEFORE + N_AFTER // 2])
    assert online.feedback("order 298", "well")
    assert online.feedback(first + 3, labels[N_BEFORE + 3])
    rest = online.decide_many(scores[N_BEFORE + N_AFTER // 2 :])
    return {
        "n_rows": online.n_rows,
        "labels": [*decided.labels.tolist(), *rest.labels.tolist()],
        "effective_priors": [*decided.effective_priors[:, 1].tolist(), *rest.effective_priors[:, 1].tolist()],
        "prior": online.prior.tolist(),
        "label_counts": [getattr(online.label_counts, name) for name in type(online.label_counts).__slots__],
        "monitoring_runs": [list(run) for run in online.monitoring_runs],
        "buckets": len(online.history.buckets()),
    }


if __name__ == "__main__":
    model = load(MODEL)
    for name in SETTINGS:
        state = before(name, model).state()
        (HERE / f"{name}_3.state").write_bytes(state)
        expected = after(OnlineClassifier.from_state(model, state))
        (HERE / f"{name}_3_expected.json").write_text(json.dumps(expected) + "\n")
