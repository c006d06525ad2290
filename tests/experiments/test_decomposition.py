"""The decomposition ends at the ensemble that is shipped, changes one thing at a time, and writes what it measured."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the torch extra")
pytest.importorskip("imblearn", reason="needs the experiments extra")

from experiments import decomposition
from obil.estimators.recipes import recipe_of

SETTINGS = {"sets": ["yeast4", "mammography"], "splits": 3, "test_share": 0.3}


def test_it_ends_at_the_recipe_that_is_shipped() -> None:
    recipe = recipe_of("paper")
    assert decomposition.STEPS[decomposition.NOW] == {"member": recipe.kinds[0], "cv": recipe.cv}
    assert (recipe.loss, recipe.fusion) == ("squared_error", "dropout")


def test_each_step_changes_one_setting() -> None:
    steps = list(decomposition.STEPS.values())
    for before, after in pairwise(steps[:-1]):
        names = before["member"].training.__slots__
        own, other = (step["member"].training for step in (before, after))
        assert sum(getattr(own, name) != getattr(other, name) for name in names) == 1
        assert before["cv"] == after["cv"]
    assert steps[-2]["member"] == steps[-1]["member"]
    assert steps[-2]["cv"] != steps[-1]["cv"]


def test_figures_are_means_over_splits_and_changes_are_paired() -> None:
    variants = (decomposition.PLAIN, *decomposition.VARIANTS)
    results = [
        (
            {"set": name, "split": split, "variant": variant},
            {"auprc": 0.1 * split + 0.01 * number + 0.001 * split * number, "seconds": 2.0, "on_gpu": False},
        )
        for number, variant in enumerate(variants)
        for name in SETTINGS["sets"]
        for split in (2, 0, 1)
    ]
    figures = decomposition.figures(results, SETTINGS)
    number = variants.index(decomposition.NOW)
    assert figures["auprc.yeast4.paper"] == pytest.approx(0.1 + 0.01 * number + 0.001 * number)
    assert figures[f"change.yeast4.{decomposition.NOW}"] == pytest.approx(0.011)
    assert figures[f"change.yeast4.{decomposition.PLAIN}"] == pytest.approx(-0.011 * number)
    text = decomposition.table(figures, SETTINGS)
    assert all(variant in text for variant in variants)
    assert np.isfinite(list(figures.values())).all()
