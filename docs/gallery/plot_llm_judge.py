"""
Prevalence from an LLM judge
============================

A language model reads 5,000 answers of an assistant and says which ones are harmful. It is wrong now and then. How many
are harmful, if people have labelled only a few?
"""

import matplotlib.pyplot as plt
import numpy as np

import obil

rng = np.random.default_rng(0)


def answers(n, prevalence):
    """Draw the truth, and the verdicts of a judge with sensitivity .85 and specificity .9."""
    harmful = rng.random(n) < prevalence
    return harmful, np.where(rng.random(n) < np.where(harmful, 0.85, 0.1), "yes", "no")


harmful, verdicts = answers(5_000, 0.04)
truth, labelled_verdicts = answers(120, 0.3)  # an older test set: there, more answers are harmful
print(f"harmful {harmful.mean():.3f}, rate of 'yes' {np.mean(verdicts == 'yes'):.3f}")

# %%
# Most of the "yes" are errors. The judge's error rates are learned from the labelled answers and integrated out. Only
# p(verdict | truth) has to be the same there: the prevalence is not.
found = obil.prevalence_from_judge(verdicts, labelled_verdicts, truth)
print(found)

# %%
# Labels of a random sample of the same answers tell the prevalence by themselves, too. `random_sample=True` uses that.
drawn = rng.permutation(5_000)
sample, rest = drawn[:120], drawn[120:]
print(obil.prevalence_from_judge(verdicts[rest], verdicts[sample], harmful[sample], random_sample=True))

# %%
# How many labels are worth it? A correction with error rates that are taken for exact (Rogan and Gladen) is a single
# number. With few labels it is far off, even below zero, and nothing but the interval shows how far it may be.
truth, labelled_verdicts = answers(1_600, 0.3)
rate = np.mean(verdicts == "yes")
sizes, ends, corrected = [25, 50, 100, 200, 400, 800, 1_600], [], []
for size in sizes:
    y, yes = truth[:size], labelled_verdicts[:size] == "yes"
    estimate = obil.prevalence_from_judge(verdicts, labelled_verdicts[:size], y)
    ends.append([estimate.prior[1], *estimate.interval[1]])
    sensitivity, alarms = yes[y].mean(), yes[~y].mean()
    corrected.append((rate - alarms) / (sensitivity - alarms))
middle, low, high = np.array(ends).T

# %%
# A second judge that errs by itself narrows the interval: a verdict is then the pattern of both.
second = [np.where(rng.random(len(y)) < np.where(y, 0.8, 0.05), "yes", "no") for y in (harmful, truth[:120])]
both = obil.prevalence_from_judge(
    np.stack([verdicts, second[0]], axis=1), np.stack([labelled_verdicts[:120], second[1]], axis=1), truth[:120]
)
one = obil.prevalence_from_judge(verdicts, labelled_verdicts[:120], truth[:120])
print("one judge:", one.interval[1].round(3), "both:", both.interval[1].round(3))

plt.figure(figsize=(6, 4))
plt.errorbar(sizes, middle, [middle - low, high - middle], fmt="o", capsize=3, label="prevalence_from_judge, 90 %")
plt.plot(sizes, corrected, "x", color="C3", label="Rogan-Gladen")
plt.axhline(harmful.mean(), color="k", linestyle=":", label="truth")
plt.axhline(rate, color="0.6", linestyle="--", label="rate of 'yes'")
plt.xscale("log")
plt.xlabel("labelled answers")
plt.ylabel("prevalence")
plt.legend()
plt.tight_layout()
