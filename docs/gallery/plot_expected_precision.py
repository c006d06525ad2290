"""
Expected precision at another prevalence
========================================

A detector was tested where 20 % of the rows are positive. How precise are its alerts where positives are rarer, before
any label from there?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets import GaussianClasses, prior_paths
from obil.policies import PrecisionFloor, RecallFloor
from obil.trackers import FixedPrior

classes = GaussianClasses.pair(2.5)
train = classes.draw(prior_paths.constant(10_000, 0.20), random_state=0)
# views are for streams without labels; here the prevalence is given
model = obil.RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(train.features, train.labels)

# %%
# `performance()` gives what to expect at the prior of the tracker, with intervals. `RecallFloor` keeps one threshold
# at any prevalence; `PrecisionFloor` moves it, and pays with recall.
prevalences = np.geomspace(0.005, 0.4, 10)
policies = {"keep a recall of 80 %": RecallFloor(0.8), "keep a precision of 70 %": PrecisionFloor(0.7)}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
for axis, (name, policy) in zip(axes, policies.items(), strict=True):
    expected, measured = [], []
    for prevalence in prevalences:
        online = obil.OnlineClassifier(model, policy=policy, prior=prevalence, tracker=FixedPrior(prevalence))
        now = online.performance().now
        expected.append((now.precision.value, now.precision.low, now.precision.high, now.recall.value))
        test = classes.draw(prior_paths.constant(20_000, prevalence), random_state=1)
        alerts = online.decide_many(test.features).alerts
        measured.append((test.labels[alerts].mean(), alerts[test.labels == 1].mean()))
    precision, low, high, recall = np.transpose(expected)
    axis.semilogx(prevalences, precision, label="expected precision")
    axis.fill_between(prevalences, low, high, alpha=0.2)
    axis.semilogx(prevalences, recall, label="expected recall")
    axis.set_prop_cycle(None)
    axis.semilogx(prevalences, np.array(measured), "o", markersize=4)
    axis.set(title=name, xlabel="prevalence", ylim=(0, 1))
axes[0].legend(loc="lower right")
figure.tight_layout()

# %%
# Dots are what 20,000 labels from each place find. Where positives are rarest, a floor of 70 % needs a threshold beyond
# nearly all held-out scores: there the expected precision is too high, and only labels can tell.
