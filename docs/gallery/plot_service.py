"""
As a service
============

Programs in any language send rows over HTTP and get decisions back. What does a client see when the prevalence changes?
"""

import socket
import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import uvicorn
from sklearn.linear_model import LogisticRegression

import obil
from obil.datasets import GaussianClasses, prior_paths
from obil.service import Client, ServiceSettings, open_service

payments = GaussianClasses.spread(3.0, n_features=4)
train = payments.draw(prior_paths.constant(4_000, 0.10), random_state=0)
model = obil.RatioClassifier(LogisticRegression(), random_state=0).fit(train.features, train.labels)
folder = Path(tempfile.mkdtemp())
obil.save(model, folder / "model")

# %%
# `obil serve model/` starts a service. Here it runs in a thread of this script, at any free port.
service = open_service(folder / "model", ServiceSettings(store=f"sqlite:///{folder}/obil.db"))
listener = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(service, log_level="warning"))
thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
thread.start()
while not server.started:
    time.sleep(0.05)

# %%
# A stream of payments, 200 per request. Labels come 400 rows late, one in ten.
rows = payments.draw(prior_paths.step(8_000, 0.10, 0.30, at=3_000), random_state=1)
current = []
with Client(f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
    stream = client.stream("shop")
    for start in range(0, 8_000, 200):
        decisions = stream.decide(rows.features[start : start + 200].tolist(), ids=list(range(start, start + 200)))
        current.append(decisions[-1].effective_prior["1"])
        if start >= 400:
            stream.label({late: int(rows.labels[late]) for late in range(start - 400, start - 200, 10)})
server.should_exit = True
thread.join()

plt.figure(figsize=(7, 3.5))
plt.plot(rows.priors[:, 1], "k--", label="true prevalence")
plt.plot(np.arange(200, 8_001, 200), current, label="prior of the service")
plt.xlabel("row")
plt.ylabel("prevalence of fraud")
plt.legend()
plt.tight_layout()
