"""Measurements: one TOML in, one JSON out, every figure beside its bound."""
