"""What OBIL is held against, each at a few settings tuned on a validation split, on the paper's architecture."""
