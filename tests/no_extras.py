"""A plugin for pytest that plays an install without the extras torch, service, spark and of integrations."""

from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

EXTRAS = frozenset(
    {"torch", "fastapi", "starlette", "uvicorn", "pydantic_settings", "prometheus_client", "psycopg"}
    | {"pyspark", "pyarrow", "mlflow", "river", "confluent_kafka", "onnx"}
)
_find = PathFinder.find_spec


def pytest_load_initial_conftests() -> None:
    """Hide the extras, before any conftest looks for them; importing this file, as doctests do, hides nothing."""
    PathFinder.find_spec = staticmethod(_find_others)


def _find_others(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
    return None if name.partition(".")[0] in EXTRAS else _find(name, path, target)
