"""
Deep networks and images
========================

A convolutional network is trained to find one digit. How do its probabilities change where that digit is rare?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import obil
from obil.networks import ConvNet, ModuleKind, Training

digits = load_digits()
rng = np.random.default_rng(0)
images = np.kron(digits.images / 16, np.ones((3, 3)))  # (n, 24, 24)
images = np.pad(images, ((0, 0), (2, 2), (2, 2)))[:, None].astype(np.float32)  # (n, 1, 28, 28): with a channel
images += rng.normal(scale=0.5, size=images.shape).astype(np.float32)  # hard to read
is_eight = (digits.target == 8).astype(int)
X_train, X_test, y_train, y_test = train_test_split(images, is_eight, stratify=is_eight, random_state=0)

# %%
# Any torch module can be a member. Training needs torch; the fitted model is exported and served by ONNX Runtime.
member = ModuleKind(lambda: ConvNet(2), Training(epochs=3, least_steps=40))
model = obil.OBILClassifier(member=member, n_members=1, cv=0.3, random_state=0).fit(X_train, y_train)

# %%
# The ten images that the network is least sure of, with the probability of an eight where 10 % are and
# where 1 % are.
log_ratio = model.log_ratios(X_test)[:, 1]
unsure = np.argsort(abs(log_ratio - np.log(0.9 / 0.1)))[:10]
common = model.predict_proba(X_test[unsure], prior=0.10)[:, 1]
rare = model.predict_proba(X_test[unsure], prior=0.01)[:, 1]
figure, axes = plt.subplots(2, 5, figsize=(8, 4))
for axis, image, first, second in zip(axes.flat, X_test[unsure], common, rare, strict=True):
    axis.imshow(image[0], cmap="gray_r")
    axis.set_title(f"{first:.2f} → {second:.2f}")
    axis.axis("off")
figure.suptitle("probability of an eight: 10 % of the images are, and 1 %")
figure.tight_layout()
