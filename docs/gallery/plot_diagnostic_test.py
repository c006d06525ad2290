"""
Local PPV and NPV of a diagnostic test
======================================

A test was validated in a specialist clinic, where half the patients are ill. What are its positive and negative
predictive values in primary care, where 5 % are?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import obil

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, ill = X[["mean texture", "mean smoothness", "mean symmetry"]], 1 - y  # a test that is far from perfect
X_train, X_test, y_train, y_test = train_test_split(X, ill, test_size=0.5, stratify=ill, random_state=0)
classifier = make_pipeline(StandardScaler(), LogisticRegression())
model = obil.RatioClassifier(classifier, views=False, random_state=0).fit(X_train, y_train)

# %%
# A test is positive above a fixed likelihood ratio. Its sensitivity and specificity do not depend on the prevalence;
# its predictive values do, by Bayes' theorem.
positive = model.log_ratios(X_test)[:, 1] > 0
sensitivity, specificity = positive[y_test == 1].mean(), 1 - positive[y_test == 0].mean()
print(f"sensitivity {sensitivity:.2f}, specificity {specificity:.2f}")

prevalence = np.linspace(0.005, 0.6, 100)
ppv = sensitivity * prevalence / (sensitivity * prevalence + (1 - specificity) * (1 - prevalence))
npv = specificity * (1 - prevalence) / (specificity * (1 - prevalence) + (1 - sensitivity) * prevalence)

# %%
# For one patient there is no need for a cut: the same result is a different probability in each place.
patient = X_test.iloc[[np.argmin(abs(model.log_ratios(X_test)[:, 1] - 1.5))]]
for place, local in [("clinic", 0.5), ("primary care", 0.05)]:
    print(f"{place}: probability {model.predict_proba(patient, prior=local)[0, 1]:.2f}")

plt.figure(figsize=(6, 4))
plt.plot(prevalence, ppv, label="PPV")
plt.plot(prevalence, npv, label="NPV")
for place, local in [("primary care", 0.05), ("clinic", 0.5)]:
    plt.axvline(local, color="0.7", linestyle=":")
    plt.text(local, 0.03, f" {place}")
plt.xlabel("prevalence")
plt.ylabel("predictive value")
plt.legend()
plt.tight_layout()
