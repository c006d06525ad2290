"""From scores to calibrated log ratios: cross-fit, calibrate, diagnose, judge."""
