"""Compile the machine code that deciding needs."""

import tempfile
import warnings
from pathlib import Path

import typer

from obil.cli import common


@common.one_line_errors()
def compile() -> None:  # noqa: A001  # the name of the command
    """Compile the machine code of streams, once per installation; otherwise the first start does so.

    It is kept beside the package, or in NUMBA_CACHE_DIR where that is set.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    import obil
    from obil.service.machine_code import show_compiling, use

    random = np.random.default_rng(0)
    labels = (random.random(3_000) < 0.2).astype(int)
    rows = random.normal(size=(3_000, 3)) + labels[:, None]
    with tempfile.TemporaryDirectory() as place, show_compiling(lambda line: typer.echo(f"obil is {line}", err=True)):
        for views in (True, False):
            model = obil.RatioClassifier(LogisticRegression(), views=views, random_state=0).fit(rows, labels)
            obil.save(model, Path(place) / "model")
            saved = obil.load(Path(place) / "model")
            for tracker in (None, obil.trackers.BayesBank()):
                with warnings.catch_warnings(action="ignore"):  # of the model without views, which nobody will serve
                    use(obil.OnlineClassifier(saved, tracker=tracker), rows[:600], 1)
    typer.echo("Machine code is compiled.")
