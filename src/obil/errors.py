"""Name what can go wrong, in one tree.

ObilError
├── InvalidInputError (also ValueError)      an argument, a row or a prior breaks a stated rule
├── InvalidStateError (also ValueError)      a saved state is damaged or belongs to something else
└── NotStartedError (also RuntimeError)      a tracker was used before it was given a start prior

A method that raises one of these has changed nothing.
"""


class ObilError(Exception):
    """The root: catch this to catch everything obil raises on purpose."""


class InvalidInputError(ObilError, ValueError):
    """An argument, a row or a prior breaks the rule that the message states."""


class InvalidStateError(ObilError, ValueError):
    """A saved state is damaged, incomplete or belongs to something else."""


class NotStartedError(ObilError, RuntimeError):
    """A tracker was used before it was given the prior it starts from."""
