"""Name the scripts of the gallery in the order of its page."""

from pathlib import Path

SCRIPTS = (
    "plot_tutorial.py",
    "plot_undersampling.py",
    "plot_thresholds.py",
    "plot_diagnostic_test.py",
)


class InOrder:
    """Sort the scripts of a folder as `SCRIPTS` does."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, script: str) -> int:
        return SCRIPTS.index(Path(script).name)
