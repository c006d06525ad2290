"""
Coming from CalibratedClassifierCV
==================================

`CalibratedClassifierCV` gives calibrated probabilities for the prevalence of the training data. `RatioClassifier` wraps
a classifier in the same way and gives them for any prevalence.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

import obil
from obil.datasets import GaussianClasses, prior_paths

classes = GaussianClasses.spread(2.5, n_features=6)
train = classes.draw(prior_paths.constant(6_000, 0.30), random_state=0)

calibrated = CalibratedClassifierCV(LinearSVC(), method="sigmoid", cv=5).fit(train.features, train.labels)
model = obil.RatioClassifier(LinearSVC(), cv=5, views=False, random_state=0).fit(train.features, train.labels)

# %%
# At the prevalence of the training data both do the same. Elsewhere one keyword is the difference:
# `predict_proba(X, prior=...)`. The prevalence of unlabeled rows is found by `estimate_prior`.
prevalences = np.geomspace(0.01, 0.6, 10)
losses = []
for prevalence in prevalences:
    test = classes.draw(prior_paths.constant(10_000, prevalence), random_state=1)
    found = obil.estimate_prior(model, test.features).prior
    losses.append(
        [
            log_loss(test.labels, calibrated.predict_proba(test.features)),
            log_loss(test.labels, model.predict_proba(test.features, prior=found)),
            log_loss(test.labels, model.predict_proba(test.features, prior=prevalence)),
        ]
    )

plt.figure(figsize=(6.5, 4))
for loss, name, style in zip(
    np.transpose(losses),
    ["CalibratedClassifierCV", "RatioClassifier, estimated prevalence", "RatioClassifier, known prevalence"],
    ["o-", "o-", "k:"],
    strict=True,
):
    plt.semilogx(prevalences, loss, style, label=name)
plt.axvline(0.30, color="0.7", linestyle="--")
plt.text(0.29, 0.02, "training data", ha="right")
plt.ylim(0, None)
plt.xlabel("prevalence of the test data")
plt.ylabel("log loss")
plt.legend()
plt.tight_layout()
