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
    """The root: catch this to catch everything obil raises on purpose.

    >>> from obil import Costs
    >>> try:
    ...     Costs(false_positive=-1, false_negative=1)
    ... except ObilError as error:
    ...     type(error).__name__
    'InvalidInputError'
    """


class InvalidInputError(ObilError, ValueError):
    """An argument, a row or a prior breaks the rule that the message states.

    >>> issubclass(InvalidInputError, ValueError)
    True
    """


class InvalidStateError(ObilError, ValueError):
    """A saved state is damaged, incomplete or belongs to something else.

    >>> issubclass(InvalidStateError, ValueError)
    True
    """


class EstimationError(ObilError, RuntimeError):
    """An estimate did not converge.

    >>> issubclass(EstimationError, RuntimeError)
    True
    """


class NotStartedError(ObilError, RuntimeError):
    """A tracker was used before it was given the prior it starts from.

    >>> from obil.trackers import BayesBank
    >>> try:
    ...     BayesBank().prior
    ... except NotStartedError:
    ...     BayesBank().start(0.2).prior
    array([0.8, 0.2])
    """


class ModelFileError(ObilError, ValueError):
    """A model folder is damaged, foreign, too new, or holds what is not to be trusted.

    >>> issubclass(ModelFileError, ValueError)
    True
    """


class ConcurrentUseError(ObilError, RuntimeError):
    """Two threads tried to decide on one stream at once: a stream has one writer.

    >>> issubclass(ConcurrentUseError, RuntimeError)
    True
    """
