"""Write the page of `experiments.label_trials`."""

from experiments.markdown import markdown_table
from experiments.runner import Settings

TEXT = """**More experts for late labels.** Streams, protocol and labels are those of [wild](wild.md). Each trial adds
two experts to the default's nine: recalibrations, with memories of 1,000 and of all labels, that have inputs of the row
beside slope and offset. Each coefficient has a standard deviation of {input_sd:g} before any label. The control has
no inputs, so it only gives slope and offset more weight.

- Leading features: those whose effect on the labels changed most between the two halves of the *training* rows, by
  their held-out scores. Numbers are standardised, of categories the ten most frequent have a coefficient each.
  Eight random features are drawn without regard to that; where a set has no more than eight, they are all of them.
- Segments: an offset for each category of the leading categorical feature, or for each fifth of the leading number.
- Season: sines and cosines, two harmonics each, of hour, weekday or position, on the {n_seasonal} of {n_sets} streams
  where a column, the time or the row tells them. On the others these experts are the control's.
- Views: how far each view's log ratio is from that of all features.

Log loss relative to the static model. The mixture is a second writing of the tracker's, plain and slower: without more
experts its log loss differs from the tracker's own by up to {replay:.2%}, because an expert is judged here by the very
posterior it gave a row, there by the advice that was stored last before it. Hindsight: one recalibration of the guarded
posterior with these inputs, fitted to all labels of the stream. These streams are a development set.
"""
LEFT_OUT = """Leaving one stream out, the others choose, among all trials and start weights, the one with the least
geometric mean with which none of them exceeds {most_harm:g}. On the streams left out the geometric mean is then
{mean:.4f} and the worst {worst:.4f}, where the default has {default:.4f} and {default_worst:.4f}: {gain:.2%} less.
Chosen: {chosen}.
"""
DEFAULT = "default"


def candidates_of(settings: Settings) -> dict[str, str]:
    """Return the figures that are judged, with the labels that come first, and how the page names each."""
    rate, delay = settings["labels"][0]
    return {
        f"{rate:g}.{delay}.{weight:g}.{trial}": f"{trial} at {weight:g}"
        for weight in settings["weights"]
        for trial in (DEFAULT, *settings["trials"])
    }


def table(figures: dict[str, float], settings: Settings) -> str:
    """Write the figures as Markdown."""
    names, seasons = settings["sets"], settings["seasons"]
    (rate, delay), weight = settings["labels"][0], settings["weights"][0]
    main = f"{rate:g}.{delay}.{weight:g}"
    trials = [DEFAULT, *settings["trials"]]
    tracked = [abs(figures[f"{name}.{main}.default"] / figures[f"{name}.tracker"] - 1.0) for name in names]
    n_seasonal = len(set(names) & set(seasons))
    parts = [
        TEXT.format(**settings, n_seasonal=n_seasonal, n_sets=len(names), replay=max(tracked)),
        f"\n## Each stream: {rate:.0%} of labels, {delay} rows late, start weight {weight:g} each\n\n",
        markdown_table(
            ["stream", *trials],
            [[name, *(f"{figures[f'{name}.{main}.{trial}']:.4f}" for trial in trials)] for name in names],
        ),
        "\n## All streams\n\nGeometric mean / worst, and the largest ratio to the default of any stream.\n\n",
        markdown_table(["labels, start weight", *trials], _over_all(figures, settings, trials)),
        "\n" + _left_out(figures, settings),
        "\n## In hindsight\n\n",
        markdown_table(
            ["stream", *trials[1:]],
            [[name, *(f"{figures[f'{name}.hindsight.{trial}']:.4f}" for trial in trials[1:])] for name in names]
            + [["geometric mean", *(f"{figures[f'all.hindsight.{trial}.mean']:.4f}" for trial in trials[1:])]],
        ),
    ]
    return "".join(parts)


def _over_all(figures: dict[str, float], settings: Settings, trials: list[str]) -> list[list[str]]:
    cases = [("all", rate, delay, weight) for rate, delay in settings["labels"] for weight in settings["weights"]]
    cases += [("still", *settings["labels"][0], weight) for weight in settings["weights"]]
    rows = []
    for of, rate, delay, weight in cases:
        keys = [f"{of}.{rate:g}.{delay}.{weight:g}.{trial}" for trial in trials]
        still = " in random order" if of == "still" else ""
        rows.append(
            [f"{rate:.0%}, {delay:,} rows late{still}, {weight:g}"]
            + [
                f"{figures[f'{key}.mean']:.4f} / {figures[f'{key}.worst']:.4f}, "
                f"{figures[f'{key}.most_over_default']:.4f}"
                for key in keys
            ]
        )
    return rows


def _left_out(figures: dict[str, float], settings: Settings) -> str:
    candidates = candidates_of(settings)
    numbers = [int(figures[f"{name}.left_out.candidate"]) for name in settings["sets"]]
    chosen = [list(candidates.values())[number] for number in numbers]
    default = f"all.{next(iter(candidates))}"
    return LEFT_OUT.format(
        most_harm=settings["most_harm"],
        mean=figures["all.left_out.mean"],
        worst=figures["all.left_out.worst"],
        default=figures[f"{default}.mean"],
        default_worst=figures[f"{default}.worst"],
        gain=figures["all.left_out.gain"],
        chosen=", ".join(f"{one} for {chosen.count(one)}" for one in dict.fromkeys(chosen)),
    )
