"""Decide row by row while the prior moves."""
