"""Explain in plain English what a verdict, a policy and each figure of the report mean."""

import math
from typing import Any

from obil.calibration.recalibration import Estimate
from obil.calibration.verdict import Judgement
from obil.evaluation.markup import escaped, percent, quantity
from obil.policies import Policy

FLAT = 0.02  # a slope below it says that the ratio means nothing
HEADLINES: dict[Judgement, str] = {  # may I use this model?
    "deploy": "Yes",
    "warn": "Yes, with care",
    "refuse": "No",
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
        "No fault shows, but the rows are too few to support the model. Label more rows, above all of the rarest class."
    ),
}

# (term, one sentence)
GLOSSARY = (
    ("Prior", "The prevalence of the class: the fraction of all rows that truly belong to it."),
    ("Log ratio", "How many times more likely a row is under the class than under the rest, as a natural logarithm."),
    (
        "Threshold",
        "A row is alerted when its log ratio is above this; in brackets the same as a probability at that prior.",
    ),
    ("Sensitivity", "Of the rows that truly are of the class, the fraction that is alerted (also called recall)."),
    ("Specificity", "Of the rows that are not, the fraction that is not alerted."),
    ("PPV", "Positive predictive value: of the alerts, the fraction that is right (also called precision)."),
    ("NPV", "Negative predictive value: of the rows that are not alerted, the fraction that is right."),
    ("Alerts", "The fraction of all rows that is alerted: the alert rate."),
    ("F1", "One figure for sensitivity and PPV together, their harmonic mean; 1 is perfect."),
    ("Cost", "What 1,000 decisions cost on average, in the units of the costs above."),
    ("Offset", "What would have to be added to every log ratio to make it right on average; ideally 0."),
    ("Slope", "What log ratios would have to be multiplied by; below 1 the model is overconfident, ideally 1."),
    (
        "Calibration error",
        "How far predicted probabilities are from observed rates, on average, with every class given the same weight; "
        "ideally 0.",
    ),
)


def policy_text(policy: Policy) -> str:  # noqa: PLR0911  # one per policy
    r"""Return the rule that sets the threshold, in one sentence.

    >>> from obil.policies import RecallFloor
    >>> policy_text(RecallFloor(0.9))
    'The threshold is the highest that still finds 90\xa0% of the class.'
    """
    settings: dict[str, Any] = policy.to_json()
    match policy.name:
        case "cost":
            (right_no, miss), (false_alarm, right_yes) = settings["matrix"]
            extra = (
                f" (being right: {quantity(right_yes)} on an alert, {quantity(right_no)} otherwise)"
                if right_no or right_yes
                else ""
            )
            return (
                f"A false alarm costs {quantity(false_alarm)} and a miss costs {quantity(miss)}{extra}; a row is "
                "alerted where that is expected to be cheaper."
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


def offset_text(offset: Estimate) -> str:
    """Return what an offset means for the ratio.

    >>> offset_text(Estimate(math.log(2.0), 0.1, (0.5, 0.9)))
    'Ratios are too low by a factor of 2, as if the odds of the prior were off by it.'
    """
    low, high = offset.interval
    if low <= 0.0 <= high:
        return f"No bias shows; up to a factor of {factor_text(max(-low, high))} in the ratio cannot be ruled out."
    side = "low" if offset.value > 0.0 else "high"
    factor = factor_text(abs(offset.value))
    return f"Ratios are too {side} by a factor of {factor}, as if the odds of the prior were off by it."


def slope_text(slope: Estimate) -> str:
    """Return what a slope means for the ratio.

    >>> slope_text(Estimate(0.5, 0.1, (0.4, 0.6)))
    'Overconfident: a ratio of 100 should read 10, one of 1/100 should read 1/10.'
    >>> slope_text(Estimate(-0.1, 0.1, (-0.2, 0.1)))
    'Backwards or without meaning: rows with a higher ratio are not more often of the class.'
    """
    low, high = slope.interval
    if low <= 1.0 <= high:
        return "Neither overconfident nor underconfident, as far as these rows show."
    if slope.value < FLAT:
        return "Backwards or without meaning: rows with a higher ratio are not more often of the class."
    side = "Overconfident" if slope.value < 1.0 else "Underconfident"
    right = factor_text(slope.value * math.log(100.0))
    return f"{side}: a ratio of 100 should read {right}, one of 1/100 should read 1/{right}."


def factor_text(log_factor: float) -> str:
    """Return e to a power that is not negative, without its digits beyond a million.

    >>> factor_text(math.log(11.6)), factor_text(54.0)
    ('11.6', 'more than a million')
    """
    return "more than a million" if log_factor > math.log(1e6) else quantity(float(f"{math.exp(log_factor):.3g}"))
