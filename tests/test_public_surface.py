"""The public surface: packages and integrations, each name listed here, documented, and cheap to import."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import obil

ROOT = Path(__file__).parent.parent
HEAVY = ("numba", "sklearn", "torch", "pandas", "matplotlib")
NEEDS = {  # an extra
    "obil.kafka": "confluent_kafka",
    "obil.mlflow": "mlflow",
    "obil.networks": "torch",
    "obil.onnx": "onnx",
    "obil.river": "river",
    "obil.service": "fastapi",
    "obil.spark": "pyspark",
}

PUBLIC = {
    "obil": """
        Backtest ChangeReport ConcurrentUseError Costs Decision Decisions EstimationError FleetLevel Gate Holdout
        InvalidInputError InvalidStateError ModelFileError NotStartedError OBILClassifier ObilError OnlineClassifier
        OnlineFleet PerformanceReport Plan PredictionSets PriorEstimate RatioClassifier RatioModel Scores
        SegmentEstimates Verdict Verification backtest datasets estimate_prior load monitor networks plan policies
        prevalence_from_judge save service spark trackers verify
    """,
    "obil.datasets": """
        GaussianClasses NamedSet ShiftedStream Split Stream duplicate_groups load_named named_sets prior_paths
        read_table shifted_streams stratified_split thinned_rows time_split
    """,
    "obil.kafka": "KafkaStream",
    "obil.mlflow": "log_model save_model",
    "obil.monitor": "Difference LabelShiftMonitor ScoreRegion",
    "obil.networks": """
        BinaryLoss CategoricalLoss ConvNet GraphConvNet LossReport MLP ModuleKind NetworkKind TextTransformer Training
        bregman_loss brier categorical_cross_entropy check_loss cost_weighted cost_weighted_squared_error
        cross_entropy exponential logistic normalised_edges squared_error
    """,
    "obil.onnx": "export_posterior",
    "obil.policies": """
        AlertBudget BoundPolicy CostPolicy FBetaPolicy GMeanPolicy Policy PrecisionFloor RecallFloor
    """,
    "obil.river": "LabelShiftClassifier",
    "obil.service": "Client NotReachedError ServiceError ServiceSettings StreamClient open_service",
    "obil.spark": "estimate_prior score stream stream_batches",
    "obil.sql": "SqlExpressions sql_expressions",
    "obil.trackers": """
        Algorithm2 BBSE BayesBank FixedPrior GridFilter LearnsFromLabels OnlineEM PriorTracker SafeTracker
        ViewReference WindowEM
    """,
}
# integrations: one module each, which loads what it needs when it is imported
MODULES = {"obil.kafka", "obil.mlflow", "obil.onnx", "obil.river", "obil.sql"}
PACKAGES = [name for name in PUBLIC if name not in MODULES]
NAMES = [(package, name) for package, names in PUBLIC.items() for name in names.split()]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md"))]
SCRIPTS = sorted(
    str(script.relative_to(ROOT)) for folder in ("examples", "deploy") for script in ROOT.glob(f"{folder}/*.py")
)
PYTHON_BLOCK = re.compile(r"```(?:python|pycon)\n(.*?)```", flags=re.DOTALL)


def public(package: str, name: str) -> object:
    if package in NEEDS:
        pytest.importorskip(NEEDS[package], reason=f"needs {NEEDS[package]}")
    return getattr(importlib.import_module(package), name)


def used_names(code: str) -> Iterator[str]:
    """Every dotted name below `obil` that `code` imports or reads."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "obil")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "obil":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and (dotted := dotted_name(node)) and dotted.startswith("obil."):
            yield dotted


def dotted_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted_name(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def is_public(dotted: str) -> bool:
    """Whether a dotted name is a public package or begins with a public name: attributes of one are its own matter."""
    if dotted in PUBLIC or dotted == "obil.__version__":
        return True
    package = ".".join(dotted.split(".")[:2]) if ".".join(dotted.split(".")[:2]) in PUBLIC else "obil"
    return dotted.removeprefix(package + ".").split(".")[0] in PUBLIC[package].split()


@pytest.mark.parametrize("package", PUBLIC)
def test_a_public_package_lists_exactly_the_names_written_here(package: str) -> None:
    if package in MODULES and package in NEEDS:
        pytest.importorskip(NEEDS[package], reason=f"needs {NEEDS[package]}")
    module = importlib.import_module(package)
    names = PUBLIC[package].split()
    assert names == sorted(names)
    assert module.__all__ == names
    assert package in MODULES or dir(module) == names


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_hidden_by_a_module_of_its_package(package: str) -> None:
    module = importlib.import_module(package)
    modules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    taken = modules & set(PUBLIC[package].split())
    assert all(isinstance(getattr(module, name), ModuleType) for name in taken)


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[".".join(pair) for pair in NAMES])
def test_a_public_name_and_its_methods_have_a_docstring(package: str, name: str) -> None:
    value = public(package, name)
    assert (inspect.getdoc(value) or "").strip()
    if inspect.isclass(value):
        for member, method in vars(value).items():
            if not member.startswith("_") and (inspect.isroutine(method) or isinstance(method, property)):
                assert inspect.getdoc(method), f"{name}.{member}"


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[".".join(pair) for pair in NAMES])
def test_a_public_name_has_a_doctest(package: str, name: str) -> None:
    value = public(package, name)
    if isinstance(value, ModuleType):  # its names have their own
        return
    docstring = value.__doc__ or ""
    assert doctest.DocTestParser().get_examples(docstring), f"{package}.{name} shows no example"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No obil attribute NoSuchThing"):
        obil.NoSuchThing
    with pytest.raises(ImportError, match="NoSuchThing"):
        exec("from obil.trackers import NoSuchThing")


def test_importing_the_public_packages_loads_nothing_heavy() -> None:
    code = f"""
import importlib, sys
for package in {PACKAGES}:
    dir(importlib.import_module(package))
print([name for name in {HEAVY} if name in sys.modules])
"""
    source = str(Path(obil.__file__).parents[1])
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": source})
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_uses_public_names_only(page: str) -> None:
    for block in PYTHON_BLOCK.findall((ROOT / page).read_text()):
        private = [name for name in used_names(block.replace(">>> ", "")) if not is_public(name)]
        assert not private, f"{page} shows {private}"


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_uses_public_names_only(script: str) -> None:
    private = [name for name in used_names((ROOT / script).read_text()) if not is_public(name)]
    assert not private, f"{script} uses {private}"


@pytest.mark.parametrize("page", PAGES)
def test_prose_names_nothing_private(page: str) -> None:
    """`obil.something` between backticks is an interface that a reader will try."""
    named = re.findall(r"`(obil(?:\.\w+)+)", (ROOT / page).read_text())
    files = ("obil.db", "obil.key", "obil.secret", "obil.service", "obil.conf")
    private = [name for name in named if not is_public(name) and name not in files]
    assert page == "CONTRIBUTING.md" or not private, f"{page} names {private}"


def test_the_check_of_pages_finds_what_is_private() -> None:
    code = (
        "import obil.serving.files; from obil.trackers import BayesBank, passes; obil.arrays.as_prior(1); obil.load(1)"
    )
    private = {name for name in used_names(code) if not is_public(name)}
    assert private == {"obil.serving.files", "obil.trackers.passes", "obil.arrays", "obil.arrays.as_prior"}


def every_module() -> Iterator[str]:
    skipped = tuple(package for package, extra in NEEDS.items() if find_spec(extra) is None)
    for found in pkgutil.walk_packages(obil.__path__, "obil.", onerror=lambda name: None):
        if not found.name.startswith(skipped) and not found.name.startswith("obil.resampling"):
            yield found.name


@pytest.mark.parametrize("name", [*every_module()])
def test_every_class_and_function_without_an_underscore_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip()
    for member, value in vars(module).items():
        defined_here = getattr(value, "__module__", None) == name
        if defined_here and not member.startswith("_") and (inspect.isclass(value) or inspect.isroutine(value)):
            assert (inspect.getdoc(value) or "").strip(), f"{name}.{member}"


def test_user_errors_are_value_errors_too_and_all_have_one_root() -> None:
    assert issubclass(obil.InvalidInputError, ValueError)
    assert issubclass(obil.InvalidStateError, ValueError)
    assert issubclass(obil.ModelFileError, ValueError)
    assert issubclass(obil.NotStartedError, RuntimeError)
    errors = [value for _, value in inspect.getmembers(importlib.import_module("obil.errors"), inspect.isclass)]
    assert all(issubclass(error, obil.ObilError) and error.__name__ in obil.__all__ for error in errors)
