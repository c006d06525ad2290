"""
Is it label shift?
==================

There are twice as many alerts. Are there more positives, or do the classes look different? Only the first can be
corrected by a new prevalence.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets import GaussianClasses, prior_paths

classes = GaussianClasses.spread(2.5, n_features=4)
train = classes.draw(prior_paths.constant(8_000, 0.10), random_state=0)
model = obil.RatioClassifier(LogisticRegression(), random_state=0).fit(train.features, train.labels)

# %%
# Three streams that change at row 3,000: in one the prevalence rises, in the others the features of both
# classes move, in the last of them only a little.
label_shift = classes.draw(prior_paths.step(6_000, 0.10, 0.25, at=3_000), random_state=1).features
concept_drift = classes.draw(prior_paths.constant(6_000, 0.10), random_state=2).features
concept_drift[3_000:] += 0.5
weak_drift = classes.draw(prior_paths.constant(6_000, 0.10), random_state=2).features
weak_drift[3_000:] += 0.15

# %%
# The monitor collects evidence against *every* sequence of prevalences. It raises a false alarm in at most 1 % of
# endless streams under label shift, whatever the prevalence does.
#
# It misses the weak drift: there are half as many alerts again, and a prevalence that rose a little explains them as
# well. Silence is no proof of label shift. Labels of a sample of the rows would tell.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
streams = {"more positives": label_shift, "classes look different": concept_drift, "a little different": weak_drift}
for name, rows in streams.items():
    online = obil.OnlineClassifier(model)
    alerts, evidence = [], []
    for start in range(0, 6_000, 100):
        alerts.append(online.decide_many(rows[start : start + 100]).alerts.mean())
        evidence.append(online.monitor.log_evidence)
    axes[0].plot(np.arange(800, 6_001, 100), np.convolve(alerts, np.ones(8) / 8, mode="valid"), label=name)
    axes[1].plot(np.arange(100, 6_001, 100), evidence, label=name)
    print(f"{name}: {online.explain().action}")
axes[0].set(xlabel="row", ylabel="fraction of alerts", ylim=(0, None))
axes[1].axhline(online.monitor.log_alarm, color="k", linestyle="--", label="alarm")
axes[1].set(xlabel="row", ylabel="log evidence against label shift")
axes[1].legend()
figure.tight_layout()
