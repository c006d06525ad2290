"""`obil.__all__` is the public surface: complete, documented and cheap to import."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import obil

CORE = ("obil.arrays", "obil.compiled", "obil.errors", "obil.bayes", "obil.datasets", "obil.trackers")
HEAVY = ("numba", "sklearn", "torch", "matplotlib")


def core_modules() -> Iterator[ModuleType]:
    for name in CORE:
        module = importlib.import_module(name)
        yield module
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), name + "."):
            yield importlib.import_module(found.name)


def test_every_name_in_all_can_be_imported_and_dir_shows_exactly_those() -> None:
    for name in obil.__all__:
        assert getattr(obil, name) is not None, name
    assert len(set(obil.__all__)) == len(obil.__all__)
    assert set(dir(obil)) == {*obil.__all__, "__version__"}


def test_nothing_of_obil_can_be_imported_that_all_does_not_name() -> None:
    for name in obil.__all__:
        getattr(obil, name)
    ours = {
        name
        for name, value in vars(obil).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and str(getattr(value, "__module__", "")).startswith("obil")
    }
    assert ours == set(obil.__all__)


def test_the_type_checker_sees_the_same_names() -> None:
    tree = ast.parse(Path(obil.__file__).read_text())
    guarded = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname or alias.name
        for block in guarded
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == set(obil.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'NoSuchThing'"):
        obil.NoSuchThing


@pytest.mark.parametrize("name", obil.__all__)
def test_every_public_name_and_its_methods_have_a_docstring(name: str) -> None:
    value = getattr(obil, name)
    assert (value.__doc__ or "").strip(), name
    if inspect.isclass(value):
        for member, method in inspect.getmembers(value):
            if not member.startswith("_") and (inspect.isroutine(method) or isinstance(method, property)):
                assert inspect.getdoc(method), f"{name}.{member}"


@pytest.mark.parametrize("module", list(core_modules()), ids=lambda module: str(module.__name__))
def test_every_public_function_and_class_of_the_core_has_a_docstring(module: ModuleType) -> None:
    assert (module.__doc__ or "").strip()
    for name, value in vars(module).items():
        defined_here = getattr(value, "__module__", None) == module.__name__
        if defined_here and not name.startswith("_") and (inspect.isclass(value) or inspect.isroutine(value)):
            assert (value.__doc__ or "").strip(), f"{module.__name__}.{name}"


def test_every_name_a_core_module_exports_exists() -> None:
    for module in core_modules():
        for name in getattr(module, "__all__", ()):
            assert hasattr(module, name), f"{module.__name__}.{name}"


def test_importing_obil_loads_nothing_heavy() -> None:
    code = f"import sys, obil; dir(obil); print([name for name in {HEAVY} if name in sys.modules])"
    source = str(Path(obil.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": source}
    )
    assert ran.stdout.strip() == "[]"


def test_user_errors_are_value_errors_too_and_all_share_one_root() -> None:
    from obil.errors import InvalidInputError, InvalidStateError, NotStartedError, ObilError

    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(InvalidStateError, ValueError)
    assert issubclass(NotStartedError, RuntimeError)
    assert all(issubclass(error, ObilError) for error in (InvalidInputError, InvalidStateError, NotStartedError))
