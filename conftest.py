"""Leave out the doctests of what needs an extra that is not installed; let tests compute on one thread each."""

import os
from importlib.util import find_spec

# before numpy starts its pools: on a busy machine their threads wait for each other, and a test for minutes
os.environ.setdefault("OMP_NUM_THREADS", "1")

collect_ignore_glob = [
    *([] if find_spec("torch") else ["src/obil/networks/*"]),
    *([] if find_spec("fastapi") else ["src/obil/service/*"]),
    *([] if find_spec("pyspark") else ["src/obil/spark/*"]),
    *([] if find_spec("imblearn") else ["src/obil/resampling/smote.py"]),
]
