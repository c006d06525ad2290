"""The same rows at less imbalanced class priors, each with the training prior to divide out again."""
