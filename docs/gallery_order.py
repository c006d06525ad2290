"""Name the scripts of the gallery in the order of its page."""

from pathlib import Path

SCRIPTS = (
    "plot_tutorial.py",
    "plot_undersampling.py",
    "plot_thresholds.py",
    "plot_diagnostic_test.py",
    "plot_llm_judge.py",
    "plot_late_labels.py",
    "plot_branches.py",
    "plot_expected_precision.py",
    "plot_label_shift.py",
    "plot_cbpe.py",
    "plot_calibrated_classifier_cv.py",
    "plot_resampling.py",
    "plot_multiclass.py",
    "plot_images.py",
    "plot_spark.py",
    "plot_service.py",
)


class InOrder:
    """Sort the scripts of a folder as `SCRIPTS` does."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, script: str) -> int:
        return SCRIPTS.index(Path(script).name)
