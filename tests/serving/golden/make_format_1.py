"""Write the golden model of format 1: run again only when the format changes before a release."""

import json
from pathlib import Path

import numpy as np

from obil.estimators.ratio_classifier import RatioClassifier
from obil.serving.files import load, save

HERE = Path(__file__).parent

if __name__ == "__main__":
    rng = np.random.default_rng(1)
    positive = np.repeat([False, True], [30, 10])
    scores = np.round(rng.standard_normal(40) + 1.5 * positive, 2)
    labels = np.where(positive, "well", "ill")
    save(RatioClassifier.from_scores(scores, labels, kind="margin"), HERE / "format_1")
    expected = load(HERE / "format_1").log_ratios([-2.0, 0.0, 3.5])[:, 1]
    (HERE / "format_1_expected.json").write_text(json.dumps(expected.tolist()) + "\n")
