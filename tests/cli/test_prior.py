"""`obil prior`: sites pool what they know of the prevalence without sharing rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import obil as package
from obil.datasets.gaussian_stream import GaussianClasses
from tests.cli.cases import error_line, obil

PAIR = GaussianClasses.pair(2.0)
TRIANGLE = GaussianClasses(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), np.eye(2))


def table(classes: GaussianClasses, prior: list[float], n_rows: int, seed: int, **columns: object) -> pd.DataFrame:
    rows = classes.draw(np.tile(prior, (n_rows, 1)), random_state=seed).log_ratios[:, 1:]
    return pd.DataFrame(rows, columns=[f"x{k}" for k in range(rows.shape[1])]).assign(**columns)


def save_model(classes: GaussianClasses, place: str, *, seed: int = 0) -> None:
    held_out = classes.draw(np.tile(np.full(classes.n_classes, 1.0 / classes.n_classes), (3_000, 1)), random_state=seed)
    scores = held_out.log_ratios[:, 1] if classes.n_classes == 2 else held_out.log_ratios
    package.save(package.RatioClassifier.from_scores(scores, held_out.labels, kind="margin", random_state=0), place)


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[pd.DataFrame]:
    """Return the tables of three sites, one ward of which is in two, beside a model `m`."""
    monkeypatch.chdir(tmp_path)
    save_model(PAIR, "m")
    found = [
        pd.concat([table(PAIR, [1 - p, p], 300, 10 * i + j, ward=w) for j, (w, p) in enumerate(parts)])
        for i, parts in enumerate([[("a", 0.1), ("b", 0.3)], [("b", 0.3), ("c", 0.15)], [("d", 0.2), ("e", 0.1)]])
    ]
    for number, rows in enumerate(found):
        rows.to_csv(f"site{number}.csv", index=False)
    pd.concat(found).to_csv("all.csv", index=False)
    return found


def groups_of(*arguments: object) -> dict[str | None, dict[str, object]]:
    return {one["group"]: one for one in json.loads(obil("prior", *arguments, "--json").stdout)["groups"]}


def files(count: int = 3) -> list[str]:
    return [part for number in range(count) for part in ("--evidence-in", f"site{number}.json")]


@pytest.mark.parametrize("by", [(), ("--by", "ward")])
def test_sites_together_find_what_one_table_of_all_rows_shows(sites: list[pd.DataFrame], by: tuple[str, ...]) -> None:
    drop = (
        [] if by else [frame.drop(columns="ward").to_csv(f"site{i}.csv", index=False) for i, frame in enumerate(sites)]
    )
    if drop:
        pd.concat(sites).drop(columns="ward").to_csv("all.csv", index=False)
    for number in range(3):
        written = obil("prior", "m", f"site{number}.csv", *by, "--evidence-out", f"site{number}.json")
        assert "without noise, so that a count may be of a single row" in written.stderr
    whole, pooled = groups_of("m", "all.csv", *by), groups_of("m", *files())
    assert list(pooled) == list(whole)
    for name, one in whole.items():
        assert pooled[name]["rows"] == one["rows"]
        exact = np.array([one["prior"]["1"], *one["interval"]["1"]])
        found = np.array([pooled[name]["prior"]["1"], *pooled[name]["interval"]["1"]])
        np.testing.assert_allclose(found, exact, atol=0.01 * (exact[2] - exact[1]))  # rounding to 1/8
        assert pooled[name].get("deviates") == one.get("deviates")
    text = obil("prior", "m", *files()).stdout
    assert "Prevalence in 3 evidence files" in text
    local = groups_of("m", "site2.csv", *by, *files(2))  # the third site reads what the others sent
    assert local[None]["prior"]["1"] == pytest.approx(pooled[None]["prior"]["1"], abs=1e-12)


def test_the_order_of_files_does_not_matter_and_no_value_of_a_row_is_in_them(sites: list[pd.DataFrame]) -> None:
    for number in range(3):
        obil("prior", "m", f"site{number}.csv", "--by", "ward", "--evidence-out", f"site{number}.json")
    there, back = (
        groups_of("m", *files()),
        groups_of("m", *[f for n in (2, 1, 0) for f in ("--evidence-in", f"site{n}.json")]),
    )
    for name, one in there.items():
        assert back[name]["prior"]["1"] == pytest.approx(one["prior"]["1"], abs=1e-9)
    record = json.loads(Path("site0.json").read_text())
    assert set(record) == {
        "format", "version", "model", "classes", "folds", "by", "epsilon", "bins", "segments", "digest"
    }  # fmt: skip
    numbers = [value for line in record["segments"] for steps in line["steps"] for value in steps]
    assert all(isinstance(value, int) for value in numbers)
    assert f"{sites[0]['x0'].iloc[0]:.6f}" not in Path("site0.json").read_text()


def test_three_classes_pool_and_segments_learn_from_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(TRIANGLE, "m")
    parts = [table(TRIANGLE, [0.6, 0.3, 0.1], 80, i, ward=f"w{i}") for i in range(6)]
    parts.append(table(TRIANGLE, [0.1, 0.3, 0.6], 80, 7, ward="moved"))
    for number, frames in enumerate((parts[:3], parts[3:])):
        pd.concat(frames)[["x0", "x1", "ward"]].assign(zero=0.0)[["zero", "x0", "x1", "ward"]].to_csv(
            f"site{number}.csv", index=False
        )
        obil("prior", "m", f"site{number}.csv", "--by", "ward", "--evidence-out", f"site{number}.json")
    pd.concat(parts).assign(zero=0.0)[["zero", "x0", "x1", "ward"]].to_csv("all.csv", index=False)
    whole, pooled = groups_of("m", "all.csv", "--by", "ward"), groups_of("m", *files(2))
    assert whole["moved"]["deviates"]
    assert [one.get("deviates") for one in pooled.values()] == [one.get("deviates") for one in whole.values()]
    for name, one in whole.items():
        for k in "012":
            assert pooled[name]["prior"][k] == pytest.approx(one["prior"][k], abs=1e-7)  # the same counts
    lines = obil("prior", "m", "all.csv", "--by", "ward").stdout.splitlines()
    assert [line.rstrip("| ").endswith("yes") for line in lines if "moved" in line] == [True]


def test_counts_with_noise_say_so_and_the_estimate_stays_sensible(sites: list[pd.DataFrame]) -> None:
    # intervals at 99.9 %, so one of 5 misses with probability .005
    for number in range(3):
        arguments = ("--by", "ward", "--evidence-out", f"site{number}.json", "--noise", "1")
        written = obil("prior", "m", f"site{number}.csv", *arguments)
        assert "with noise of epsilon 1 for each row" in written.stderr
    record = json.loads(Path("site0.json").read_text())
    assert record["epsilon"] == 1.0
    assert all(len(line["counts"]) == 16 for line in record["segments"])
    assert sum(map(sum, (line["counts"] for line in record["segments"]))) != 600
    again = json.loads(Path("site0.json").read_text())["segments"]
    obil("prior", "m", "site0.csv", "--by", "ward", "--evidence-out", "site0.json", "--noise", "1")
    assert json.loads(Path("site0.json").read_text())["segments"] != again  # noise is drawn afresh
    found = groups_of("m", *files(), "--level", "0.999")
    exact = groups_of("m", "all.csv", "--by", "ward", "--level", "0.999")
    for name, truth in (("a", 0.1), ("b", 0.3), ("c", 0.15), ("d", 0.2), ("e", 0.1)):
        low, high = found[name]["interval"]["1"]
        assert low < truth < high
        assert np.ptp(found[name]["alone"]["interval"]["1"]) > np.ptp(exact[name]["alone"]["interval"]["1"])
    output = json.loads(obil("prior", "m", *files(), "--json").stdout)
    assert [one["epsilon"] for one in output["evidence"]] == [1.0] * 3
    assert "noise of epsilon 1, which the intervals allow for" in obil("prior", "m", *files()).stdout


def test_options_that_do_not_fit_are_refused_before_the_work(sites: list[pd.DataFrame]) -> None:
    obil("prior", "m", "site0.csv", "--by", "ward", "--evidence-out", "site0.json")
    for arguments, message in (
        ((), "name a table, or evidence files"),
        (("site0.csv", "--noise", "1"), "give --evidence-out too"),
        (("site0.csv", "--noise", "0", "--evidence-out", "o.json"), "--noise must lie in"),
        (("site0.csv", "--noise", "nan", "--evidence-out", "o.json"), "--noise must lie in"),
        (("--evidence-out", "o.json", "--evidence-in", "site0.json"), "leave out --evidence-in"),
        (("--evidence-in", "site0.json", "--evidence-in", "./site0.json"), "must name a file once"),
        (("--evidence-in", "none.json"), "No such file"),
        (("--evidence-in", "site0.json", "--by", "branch"), "--by must be that of the evidence files"),
        (("site0.csv", "--evidence-out", "site0.csv"), "another file than the input"),
    ):
        result = obil("prior", "m", *arguments)
        assert result.exit_code == 2, arguments
        assert message in error_line(result)
    assert not Path("o.json").exists()


def test_foreign_and_damaged_files_are_refused(sites: list[pd.DataFrame]) -> None:
    obil("prior", "m", "site0.csv", "--by", "ward", "--evidence-out", "good.json")
    good = Path("good.json").read_text()
    save_model(PAIR, "other", seed=1)
    assert "written with another model" in error_line(obil("prior", "other", "--evidence-in", "good.json"))
    for text, message in (
        ("", "not an evidence file"),
        (good[:-40], "not an evidence file"),
        ("[" * 100_000, "not an evidence file"),
        ("[]", "not an evidence file"),
        (good.replace('"version":1', '"version":2'), "has version 2"),
        (good.replace('"name":"a"', '"name":"z"'), "damaged, its digest"),
        (good.replace('"epsilon":null', '"epsilon":1'), "damaged, its digest"),
    ):
        Path("bad.json").write_text(text)
        result = obil("prior", "m", "--evidence-in", "bad.json")
        assert result.exit_code == 2
        assert message in error_line(result)
