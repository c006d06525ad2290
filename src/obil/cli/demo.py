"""Show one drifting stream tracked by Algorithm 2, the Bayes bank and the oracle."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write the picture to.")] = Path("demo"),
    rows: Annotated[int, typer.Option(min=1_000, max=1_000_000, help="Length of the stream.")] = 20_000,
    separation: Annotated[float, typer.Option(min=0.5, max=6.0, help="How far apart the classes are, in sd.")] = 2.5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the stream.")] = 0,
) -> None:
    """Track the prior of one drifting stream and compare with knowing it."""
    # imported here so that `obil --help` pays for none of it
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from obil.bayes.regret import GaussianPair
    from obil.data.gaussian_stream import GaussianClasses
    from obil.data.prior_paths import jump_and_decay
    from obil.evaluate.tracking_picture import draw_tracking
    from obil.prior import Algorithm2, BayesBank, FixedPrior

    console = Console()
    if out.exists() and not out.is_dir():
        typer.echo(f"Error: --out must be a folder, and {out} is a file.", err=True)
        raise typer.Exit(2)
    truth = jump_and_decay(rows, base=0.03, height=0.09, at=rows // 40, decay=rows / 8)
    stream = GaussianClasses.pair(separation).draw(truth, random_state=seed)
    console.print(
        f"A stream of {rows:,} unlabelled rows. The positive class makes up 3 % of them, jumps to 12 % at row "
        f"{rows // 40:,} and slowly recovers. Every tracker starts from 5 %.\n"
    )
    with console.status("Compiling and tracking..."):
        trackers = {
            "no adaptation": FixedPrior(0.05),
            "Algorithm 2, as printed": Algorithm2(0.05),
            "Bayes bank": BayesBank(0.05),
        }
        estimates = {name: tracker.update_many(stream.log_ratios)[:, 1] for name, tracker in trackers.items()}

    pair = GaussianPair(separation)
    table = Table(title="Expected cost of the decisions, and mean error of the prior")
    for column in ("tracker", "cost / 1,000 rows", "over oracle", "prior error"):
        table.add_column(column, justify="left" if column == "tracker" else "right")
    oracle = pair.oracle_cost(truth).mean() * 1_000
    for name, estimate in estimates.items():
        excess = pair.excess(estimate, truth)
        error = float(np.abs(estimate - truth).mean())
        table.add_row(name, f"{oracle * (1 + excess):.2f}", f"{excess:+.1%}", f"{error:.4f}")
    table.add_row("oracle", f"{oracle:.2f}", "", "")
    console.print(table)

    try:
        out.mkdir(parents=True, exist_ok=True)
        picture = out / "tracking.png"
        draw_tracking(truth, {name: estimates[name] for name in list(estimates)[1:]}, picture)
    except OSError as error:
        typer.echo(f"Error: cannot write to {out}: {error.strerror}.", err=True)
        raise typer.Exit(2) from None
    console.print(f"\nPicture: {picture}")
