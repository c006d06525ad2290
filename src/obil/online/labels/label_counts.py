"""Count what became of the decisions and of the labels."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """What became of the decisions and of the labels so far."""

    labelled: int = 0  # decisions that got a label
    unknown: int = 0  # labels for no decision that is remembered
    repeated: int = 0  # labels that said the same again
    replaced: int = 0  # labels that contradicted an earlier one
    unlabeled: int = 0  # decisions that left the horizon unlabelled, where unlabeled_as means a class
    superseded: int = 0  # decisions whose id a newer one took over within the horizon
    pending: int = 0  # decisions that a label may still reach and none has


COUNTED = tuple(name for name in asdict(LabelCounts()) if name != "pending")  # that one follows from the rows
