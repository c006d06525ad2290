"""What in a stream was not so in training is counted and told."""

import json
from pathlib import Path

from tests.cli.cases import obil, ward_rows, write_csv


def test_rows_without_features_and_unseen_categories_are_counted(here: Path) -> None:
    rows = ward_rows(100, 0.3, seed=2)
    for place in (3, 50):
        rows[place][3] = "West"
    write_csv(here / "rows.csv", rows)
    command = ["stream", "model", "rows.csv", "--out", "out.csv"]
    ran = obil(*command)
    assert (
        "column 'ward' has a category that the training table did not have, or not often, in 2 of the 100 rows of this "
        "run" in ran.stderr
    )
    assert "no feature" not in ran.stderr
    for row in ward_rows(20, 0.3, seed=3):
        rows.append([row[0], "", "", "", *row[4:]])
    write_csv(here / "rows.csv", rows)
    found = json.loads(obil(*command, "--json").stdout)["unusual"]
    assert found == {"without_features": 20, "unseen_categories": {}, "far_outside": {}}  # of the rows of this run
    ran = obil("stream", "model", "rows.csv", "--out", "again.csv")
    assert "20 of the 120 rows of this run have no feature at all" in ran.stderr
    assert "they are left out of the prior" in ran.stderr


def test_rows_without_features_leave_the_prior_where_it_is(here: Path) -> None:
    rows = ward_rows(100, 0.3, seed=2)
    write_csv(here / "rows.csv", rows)
    command = ["stream", "model", "rows.csv", "--out", "out.csv", "--json"]
    before = json.loads(obil(*command).stdout)["prior"]
    write_csv(here / "rows.csv", rows + [[row[0], "", "", "", *row[4:]] for row in ward_rows(200, 0.3, seed=3)])
    ran = json.loads(obil(*command).stdout)
    assert ran["rows"] == 300
    assert ran["prior"] == before


def test_usual_rows_give_no_note(here: Path) -> None:
    assert "Note:" not in obil("stream", "model", "new.csv", "--out", "out.csv").stderr
