"""Run experiments by name: `python -m experiments trackers --check`."""

import argparse
import sys
from pathlib import Path

from experiments.pages import render_pages
from experiments.runner import EXPERIMENTS, render, run_experiment

FOLDER = Path(__file__).parent


def main() -> int:
    """Run what the command line names; return 1 when a bound is missed under --check."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("name", choices=[*EXPERIMENTS, "all"], help="which experiment")
    parser.add_argument(
        "--quick", action="store_true", help="a short run for a first look; its JSON is not kept in git"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 when a figure misses its bound")
    parser.add_argument("--render", action="store_true", help="write the tables from the JSON without computing")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    arguments = parser.parse_args()
    if arguments.quick and arguments.check:
        parser.error("a quick run has no bounds to check: leave out one of --quick and --check")
    missed = 0
    for name in EXPERIMENTS if arguments.name == "all" else [arguments.name]:
        if arguments.render:
            render(name, quick=arguments.quick)
        else:
            missed += run_experiment(name, quick=arguments.quick, jobs=arguments.jobs)
    if arguments.render and not arguments.quick:
        render_pages()
    return int(arguments.check and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
