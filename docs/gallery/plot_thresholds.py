"""
Thresholds for another prevalence
=================================

A threshold was tuned where 20 % of the rows are positive. Which one is right where 2 % are, and what does the old one
cost?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets import GaussianClasses, prior_paths

FALSE_POSITIVE, FALSE_NEGATIVE = 1, 5
classes = GaussianClasses.pair(2.0)
train = classes.draw(prior_paths.constant(5_000, 0.20), random_state=0)
# views are for streams; a batch does not need them
model = obil.RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(train.features, train.labels)


def cost_per_row(alerts: np.ndarray, labels: np.ndarray) -> float:
    """Return what false alarms and misses cost."""
    return FALSE_POSITIVE * np.mean(alerts & (labels == 0)) + FALSE_NEGATIVE * np.mean(~alerts & (labels == 1))


# %%
# At any prevalence, the threshold that costs least is the same *posterior*, here 1 / (1 + 5). In terms of the
# probability that the model was trained to give, it moves.
threshold = FALSE_POSITIVE / (FALSE_POSITIVE + FALSE_NEGATIVE)
prevalences = np.geomspace(0.005, 0.5, 12)
old, new = [], []
for prevalence in prevalences:
    test = classes.draw(prior_paths.constant(40_000, prevalence), random_state=1)
    old.append(cost_per_row(model.predict_proba(test.features)[:, 1] > threshold, test.labels))
    adapted = model.predict_proba(test.features, prior=prevalence)[:, 1]
    new.append(cost_per_row(adapted > threshold, test.labels))

odds = prevalences / (1 - prevalences) / (0.20 / 0.80)
equivalent = threshold / (threshold + (1 - threshold) * odds)

# %%
# On the left the threshold to use on the old probabilities, on the right what keeping the old one costs.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.semilogx(prevalences, equivalent, "o-")
left.axhline(threshold, color="0.6", linestyle="--", label="tuned at 20 %")
left.set(xlabel="prevalence", ylabel="threshold on the old probability")
left.legend()
right.semilogx(prevalences, np.divide(old, new), "o-")
right.axhline(1.0, color="0.6", linestyle="--")
right.set(xlabel="prevalence", ylabel="cost of the old threshold / of the new one")
figure.tight_layout()
