"""
500 branches
============

Each of 500 branches has its own prevalence and about 40 unlabeled rows. What is the prevalence of each, and which ones
stand out?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets import GaussianClasses, prior_paths

rng = np.random.default_rng(0)
classes = GaussianClasses.pair(2.5)
train = classes.draw(prior_paths.constant(5_000, 0.10), random_state=rng)
# views are for streams; a batch does not need them
model = obil.RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(train.features, train.labels)

true = rng.beta(3, 27, size=500)
true[:5] = 0.6  # five of them are very different
branch = np.repeat(np.arange(500), rng.integers(10, 70, size=500))
rows = classes.draw(true[branch], random_state=rng)

# %%
# Branches learn from each other (empirical Bayes): one with few rows is drawn towards the rest.
found = obil.estimate_prior(model, rows.features, by=branch)
together = np.array([found[name].prior[1] for name in range(500)])
alone = np.array([found.alone[name].prior[1] for name in range(500)])
print("branches that stand out:", sorted(found.deviating()))

# %%
# Left each branch by its own rows, right with what the others show.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True)
for axis, estimate, name in zip(axes, [alone, together], ["each alone", "together"], strict=True):
    error = np.sqrt(np.mean((estimate - true) ** 2))
    axis.plot([0, 0.8], [0, 0.8], "k:")
    axis.plot(true, estimate, ".", alpha=0.5)
    axis.set(title=f"{name}: root mean square error {error:.3f}", xlabel="true prevalence")
axes[0].set_ylabel("estimate")
figure.tight_layout()
