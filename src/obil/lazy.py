"""Load the names of a public package when they are first used."""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package that imports nothing until it is asked for a name.

    Its names are those that it imports for type checkers: that one list is read from its source.

    >>> get, _, names = lazy_names("obil")
    >>> names[:4]
    ['Backtest', 'ChangeReport', 'ConcurrentUseError', 'Costs']
    >>> get("Costs")
    <class 'obil.bayes.costs.Costs'>
    """
    loader: Any = sys.modules[package].__loader__
    home = {name: module for module, name in _IMPORT.findall(loader.get_source(package))}
    public = sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home[name] == package:  # a module of its own
            return import_module(f"{package}.{name}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)  # found without this function from now on
        return value

    return get, lambda: list(public), public
