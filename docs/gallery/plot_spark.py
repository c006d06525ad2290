"""
On Spark
========

A table on a cluster has rows of several countries. Score all of it, and estimate the prevalence of each country.
"""

import os
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from sklearn.linear_model import LogisticRegression

import obil
import obil.spark
from obil.datasets import GaussianClasses, prior_paths

classes = GaussianClasses.spread(2.5, n_features=2)
train = classes.draw(prior_paths.constant(5_000, 0.10), random_state=0)
columns = ["amount", "age"]
model = obil.RatioClassifier(LogisticRegression(), views=False, random_state=0).fit(
    pd.DataFrame(train.features, columns=columns), train.labels
)

true = {"DE": 0.02, "FR": 0.05, "IT": 0.10, "ES": 0.15, "PL": 0.30}
tables = [
    pd.DataFrame(classes.draw(prior_paths.constant(400, prevalence), random_state=seed).features, columns=columns)
    for seed, prevalence in enumerate(true.values(), start=1)
]
rows = pd.concat(tables).assign(country=np.repeat(list(true), 400))

# %%
# On a cluster the session comes from `spark-submit`; here it is one thread of this machine.
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    .getOrCreate()
)
table = spark.createDataFrame(rows).coalesce(1)
scored = obil.spark.score(table, model, prior=0.05)  # computed where it is written or counted
print(scored.columns)
found = obil.spark.estimate_prior(table, model, by="country").toPandas().set_index("country").loc[list(true)]
spark.stop()

# %%
# The table is read once, and each partition sends a small summary per country.
places = np.arange(len(true))
plt.figure(figsize=(6, 3.8))
plt.vlines(places, found["lower"], found["upper"], label="90 % credible interval")
plt.plot(places, found["prior"], "o", label="estimate")
plt.plot(places, list(true.values()), "k_", markersize=18, label="true")
plt.xticks(places, list(true))
plt.ylabel("prevalence")
plt.legend()
plt.tight_layout()
