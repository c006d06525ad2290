"""Average over splits, then over the sets of one source, so that what is tested is independent."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.confirm.sets import family_of
from experiments.runner import Cell
from obil.arrays import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ByFamily:
    """A value for each family, by measure, factor and method."""

    names: tuple[str, ...]
    at: dict[str, FloatArray]  # "f1.0.25.METHOD" -> (families,)
    over_shifts: dict[str, FloatArray]  # "f1.METHOD" -> (families,)

    @property
    def methods(self) -> list[str]:
        """The methods, as they were run."""
        return [key.removeprefix("f1.") for key in self.over_shifts if key.startswith("f1.")]

    def only(self, names: Collection[str]) -> "ByFamily":
        """Return the values of some families."""
        kept = np.array([name in names for name in self.names], dtype=bool)
        return ByFamily(
            tuple(name for name in self.names if name in names),
            {key: values[kept] for key, values in self.at.items()},
            {key: values[kept] for key, values in self.over_shifts.items()},
        )


def by_family(results: list[tuple[Cell, dict[str, Any]]], factors: list[float]) -> ByFamily:
    """Return the mean of each family over its sets, each the mean of its splits."""
    of_sets: dict[str, dict[str, list[float]]] = {}
    for cell, result in results:
        own = of_sets.setdefault(cell["set"], {})
        for method, outcomes in result["scores"].items():
            for key, value in outcomes.items():
                own.setdefault(f"{key}.{method}", []).append(value)
    names = tuple(sorted({family_of(name) for name in of_sets}))
    keys = list(next(iter(of_sets.values())))
    at = {
        key: np.array(
            [np.mean([np.mean(own[key]) for one, own in of_sets.items() if family_of(one) == name]) for name in names]
        )
        for key in keys
    }
    methods = list(dict.fromkeys(method for _, result in results for method in result["scores"]))
    over_shifts = {
        f"{measure}.{method}": np.mean([at[f"{measure}.{factor}.{method}"] for factor in factors], axis=0)
        for measure in ("f1", "cost")
        for method in methods
    }
    return ByFamily(names, at, over_shifts)
