"""
Resampling pipelines
====================

Undersampling, oversampling, SMOTE and class weights each change the probabilities. Does it matter which one was used?
"""

import matplotlib.pyplot as plt
import numpy as np
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline
from imblearn.under_sampling import RandomUnderSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import obil
from obil.datasets import GaussianClasses, prior_paths

classes = GaussianClasses.spread(2.5, n_features=4)
train = classes.draw(prior_paths.constant(8_000, 0.05), random_state=0)
test = classes.draw(prior_paths.constant(20_000, 0.05), random_state=1)
logistic = LogisticRegression()
pipelines = {
    "nothing": logistic,
    "undersampling": make_pipeline(RandomUnderSampler(random_state=0), logistic),
    "oversampling": make_pipeline(RandomOverSampler(random_state=0), logistic),
    "SMOTE": make_pipeline(SMOTE(random_state=0), logistic),
    "class weights": LogisticRegression(class_weight="balanced"),
}

# %%
# Rows are resampled inside each fold only; the held-out rows that calibrate are as they come.
losses = []
for pipeline in pipelines.values():
    plain = pipeline.fit(train.features, train.labels).predict_proba(test.features)
    # views are for streams; a batch does not need them
    model = obil.RatioClassifier(pipeline, views=False, random_state=0).fit(train.features, train.labels)
    losses.append([log_loss(test.labels, plain), log_loss(test.labels, model.predict_proba(test.features))])

# %%
# Once calibrated, they do the same here: choose by what trains fast.
places = np.arange(len(pipelines))
plt.figure(figsize=(7.5, 3.8))
plt.bar(places - 0.2, np.array(losses)[:, 0], 0.4, label="the pipeline's probabilities")
plt.bar(places + 0.2, np.array(losses)[:, 1], 0.4, label="RatioClassifier")
plt.xticks(places, list(pipelines))
plt.ylabel("log loss")
plt.ylim(0, 0.32)
plt.legend(loc="upper right")
plt.tight_layout()
