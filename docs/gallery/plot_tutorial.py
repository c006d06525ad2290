"""
A ten-minute tutorial
=====================

Fraud is rare, and not equally rare for ever. Here a model is trained where 10 % of the payments are fraud. Then the
prevalence falls to 2 %. We fit, check, and decide a stream of payments, first without labels and then with late ones.
"""

# %%
# **Data.** Two classes of four features. Their features stay the same, only the prevalence changes: this is
# label shift.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets import GaussianClasses, prior_paths

payments = GaussianClasses.spread(3.0, n_features=4)
train = payments.draw(prior_paths.constant(4_000, 0.10), random_state=0)
holdout = payments.draw(prior_paths.constant(4_000, 0.10), random_state=1)

# %%
# **Fit.** Any scikit-learn classifier will do. Its out-of-fold scores are calibrated into log-likelihood ratios.
model = obil.RatioClassifier(LogisticRegression(), random_state=0).fit(train.features, train.labels)

# %%
# **Check.** `obil.verify` measures the calibration on rows that the model has not seen, and decides whether the model
# is good enough to be deployed.
print(obil.verify(model, holdout.features, holdout.labels))

# %%
# **Know the prevalence?** Then give it. The same row is less likely to be fraud where fraud is rarer.
row = [[1.2, 1.2, 1.2, 1.2]]
print(model.predict_proba(row)[0, 1].round(3), "at the prevalence of the training data")
print(model.predict_proba(row, prior=0.02)[0, 1].round(3), "at 2 %")

# %%
# **A batch of unknown prevalence.** Unlabeled rows are enough to estimate it.
batch = payments.draw(prior_paths.constant(2_000, 0.02), random_state=2)
found = obil.estimate_prior(model, batch.features)
print(f"{found.prior[1]:.3f}, 90 % confidence interval {found.interval[1].round(3)}")

# %%
# **A stream.** Each row is decided at the current prior and then updates it. A missed fraud costs twenty false alarms.
# Every tenth label comes 500 rows late.
stream = payments.draw(prior_paths.step(8_000, 0.10, 0.02, at=2_000), random_state=3)
online = obil.OnlineClassifier(model, costs=obil.Costs(false_positive=1, false_negative=20))
current, alerts = [], 0
for start in range(0, len(stream.labels), 100):
    decisions = online.decide_many(stream.features[start : start + 100], ids=range(start, start + 100))
    alerts += int(decisions.alerts.sum())
    for late in range(max(start - 500, 0), max(start - 400, 0), 10):
        online.feedback(late, stream.labels[late])
    current.append(online.prior[1])
print(f"{alerts} alerts; now {online.prior[1]:.3f}")
print(online.performance().now.describe())

# %%
# The estimate follows the prevalence.
plt.figure(figsize=(7, 3.5))
plt.plot(stream.priors[:, 1], "k--", label="true prevalence")
plt.plot(np.arange(100, 8_001, 100), current, label="estimate")
plt.axhline(model.prior_[1], color="0.7", label="training data")
plt.xlabel("row")
plt.ylabel("prevalence of fraud")
plt.ylim(0, 0.15)
plt.legend()
plt.tight_layout()

# %%
# **Next.** The :doc:`guide </guide>` has every option, and :doc:`safety </safety>` tells what protects you where more
# than the prevalence changes.
