"""Delayed labels: what waits for one, what came, and what a missing one means."""
