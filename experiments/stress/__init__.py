"""What `experiments.robustness` does to a fitted model: noise, planted miscalibration, fast drift."""
