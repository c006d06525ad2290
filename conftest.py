"""Leave out the doctests of what needs an extra that is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [
    *([] if find_spec("torch") else ["src/obil/bregman/*"]),
    *([] if find_spec("fastapi") else ["src/obil/service/*"]),
    *([] if find_spec("pyspark") else ["src/obil/spark/*"]),
    *([] if find_spec("imblearn") else ["src/obil/problems/smote.py"]),
]
