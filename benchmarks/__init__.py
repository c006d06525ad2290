"""Speed and size, as ratios measured in one run: these machines are noisy, ratios are not."""
