"""Fit TabM, an ensemble of networks with weights in common, with a small width: cells run on one core."""

from typing import Any

import numpy as np

from obil.arrays import FloatArray, IntArray

COPIES, WIDTH, BLOCKS, DROPOUT, DECAY = 8, 64, 2, 0.1, 3e-4
BATCH, LEAST_EPOCHS = 256, 10


class TabMClassifier:
    """TabM (Gorishniy et al. 2025) by its authors' package; `steps` of AdamW, or ten epochs where those are more."""

    def __init__(self, *, steps: int, rate: float, seed: int) -> None:
        self.steps, self.rate, self.seed = steps, rate, seed

    def fit(self, rows: FloatArray, labels: IntArray) -> "TabMClassifier":
        """Train all copies on the same batches, each with a cross-entropy of its own."""
        import torch
        from tabm import TabM

        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            net: Any = TabM.make(
                n_num_features=rows.shape[1], cat_cardinalities=[], d_out=1, k=COPIES, d_block=WIDTH, n_blocks=BLOCKS,
                dropout=DROPOUT,
            )  # fmt: skip
            inputs = torch.as_tensor(rows, dtype=torch.float32)
            targets = torch.as_tensor(labels, dtype=torch.float32)
            optimizer = torch.optim.AdamW(net.parameters(), lr=self.rate, weight_decay=DECAY)
            steps = max(self.steps, LEAST_EPOCHS * -(-len(rows) // BATCH))
            net.train()
            order: list[Any] = []
            for _ in range(steps):
                if not order:
                    order = list(torch.randperm(len(rows)).split(BATCH))
                batch = order.pop()
                logits = net(inputs[batch]).squeeze(-1)  # (b, copies)
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    logits, targets[batch, None].expand_as(logits)
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        self.net_ = net.eval()
        return self

    def predict_proba(self, rows: FloatArray) -> FloatArray:
        """Return the mean of the copies' probabilities, (n, 2)."""
        import torch

        parts = []
        with torch.no_grad():
            for part in torch.as_tensor(rows, dtype=torch.float32).split(4_096):
                parts.append(torch.sigmoid(self.net_(part).squeeze(-1)).mean(1).numpy())
        chance = np.concatenate(parts).astype(np.float64)
        return np.stack([1.0 - chance, chance], axis=1)
