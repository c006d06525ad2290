"""Compile the machine code that deciding needs, so that the first row of a new machine does not wait for it."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import obil

random = np.random.default_rng(0)
labels = (random.random(3_000) < 0.2).astype(int)
rows = random.normal(size=(3_000, 3)) + labels[:, None]
for views in (False, True):
    model = obil.RatioClassifier(LogisticRegression(), views=views, random_state=0).fit(rows, labels)
    with tempfile.TemporaryDirectory() as folder:
        obil.save(model, Path(folder) / "model")
        saved = obil.load(Path(folder) / "model")
    for tracker in (None, obil.trackers.BayesBank()):
        online = obil.OnlineClassifier(saved, tracker=tracker)
        online.decide_many(rows[:600], ids=list(range(600)))
        online.decide(rows[600], id="one")
        online.feedback(1, 1)
        online.feedback("one", 0, propensity=0.5)
        online.performance()
        online.explain()
        obil.OnlineClassifier.from_state(saved, online.state()).decide(rows[601])
