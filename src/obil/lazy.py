"""Load the names of a public package when they are first used."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], *, modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package that imports nothing until it is asked for a name.

    `homes` gives the names in each module of the package, separated by spaces; `modules` are public themselves.

    >>> get, _, names = lazy_names("obil", {"bayes.costs": "Costs"})
    >>> names
    ['Costs']
    >>> get("Costs")
    <class 'obil.bayes.costs.Costs'>
    """
    home = {name: module for module, names in homes.items() for name in names.split()}
    public = sorted([*home, *modules])

    def get(name: str) -> Any:
        if name in home:
            value = getattr(import_module(f"{package}.{home[name]}"), name)
            setattr(sys.modules[package], name, value)  # found without this function from now on
            return value
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: list(public), public
