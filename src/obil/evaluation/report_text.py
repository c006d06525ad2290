"""Say in plain words what a verdict, a policy and each figure of the report mean."""

import math
from typing import Any

from obil.calibration.recalibration import Estimate
from obil.calibration.verdict import Judgement
from obil.evaluation.markup import escaped, percent
from obil.policies import Policy

HEADLINES: dict[Judgement, str] = {
    "deploy": "Deploy",
    "warn": "Deploy with care",
    "refuse": "Do not deploy",
    "too few": "Too few rows to tell",
}
NEXT_STEPS: dict[Judgement, str] = {
    "deploy": "The thresholds can follow the class balance: <code>obil stream</code> does so row by row.",
    "warn": (
        "The fault is real but small. Recalibrate on labelled rows (<code>obil calibrate</code>), and then check again "
        "on other rows."
    ),
    "refuse": (
        "A prior tracked with these ratios would be wrong, and so would the thresholds. Recalibrate on labelled rows "
        "(<code>obil calibrate</code>) or improve the model, and then check again on other rows."
    ),
    "too few": (
        "Nothing speaks against the model, and the rows cannot vouch for it either. Label more rows, above all of the "
        "rarest class."
    ),
}

# (term, one sentence)
GLOSSARY = (
    ("Prior", "The share of all rows that truly belong to the class; it moves when the world does."),
    ("Log ratio", "How many times more likely a row is under the class than under the rest, as a natural logarithm."),
    (
        "Threshold",
        "A row is alerted when its log ratio is above this; in brackets the same as a probability at that prior.",
    ),
    ("Sensitivity", "Of the rows that truly are of the class, the share that is alerted (also called recall)."),
    ("Specificity", "Of the rows that are not, the share that is left alone."),
    ("PPV", "Positive predictive value: of the alerts, the share that is right (also called precision)."),
    ("NPV", "Negative predictive value: of the rows left alone, the share that was rightly left alone."),
    ("Alerts", "The share of all rows that is alerted: the work that alerts make."),
    ("F1", "One figure for sensitivity and PPV together, their harmonic mean; 1 is perfect."),
    ("Cost", "What 1,000 decisions cost on average, in the units of the costs above."),
    ("Offset", "What would have to be added to every log ratio to make it right on average; ideally 0."),
    ("Slope", "What log ratios would have to be multiplied by; below 1 the model is too sure of itself, ideally 1."),
    (
        "Calibration error",
        "How far promised probabilities are from what happened, on average, with every class given the same weight; "
        "ideally 0.",
    ),
)


def policy_words(policy: Policy) -> str:  # noqa: PLR0911  # one a policy
    r"""Return the rule that sets the threshold, in one sentence.

    >>> from obil.policies import RecallFloor
    >>> policy_words(RecallFloor(0.9))
    'The threshold is the highest that still finds 90\xa0% of the class.'
    """
    settings: dict[str, Any] = policy.to_json()
    match policy.name:
        case "cost":
            (right_no, miss), (false_alarm, right_yes) = settings["matrix"]
            extra = (
                f" (being right: {right_yes:g} on an alert, {right_no:g} otherwise)" if right_no or right_yes else ""
            )
            return (
                f"A false alarm costs {false_alarm:g} and a miss costs {miss:g}{extra}; a row is alerted where that is "
                "expected to be cheaper."
            )
        case "fbeta":
            return f"The threshold is the one of the best F{settings['beta']:g} at each prior."
        case "gmean":
            return "The threshold balances sensitivity and specificity (best geometric mean), whatever the prior."
        case "recall":
            return f"The threshold is the highest that still finds {percent(settings['recall'])} of the class."
        case "precision":
            return f"The threshold is the lowest at which {percent(settings['precision'])} of the alerts are right."
        case "budget":
            return f"The threshold alerts at most {percent(settings['rate'])} of all rows."
        case _:
            return f"The threshold is set by the policy {escaped(policy.name)}."


def offset_words(offset: Estimate) -> str:
    """Return what an offset means for the ratio.

    >>> offset_words(Estimate(math.log(2.0), 0.1, (0.5, 0.9)))
    'Ratios are too low: one of 10 should read 20, as if the odds of the prior were off by the same factor.'
    """
    low, high = offset.interval
    if low <= 0.0 <= high:
        return f"No bias shows; up to a factor {math.exp(max(-low, high)):.2f} in the ratio cannot be ruled out."
    side = "low" if offset.value > 0.0 else "high"
    return (
        f"Ratios are too {side}: one of 10 should read {10.0 * math.exp(offset.value):.3g}, as if the odds of the "
        "prior were off by the same factor."
    )


def slope_words(slope: Estimate) -> str:
    """Return what a slope means for the ratio.

    >>> slope_words(Estimate(0.5, 0.1, (0.4, 0.6)))
    'Too sure: a ratio of 100 should read 10, one of 1/100 should read 1/10.'
    """
    low, high = slope.interval
    if low <= 1.0 <= high:
        return "Neither too sure nor too timid, as far as these rows can tell."
    side = "sure" if slope.value < 1.0 else "timid"
    right = f"{100.0**slope.value:.3g}"
    return f"Too {side}: a ratio of 100 should read {right}, one of 1/100 should read 1/{right}."
