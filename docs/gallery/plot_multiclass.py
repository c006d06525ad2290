"""
More than two classes
=====================

A classifier of ten digits gets a batch where some digits are far more common than others. How often does each come, and
does knowing it help?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import obil

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
X = X / 16 + rng.normal(scale=0.5, size=X.shape)  # hard to read
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
# views are for streams; a batch does not need them
model = obil.RatioClassifier(LogisticRegression(C=0.1), views=False, random_state=0).fit(X_train, y_train)

# %%
# A batch whose digits follow another distribution.
true = np.array([0.30, 0.02, 0.02, 0.20, 0.05, 0.05, 0.02, 0.02, 0.30, 0.02])
chosen = rng.choice(len(y_test), size=800, p=true[y_test] / np.bincount(y_test)[y_test])
batch, labels = X_test[chosen], y_test[chosen]

# %%
# Counting predictions is biased towards the training data. The maximum-likelihood prior is closer for the common
# digits; of the rare ones a batch tells little.
found = obil.estimate_prior(model, batch)
before, after = model.predict(batch), model.predict(batch, prior=found.prior)
print(f"accuracy {np.mean(before == labels):.3f} before, {np.mean(after == labels):.3f} after")

digits = np.arange(10)
plt.figure(figsize=(8, 3.8))
plt.bar(digits - 0.25, np.bincount(labels, minlength=10) / len(labels), 0.25, color="0.7", label="true")
plt.bar(digits, np.bincount(before, minlength=10) / len(labels), 0.25, label="predictions counted")
plt.bar(digits + 0.25, found.prior, 0.25, label="estimate_prior")
low, high = np.clip(found.interval, 0, 1).T
plt.vlines(digits + 0.25, low, high, color="k")
plt.xticks(digits)
plt.xlabel("digit")
plt.ylabel("fraction of the batch")
plt.legend()
plt.tight_layout()
