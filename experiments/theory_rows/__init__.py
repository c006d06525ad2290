"""The claims of the paper, one row each: how it is measured, and what the figures say about it."""
