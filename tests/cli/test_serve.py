"""`obil calibrate`, `verify`, `predict` and `prior` on a model that is there."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.tree import DecisionTreeClassifier

import obil as package
from tests.cli.cases import HEADER, obil, ward_rows, write_csv


def scored(*arguments: object) -> pd.DataFrame:
    result = obil("predict", *arguments)
    assert result.exit_code == 0, result.output
    return pd.read_csv(io.StringIO(result.stdout))


def test_predict_gives_the_posterior_and_the_decision_of_the_given_prior(here: Path) -> None:
    found = scored("model", "new.csv", "--prior", "0.02", "--keep", "id,ward")
    assert list(found) == ["id", "ward", "log_ratio", "posterior", "decision"]
    np.testing.assert_allclose(found["posterior"], expit(found["log_ratio"] + logit(0.02)), rtol=1e-9)
    assert (found["decision"] == np.where(found["posterior"] > 0.5, "yes", "no")).all()
    expected = package.load("model").log_ratios(pd.read_csv("new.csv"))[:, 1]
    np.testing.assert_allclose(found["log_ratio"], expected, rtol=1e-12)


def test_predict_without_a_prior_uses_that_of_training(here: Path) -> None:
    found = scored("model", "new.csv")
    np.testing.assert_allclose(
        found["posterior"], expit(found["log_ratio"] + logit(package.load("model").prior_[1])), rtol=1e-9
    )


def test_predict_decides_by_cost_and_by_policy(here: Path) -> None:
    plain = scored("model", "new.csv", "--prior", ".1")
    careful = scored("model", "new.csv", "--prior", ".1", "--cost-fn", "20")
    assert (careful["posterior"] > 1 / 21).eq(careful["decision"] == "yes").all()
    floor = scored("model", "new.csv", "--prior", ".1", "--policy", "recall:0.95")
    alerts = [(frame["decision"] == "yes").sum() for frame in (plain, floor)]
    assert alerts[0] < alerts[1]


def test_a_prior_can_name_its_classes(here: Path) -> None:
    by_name = scored("model", "new.csv", "--prior", "yes=.02,no=.98")
    pd.testing.assert_frame_equal(by_name, scored("model", "new.csv", "--prior", ".02"))


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_predict_writes_the_file_its_name_says_and_nothing_else(name: str, here: Path) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'spark' brings it)")
    before = set(here.iterdir())
    result = obil("predict", "model", "new.csv", "--prior", ".1", "--keep", "id", "--out", name)
    assert result.exit_code == 0, result.output
    assert "200 rows written" in result.stdout
    assert set(here.iterdir()) - before == {here / name}
    back = pd.read_parquet(name) if name.endswith("parquet") else pd.read_csv(name)
    assert back["id"].tolist() == pd.read_csv("new.csv")["id"].tolist()


def test_an_unreachable_policy_says_so(here: Path) -> None:
    result = obil("predict", "model", "new.csv", "--prior", "1e-6", "--policy", "precision:0.99", "--out", "o.csv")
    assert result.exit_code == 0
    assert "nothing is alerted" in result.stdout


def test_kept_columns_stay_letter_for_letter(here: Path) -> None:
    rows = [[*row, f"00{i}90071992547409931"] for i, row in enumerate(ward_rows(5, 0.4, seed=0))]
    write_csv(here / "in.csv", rows, header=[*HEADER, "case"], delimiter=";", decimal=",")
    lines = obil("predict", "model", "in.csv", "--keep", "case").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [f"00{i}90071992547409931" for i in range(5)]


def test_semicolons_order_and_further_columns_change_nothing(here: Path) -> None:
    frame = pd.read_csv("new.csv")
    frame[["ward", "pulse", "size"]].assign(remark="x;y").to_csv("other.csv", sep=";", decimal=",", index=False)
    pd.testing.assert_frame_equal(scored("model", "other.csv"), scored("model", "new.csv"))


def test_categories_that_look_like_numbers_stay_the_categories_they_were_at_fit(here: Path) -> None:
    text = (here / "train.csv").read_text().replace("North", "1").replace("South", "2")
    (here / "t.csv").write_text(text)
    assert obil("fit", "t.csv", "--target", "ill", "--model", "logistic", "--out", "m").exit_code == 0
    lines = text.splitlines()
    (here / "one.csv").write_text("\n".join([lines[0], *(line for line in lines[1:] if ",1," in line)]) + "\n")
    (here / "all.csv").write_text(text)
    whole = scored("m", "all.csv", "--keep", "id").set_index("id")
    part = scored("m", "one.csv", "--keep", "id").set_index("id")
    assert part["log_ratio"].tolist() == whole.loc[part.index, "log_ratio"].tolist()


def test_verify_deploys_a_good_model_and_leaves_unlabelled_rows_out(here: Path) -> None:
    rows = ward_rows(600, 0.3, seed=2)
    for row in rows[:10]:
        row[4] = "NA"
    write_csv(here / "h.csv", rows)
    result = obil("verify", "model", "h.csv", "--target", "ill")
    assert result.exit_code == 0, result.output
    assert "10 unlabelled rows left out" in result.stdout
    assert "590 labelled rows" in result.stdout
    record = json.loads(obil("verify", "model", "h.csv", "--target", "ill", "--json").stdout)
    assert record["verdict"]["decision"] in {"deploy", "warn"}
    assert record["unlabelled"] == 10


def test_verify_ends_with_1_when_the_gate_refuses(here: Path) -> None:
    rows = ward_rows(600, 0.3, seed=2)
    for row in rows:
        row[4] = {"yes": "no", "no": "yes"}[row[4]]
    write_csv(here / "h.csv", rows)
    for arguments in ((), ("--json",)):
        result = obil("verify", "model", "h.csv", "--target", "ill", *arguments)
        assert result.exit_code == 1, result.output
    assert json.loads(result.stdout)["verdict"]["decision"] == "refuse"


def test_calibrate_takes_a_planted_bias_out_again(here: Path) -> None:
    # every size moved by .6: to the model each row then looks 1.2 more like the positive class than it is
    rows = ward_rows(2_000, 0.3, seed=3)
    for row in rows:
        row[1] = f"{float(row[1]) + 0.6:.4f}"
    write_csv(here / "moved.csv", rows[:1_000])
    write_csv(here / "h.csv", rows[1_000:])
    before = json.loads(obil("verify", "model", "h.csv", "--target", "ill", "--json").stdout)
    result = obil("calibrate", "model", "moved.csv", "--target", "ill", "--out", "model2", "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["rows"] == 1_000
    assert record["after"]["offsets"][0] < record["before"]["offsets"][0] - 0.7
    after = json.loads(obil("verify", "model2", "h.csv", "--target", "ill", "--json").stdout)
    assert before["verdict"]["decision"] != "deploy"
    assert after["verdict"]["decision"] == "deploy"
    assert package.load("model").calibrator.offsets[1] == record["before"]["offsets"][0]


@pytest.mark.parametrize("method", ["affine", "temperature", "isotonic"])
def test_calibrate_keeps_the_method_it_finds(method: str, here: Path) -> None:
    arguments = ("--target", "ill", "--model", "logistic", "--calibration", method, "--out", "m")
    assert obil("fit", "train.csv", *arguments).exit_code == 0
    record = json.loads(obil("calibrate", "m", "new.csv", "--target", "ill", "--json").stdout)
    assert record["method"] == method
    assert record["model"] == "m"
    assert len(package.load("m").holdout_.labels) == 200
    assert "Calibrated" in obil("calibrate", "m", "new.csv", "--target", "ill").stdout


@pytest.mark.parametrize("ensemble", [True, False])
def test_a_stream_of_a_recalibrated_model_of_several_folds_finds_the_prior(here: Path, ensemble: bool) -> None:
    """The seeds are fixed: over others the prior found has a standard deviation of .015, and 99 % intervals cover."""
    names = ["a", "b", "c"]

    def drawn(n: int, prior: float, seed: int, *, moved: float = 0.0) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        ill = rng.random(n) < prior
        rows = rng.normal(moved + 0.9 * ill[:, None], 1.0, (n, 3))
        return pd.DataFrame(rows, columns=names).assign(ill=ill.astype(int))

    train, rows = drawn(1_500, 0.3, 0), drawn(6_000, 0.1, 2, moved=0.4)
    tree = DecisionTreeClassifier(min_samples_leaf=10, random_state=0)  # each fold's differs much from the mean
    fitted = package.RatioClassifier(tree, ensemble=ensemble, views=True, random_state=0)
    package.save(fitted.fit(train[names], train["ill"]), "m")
    drawn(4_000, 0.3, 1, moved=0.4).to_csv("moved.csv", index=False)
    result = obil("calibrate", "m", "moved.csv", "--target", "ill", "--out", "m2")
    assert "views of the model" in result.stdout
    model = package.load("m2")
    assert (model.n_folds, model.n_views) == (5, 0)
    online = package.OnlineClassifier(model, tracker=package.trackers.BayesBank())
    assert online.decide_many(rows[names]).effective_priors[3_000:, 1].mean() == pytest.approx(0.1, abs=0.04)
    assert online.trusted
    low, high = package.estimate_prior(model, rows[names], level=0.99).interval[1]
    assert low < 0.1 < high
    if ensemble:  # one fold's scores are not distributed as their mean, which the calibrator was fitted on
        biased = package.OnlineClassifier(replace(model, evidence=None))
        biased.decide_many(rows[names])
        assert not biased.trusted


def test_prior_covers_the_truth_whole_and_by_group(here: Path) -> None:
    # the ward must not be a feature: inside one ward it would count as evidence
    arguments = ("--target", "ill", "--model", "logistic", "--drop", "ward,score,id", "--out", "m", "--positive", "yes")
    assert obil("fit", "train.csv", *arguments).exit_code == 0
    rows = ward_rows(400, 0.05, seed=5)
    for row in rows:
        row[3] = "A"
    more = ward_rows(400, 0.5, seed=6)
    for i, row in enumerate(more):
        row[3] = "B" if i else ""
    write_csv(here / "in.csv", rows + more)
    record = json.loads(obil("prior", "m", "in.csv", "--by", "ward", "--level", "0.99", "--json").stdout)
    groups = {one["group"]: one for one in record["groups"]}
    assert list(groups) == [None, "(missing)", "A", "B"]
    assert [groups[name]["rows"] for name in (None, "A", "B")] == [800, 400, 399]
    for name, truth in (("A", 0.05), ("B", 0.5), (None, 0.275)):  # at 99 %, and the seeds are fixed
        low, high = groups[name]["interval"]["yes"]
        assert low < truth < high
    assert groups["A"]["deviates"]
    assert groups["A"]["alone"]["prior"]["yes"] < groups["A"]["prior"]["yes"]  # drawn to the others
    assert groups["(missing)"]["alone"]["interval"]["yes"] != groups["(missing)"]["interval"]["yes"]
    text = obil("prior", "m", "in.csv", "--by", "ward").stdout
    assert "prevalence of yes" in text
    assert "by its own rows" in text
    assert "90% interval" in text
    assert obil("prior", "m", "in.csv").stdout.count("800") == 1


def test_a_model_saved_from_python_without_names_takes_the_columns_in_order(here: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    frame = pd.read_csv("train.csv").dropna()
    X, y = frame[["size", "score"]].to_numpy(), (frame["ill"] == "yes").to_numpy()
    package.save(package.RatioClassifier(LogisticRegression(), random_state=0).fit(X, y), "m")
    frame[["id", "size", "score"]].to_csv("in.csv", index=False)
    found = scored("m", "in.csv", "--keep", "id")
    np.testing.assert_allclose(found["log_ratio"], package.load("m").log_ratios(X)[:, 1], rtol=1e-6)
    frame[["size", "score"]].assign(truth=y).to_csv("h.csv", index=False)
    assert obil("verify", "m", "h.csv", "--target", "truth").exit_code == 0


def test_a_model_saved_from_python_with_names_ignores_further_columns(here: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    frame = pd.read_csv("train.csv").dropna()
    model = package.RatioClassifier(LogisticRegression(), random_state=0).fit(frame[["size", "score"]], frame["ill"])
    package.save(model, "m")
    assert len(scored("m", "new.csv", "--keep", "id")) == 200
    assert obil("verify", "m", "new.csv", "--target", "ill").exit_code == 0


@pytest.mark.parametrize("probabilities", [True, False])
def test_only_scores_from_probabilities_are_calibrated_with_a_slope_near_1(here: Path, probabilities: bool) -> None:
    rows = ward_rows(300, 0.3, seed=4)
    for row in rows:
        row[5] = row[5] if probabilities else f"{10.0 * float(row[5]) - 5.0:.4f}"
    write_csv(here / "t.csv", rows)
    assert obil("fit", "t.csv", "--target", "ill", "--score", "score", "--out", "m").exit_code == 0
    assert package.load("m").scores_probabilities == probabilities
    assert not package.load("model").scores_probabilities  # frozen into arrays
