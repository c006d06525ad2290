"""
Probabilities after undersampling
=================================

Undersampling the majority class makes the training data balanced, and the probabilities far too high.
How do you get the right ones back?
"""

import matplotlib.pyplot as plt
from imblearn.pipeline import make_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import obil

X, y = make_classification(
    30_000, n_features=6, n_redundant=0, n_clusters_per_class=1, weights=[0.95], flip_y=0, class_sep=0.7, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

undersampled = make_pipeline(RandomUnderSampler(random_state=0), LogisticRegression())
plain = undersampled.fit(X_train, y_train).predict_proba(X_test)[:, 1]

# %%
# `RatioClassifier` fits the pipeline in each fold, and calibrates on the held-out rows, which are not undersampled.
model = obil.RatioClassifier(undersampled, random_state=0).fit(X_train, y_train)
calibrated = model.predict_proba(X_test)[:, 1]
print(f"positives {y_test.mean():.3f}, mean probability {plain.mean():.3f} before, {calibrated.mean():.3f} after")

# %%
# Points on the diagonal are right: of the rows with probability .4, 40 % are positive.
plt.figure(figsize=(5, 4.5))
plt.plot([0, 1], [0, 1], "k:", label="right")
for probabilities, name in [(plain, "undersampled"), (calibrated, "RatioClassifier")]:
    positive, predicted = calibration_curve(y_test, probabilities, n_bins=10)
    plt.plot(predicted, positive, "o-", label=name)
plt.xlabel("predicted probability")
plt.ylabel("fraction of positives")
plt.legend()
plt.tight_layout()
