"""Data with known answers: prior paths, and streams whose exact ratios are known."""
