"""Run the benchmarks: `python -m benchmarks [--quick]`; exit 1 when a ratio misses its bound."""

import argparse
import json
import os
import sys
from pathlib import Path

# before numpy and numba start their thread pools
for _pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_pool] = "1"

from rich.console import Console  # noqa: E402  # after the thread settings

from experiments.runner import commit, load, report, versions  # noqa: E402  # the same

BENCHMARKS = ("bank", "decide", "ensemble", "frozen", "records", "service", "spark", "stream_rows")
FOLDER = Path(__file__).parent


def main() -> int:
    """Measure everything named here, write one JSON each and hold the figures against their bounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a short run without bounds")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    console, missed = Console(), 0
    for name in arguments.names or BENCHMARKS:
        try:
            module, settings, bounds = load(name, quick=arguments.quick, folder=FOLDER)
        except ModuleNotFoundError as error:
            console.print(f"{name}: skipped, {error.name} is not installed (make bench EXTRAS=all)")
            continue
        with console.status(f"{name}..."):
            figures = module.measure(settings)
        record = {
            "benchmark": name,
            "quick": arguments.quick,
            "settings": settings,
            "commit": commit(),
            "versions": versions(),
            "bounds": bounds,
            "figures": {key: float(f"{value:.4g}") for key, value in figures.items()},
        }
        target = FOLDER / "results" / ("quick" if arguments.quick else "")
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        missed += report(console, record["figures"], bounds, title=f"{name}{' (quick)' if arguments.quick else ''}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
