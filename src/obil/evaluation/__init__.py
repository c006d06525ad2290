"""Measure and show what a tracker or a model did."""
