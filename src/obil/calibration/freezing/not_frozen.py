"""Say why a classifier has no frozen form."""


class NotFrozenError(Exception):
    """Raised while freezing, with the reason as text; whoever asked keeps the classifier as it is."""
