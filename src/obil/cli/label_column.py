"""Learn the labels in a column of a stream's own rows, as late as they would have come."""

from dataclasses import dataclass, field

from obil.cli.label_journal import Label
from obil.datasets.table_stream import Columns
from obil.errors import InvalidInputError
from obil.serving.ratio_model import RatioModel, class_named

LONGEST_DELAY = 1_000_000  # rows, whose labels are in each checkpoint
NO_LABEL = -1


@dataclass(slots=True)
class LabelColumn:
    """Labels that are learned at least `delay` rows after theirs, and at most a tenth later.

    They are learned between blocks of rows whose limits depend on nothing but the number of rows, so that a resumed run
    learns them where an uninterrupted one does.
    """

    name: str
    delay: int
    due: list[int] = field(default_factory=list)  # class numbers of the last rows, NO_LABEL where a cell is missing

    def __post_init__(self) -> None:
        if not 0 <= self.delay <= LONGEST_DELAY:
            raise InvalidInputError(f"--label-delay must lie in 0 ... {LONGEST_DELAY:,} rows, got {self.delay:,}")

    @property
    def block(self) -> int:
        """How many rows are decided between two times of learning."""
        return max(self.delay // 10, 1)

    @property
    def horizon(self) -> int:
        """How many rows have to be remembered."""
        return self.delay + self.block

    def numbers(self, rows: Columns, model: RatioModel) -> list[int]:
        """Return the class numbers of rows; refuse a label that is no class."""
        texts: dict[str, int] = {}
        found: list[int] = []
        for row, text in enumerate(rows[self.name].tolist()):
            if not isinstance(text, str):
                found.append(NO_LABEL)
                continue
            if text not in texts:
                try:
                    texts[text] = class_named(text, model.classes_)
                except InvalidInputError as error:
                    raise InvalidInputError(f"column {self.name!r:.60}: {error} in row {row}") from None
            found.append(texts[text])
        return found

    def take(self, n_rows: int) -> list[tuple[Label, int]]:
        """Return the labels that are due after so many rows, with the numbers of their classes."""
        if n_rows % self.block:
            return []
        n_due = max(len(self.due) - self.delay, 0)
        first = n_rows - len(self.due)
        labels, self.due = self.due[:n_due], self.due[n_due:]
        return [(Label(str(row), ""), one) for row, one in enumerate(labels, start=first) if one != NO_LABEL]
