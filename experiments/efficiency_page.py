"""Write the tables of `experiments.efficiency`."""

from typing import Any

from experiments.markdown import markdown_table
from experiments.paper_claims import COST

VANILLA, PAPERS = "Vanilla", "OBIL paper"
TRACKERS = {  # that adapt the scores of a model
    "BBSE": ("soft votes",),
    PAPERS: ("Algorithm 2", "bank"),
    "OBIL default": ("safe tracker",),
    "boosting": ("safe tracker",),
}
LABELS = {"soft votes": "posteriors"}  # a key of the results
CLAIMS = COST | {PAPERS: COST["OBIL"]}


def table(figures: dict[str, float], settings: dict[str, Any]) -> str:
    """Write the figures as Markdown."""
    models = settings["models"]
    costs = [
        [
            name,
            *_claimed(name, "train"),
            f"{figures[f'train.{name}']:.3g}",
            _times(figures[f"train.{name} over {VANILLA}"]),
            *_claimed(name, "infer"),
            f"{figures[f'row.{name}']:.3g}",
            _times(figures[f"row.{name} over {VANILLA}"]),
            f"{figures[f'block.{name}']:.2g}",
            _times(figures[f"block.{name} over {VANILLA}"]),
        ]
        for name in models
    ]
    trackers = [(name, tracker) for name in models for tracker in TRACKERS.get(name, ())]
    adapting = [
        [
            f"{name}, {LABELS.get(tracker, tracker)}",
            f"{CLAIMS[name]['adapt']:g}" if tracker == "Algorithm 2" else "",
            f"{figures[f'adapt row.{name}, {tracker}']:.2g}",
            _times(figures[f"adapt row.{name}, {tracker} over {VANILLA}"]),
            f"{figures[f'adapt block.{name}, {tracker}']:.2g}",
            _times(figures[f"adapt block.{name}, {tracker} over {VANILLA}"]),
        ]
        for name, tracker in trackers
    ]
    rounds = (f"`{name}` kept {figures[f'rounds.{name}']:.0f}" for name in models if f"rounds.{name}" in figures)
    head = (
        f"Seconds to train on {settings['set']}, and milliseconds per row to score and to adapt, on one thread: the "
        f"fastest of {settings['train_repeats']} runs (training) or {settings['repeats']} (the rest), taken in turns. "
        f"Machines differ, so read the columns x: they are over {VANILLA}'s in the same run. The paper's columns are "
        "its claims; of how many rows its time to infer is it does not say, so that only its x can be held against "
        f"ours. Rows are scored one at a time, and in a block of {settings['block_rows']:,}, by scikit-learn's "
        "`predict_proba` or our `log_ratios`; boosting also scores the four views that its tracker looks at. "
        f"{VANILLA} is scikit-learn's network with 128, 64 and 32 units, 50 epochs; a member of `OBIL paper` trains "
        "for up to 100, and 30 dropout passes weigh it. BBSE trains on three quarters of the rows; the "
        "others give its confusion matrix. `boosting` is "
        "`RatioClassifier(HistGradientBoostingClassifier())`: five folds, one fit on all rows, and the views. RUSBoost "
        "(imbalanced-learn; networks at rate .1, stumps at 1) ends when a round errs on half the weight: "
        f"{', '.join(rounds)} rounds.\n"
    )
    follow_head = (
        'Adapting to a row once it is scored; the paper\'s .01 ms are "per sample". BBSE is `obil.trackers.BBSE`: it '
        f"solves for the prior again after every row, here over the last {settings['batch_rows']:,}. The "
        f"columns x are over {VANILLA}'s time to score a row, one at a time or in a block.\n"
    )
    batch = (
        f"BBSE on a batch of {settings['batch_rows']:,} rows takes {figures['solve']:.2g} ms once they are scored, and "
        f"{figures['score and solve']:.2g} ms with scoring them. The paper's claim is {CLAIMS['BBSE']['adapt']:g} ms, "
        "of how many rows it does not say.\n"
    )
    columns = [
        "model",
        "train, s, paper",
        "x, paper",
        "train, s",
        "x",
        "infer, ms, paper (rows not said)",
        "x, paper",
        "a row, ms",
        "x",
    ]
    return "\n".join(
        [
            head,
            markdown_table([*columns, "in a block, ms", "x"], costs),
            follow_head,
            markdown_table(["tracker", "per row, ms, paper", "per row, ms", "x", "in a block, ms", "x"], adapting),
            batch,
        ]
    )


def _claimed(name: str, work: str) -> tuple[str, str]:
    """Return the paper's time of a model, and that over the vanilla network's; nothing where it has none."""
    claim = CLAIMS.get(name.partition(",")[0])
    return ("", "") if claim is None else (f"{claim[work]:g}", _times(claim[work] / CLAIMS[VANILLA][work]))


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 10.0 else f"{ratio:.0f}"
