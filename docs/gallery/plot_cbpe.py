"""
Coming from NannyML's CBPE
==========================

Confidence-based performance estimation (CBPE) reads the expected precision off calibrated probabilities. What happens
when the prevalence moves, and what replaces it?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets import GaussianClasses, prior_paths

classes = GaussianClasses.spread(2.5, n_features=4)
train = classes.draw(prior_paths.constant(8_000, 0.20), random_state=0)
model = obil.RatioClassifier(LogisticRegression(), random_state=0).fit(train.features, train.labels)
stream = classes.draw(prior_paths.step(12_000, 0.20, 0.05, at=3_000), random_state=1)

# %%
# CBPE is one line: the mean probability of the rows that were alerted, in chunks. Its probabilities are those of the
# reference period, so that it assumes that the prevalence is still the same. Alerts are rows of log ratio above 2.
CHUNK, THRESHOLD = 1_000, 2.0
cbpe, adapted, true = [], [], []
for start in range(0, len(stream.labels), CHUNK):
    rows, labels = stream.features[start : start + CHUNK], stream.labels[start : start + CHUNK]
    alerts = model.log_ratios(rows)[:, 1] > THRESHOLD
    cbpe.append(model.predict_proba(rows)[alerts, 1].mean())
    # the same sum at the prevalence that the chunk itself shows
    prior = obil.estimate_prior(model, rows).prior
    adapted.append(model.predict_proba(rows, prior=prior)[alerts, 1].mean())
    true.append(labels[alerts].mean())

# %%
# In a stream, `online.performance()` gives these figures with intervals, and counts labels as they come.
chunks = np.arange(len(true))
plt.figure(figsize=(7, 3.8))
plt.plot(chunks, true, "k--", label="true precision (needs labels)")
plt.plot(chunks, cbpe, "o-", label="CBPE")
plt.plot(chunks, adapted, "o-", label="at the estimated prevalence")
plt.ylim(0, 1)
plt.xlabel("chunk of 1,000 rows")
plt.ylabel("precision of the alerts")
plt.legend()
plt.tight_layout()
