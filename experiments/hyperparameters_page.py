"""Write the tables of `experiments.hyperparameters`."""

from typing import Any

from experiments.dropout_fusion import CHOSEN, EQUAL
from experiments.markdown import markdown_table
from experiments.protocol import SET_NAMES
from experiments.scenarios import SIX

MEAN = "mean"
GRID = "settings in the grid"
SWEPT = {"rate": "alpha", "confidence": "gamma", "mixing": "beta", "clamp": "Delta_max", "window": "W"}
# the values of the paper's experiments, which lie inside the ranges it recommends
TAKEN: dict[str, float] = {"rate": 0.05, "confidence": 0.9, "mixing": 0.6, "clamp": 0.02, "window": 100}
MEASURES = {"auprc": "AUPRC", "f1": "F1", "errors": "errors in 100"}


def label_of(choice: dict[str, float]) -> str:
    """Return a name of one setting of Algorithm 2.

    >>> label_of(TAKEN)
    'alpha .05, gamma .9, beta .6, Delta_max .02, W 100'
    """
    return ", ".join(f"{symbol} {_number(choice[name])}" for name, symbol in SWEPT.items())


def table(figures: dict[str, float], settings: dict[str, Any]) -> str:
    """Write the figures as Markdown."""
    return "\n".join([*_tracker_part(figures, settings), *_fusion_part(figures, settings)])


def _tracker_part(figures: dict[str, float], settings: dict[str, Any]) -> list[str]:
    columns = (*SIX, MEAN)
    ranges = "; ".join(
        f"{symbol} {_number(min(settings[name]))} to {_number(max(settings[name]))} ({_number(TAKEN[name])})"
        for name, symbol in SWEPT.items()
    )
    taken = label_of(TAKEN)

    def chosen(which: str, scenario: str) -> str:
        return label_of({name: figures[f"{which}/{scenario}/{name}"] for name in SWEPT})

    rows = [
        [
            scenario,
            *(f"{figures[f'excess/{scenario}/{which}']:.1f}" for which in (taken, "best", "worst", "bank")),
            f"{figures[f'below bank/{scenario}']:.0f}",
            chosen("best", scenario),
            chosen("worst", scenario),
        ]
        for scenario in columns
    ]
    moved = []
    for name, symbol in SWEPT.items():
        for value in settings[name]:
            label = label_of(TAKEN | {name: value})
            mark = " (the paper's)" if value == TAKEN[name] else ""
            cells = (f"{figures[f'excess/{scenario}/{label}']:.1f}" for scenario in columns)
            moved.append([f"{symbol} {_number(value)}{mark}", *cells])
    moved.append(["Bayes bank, untuned", *(f"{figures[f'excess/{scenario}/bank']:.1f}" for scenario in columns)])
    return [
        "**Algorithm 2 over the paper's ranges.** Recommended range of each setting, and in brackets the value of the "
        f"paper's experiments: {ranges}. Excess expected cost over the oracle in percent, exact ratios of normal "
        f"classes {settings['separation']:g} apart, {settings['n_rows']:,} rows, mean of {settings['seeds']} streams a "
        f"scenario, every tracker started at {settings['start_prior']:g}. The grid has both ends of each range and the "
        f"paper's value: {figures[GRID]:.0f} settings. The best and the worst are chosen in hindsight, from these very "
        "means: nobody who deploys can choose so. The last row of the first table takes one setting for all six "
        "scenarios, by its mean. The Bayes bank has one setting everywhere.\n",
        markdown_table(
            ["scenario", "the paper's values", "best of the grid, in hindsight", "worst of the grid",
             "Bayes bank, untuned", "settings of the grid below the bank", "the best", "the worst"],
            rows,
        ),
        "One setting moved at a time, the others at the paper's values:\n",
        markdown_table(["setting", *columns], moved),
    ]  # fmt: skip


def _fusion_part(figures: dict[str, float], settings: dict[str, Any]) -> list[str]:
    sets = [name for name in settings["sets"] if f"fusion/{name}/{settings['passes'][0]}/{CHOSEN}/auprc" in figures]
    names = [*(f"{tau:g}" for tau in settings["temperatures"]), EQUAL, CHOSEN]
    parts = [
        "**M and tau of the fusion.** The paper's ensemble (five networks, squared error), its members fused with "
        "weights exp(-variance / tau) from M passes with dropout. The paper recommends M from 20 to 50 and tau by "
        f"cross-validation; here M is {', '.join(str(passes) for passes in settings['passes'])} and tau a multiple of "
        "the median variance, equal weights (tau without end), or chosen by cross-validation on the held-out rows. "
        "Each row has the weights of its own variance; the paper's weight network, which approximates them, is left "
        f"out. {settings['splits']} splits with {settings['test_share']:.0%} held out, mean ± standard deviation; "
        "test rows at the training prior; F1 under the F1 policy, errors at probability 1/2. Ensemble size K from 5 to "
        "10 is in `ablations`, as is alpha on real streams.\n"
    ]
    own = settings["own_passes"]
    columns = [(measure, passes) for measure in MEASURES for passes in settings["passes"]]
    for name in sets:
        rows = [
            [f"tau {tau}", *(_with_spread(figures, f"fusion/{name}/{passes}/{tau}/{m}", m) for m, passes in columns)]
            for tau in names
        ]
        tried = [f"{passes}/{tau}" for passes in settings["passes"] for tau in names if tau not in (EQUAL, CHOSEN)]
        tried.append(f"{own}/{EQUAL}")  # which M does not change
        ends = [f"{label} {_ends(figures, name, measure, tried)}" for measure, label in MEASURES.items()]
        kept = "; ".join(
            f"{label} {_text(measure, figures[f'fusion/{name}/{own}/{CHOSEN}/{measure}'])}"
            for measure, label in MEASURES.items()
        )
        equal = figures[f"fusion/{name}/{own}/chose equal weights"] * settings["splits"]
        parts += [
            f"{SET_NAMES[name]}. From the best to the worst of {len(tried)} choices of M and tau, in hindsight: "
            f"{'; '.join(ends)}. Cross-validated at M {own}, the default of `OBILClassifier`: {kept}; it "
            f"chose equal weights in {equal:.0f} of {settings['splits']} splits.\n",
            markdown_table(["", *(f"{MEASURES[measure]}, M {passes}" for measure, passes in columns)], rows),
        ]
    return parts


def _ends(figures: dict[str, float], name: str, measure: str, places: list[str]) -> str:
    values = [figures[f"fusion/{name}/{place}/{measure}"] for place in places]
    low, high = min(values), max(values)
    best, worst = (low, high) if measure == "errors" else (high, low)
    return f"{_text(measure, best)} to {_text(measure, worst)}"


def _with_spread(figures: dict[str, float], place: str, measure: str) -> str:
    return f"{_text(measure, figures[place])} ± {_text(measure, figures[f'sd {place}'])}"


def _text(measure: str, value: float) -> str:
    return f"{value:.2f}" if measure == "errors" else f"{value:.3f}"


def _number(value: float) -> str:
    """Return a setting as the paper writes it: no zero before the point."""
    return f"{value:g}".removeprefix("0")
