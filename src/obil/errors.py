"""Name what can go wrong, in one tree.

ObilError
├── InvalidInputError (also ValueError)      an argument, a row or a prior breaks a stated rule
├── InvalidStateError (also ValueError)      a saved state is damaged or belongs to something else
├── ModelFileError (also ValueError)         a model folder is damaged, foreign, too new, or not to be trusted
├── EstimationError (also RuntimeError)      an estimate did not converge
├── NotStartedError (also RuntimeError)      a tracker was used before it was given a start prior
└── ConcurrentUseError (also RuntimeError)   two threads tried to decide on one stream at once

A method that raises one of these has changed nothing.
"""


class ObilError(Exception):
    """The root: catch this to catch everything obil raises on purpose."""


class InvalidInputError(ObilError, ValueError):
    """An argument, a row or a prior breaks the rule that the message states."""


class InvalidStateError(ObilError, ValueError):
    """A saved state is damaged, incomplete or belongs to something else."""


class EstimationError(ObilError, RuntimeError):
    """An estimate did not converge."""


class NotStartedError(ObilError, RuntimeError):
    """A tracker was used before it was given the prior it starts from."""


class ModelFileError(ObilError, ValueError):
    """A model folder is damaged, foreign, too new, or holds what is not to be trusted."""


class ConcurrentUseError(ObilError, RuntimeError):
    """Two threads tried to decide on one stream at once: a stream has one writer."""
