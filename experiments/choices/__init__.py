"""The measurements behind docs/choosing.md, one question a file. They need torch; `experiments.choosing` does not."""
