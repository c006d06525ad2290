"""
Labels that come 30 days late
=============================

Whether a payment was fraud is known after 30 days. Fraud triples on day 60. When does the prevalence in use follow?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets import GaussianClasses, prior_paths

DAYS, PER_DAY, DELAY = 150, 100, 30
payments = GaussianClasses.spread(3.0, n_features=4)
train = payments.draw(prior_paths.constant(5_000, 0.05), random_state=0)
model = obil.RatioClassifier(LogisticRegression(), random_state=0).fit(train.features, train.labels)
stream = payments.draw(prior_paths.step(DAYS * PER_DAY, 0.05, 0.15, at=60 * PER_DAY), random_state=1)

# %%
# Every day's payments are decided first. Then the labels of 30 days ago arrive, and `feedback` gives them to the
# decisions they belong to. The label horizon has to be longer than the delay.
unlabeled = obil.OnlineClassifier(model)
labeled = obil.OnlineClassifier(model, horizon=2 * DELAY * PER_DAY)
without, late, counted = [], [], []
for day in range(DAYS):
    rows = range(day * PER_DAY, (day + 1) * PER_DAY)
    unlabeled.decide_many(stream.features[rows])
    labeled.decide_many(stream.features[rows], ids=rows)
    known = max(day + 1 - DELAY, 0) * PER_DAY
    for row in range(max(known - PER_DAY, 0), known):
        labeled.feedback(row, stream.labels[row])
    without.append(unlabeled.prior[1])
    late.append(labeled.prior[1])
    counted.append(stream.labels[max(known - 10 * PER_DAY, 0) : known].mean() if known else np.nan)

# %%
# Counting labels answers a month late. The scores of unlabeled payments are in time, and where only the
# prevalence changes, late labels have little to add. They correct what scores cannot show: see :doc:`safety </safety>`.
plt.figure(figsize=(7, 3.8))
plt.plot(stream.priors[::PER_DAY, 1], "k--", label="true prevalence")
plt.plot(counted, color="0.6", label="labels of the last 10 known days")
plt.plot(without, label="scores only")
plt.plot(late, label="scores and late labels")
plt.xlabel("day")
plt.ylabel("prevalence of fraud")
plt.legend(loc="lower right")
plt.tight_layout()
