"""Kill -9 the service at random moments under load: `python -m tests.crash --rounds 50`."""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.crash.rounds import CrashRounds, run_rounds
from tests.service.models import saved_model
from tests.service.postgres import missing_postgres, postgres_server
from tests.service.service_process import ServiceLauncher

STORES = ("sqlite", "postgresql")


def main() -> int:
    """Run the rounds for each store; return 0 if nothing acknowledged was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--store", choices=STORES, action="append", help="both if not given")
    options = parser.parse_args()
    n_faults = 0
    for store in options.store or STORES:
        n_faults += crash(store, options)
    return 1 if n_faults else 0


def crash(store: str, options: argparse.Namespace) -> int:
    """Run the rounds on one store and report what they showed; return how many faults."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="obil-crash-")))
        folder = saved_model(place / "model")
        server = None
        if store == "postgresql":
            reason = missing_postgres()
            if reason is not None:
                report(f"{store}: {reason}")
                return 1
            server = stack.enter_context(postgres_server())
        launcher = ServiceLauncher(folder, place)
        stack.callback(launcher.close)
        rounds = CrashRounds(
            launcher,
            folder,
            str(place / "streams.db") if server is None else server.new_database(),
            n_services=1 if server is None else 2,
            n_clients=options.clients,
            server=server,
            seed=options.seed,
        )
        report(f"{store}: {options.rounds} rounds, seed {options.seed}")
        faults = run_rounds(rounds, options.rounds, report)
    for fault in faults[:20]:
        report(f"  FAULT {fault}")
    for name, value in sorted(rounds.counts.items()):
        report(f"  {name}: {value}")
    counts, doubled = rounds.counts, sum("doubled" in fault for fault in faults)
    report(
        f"{store}: {options.rounds} rounds, {counts['kills of a service']} kills of a service, "
        f"{counts['kills of the database']} of the database; {counts['acknowledged decisions']} decisions and "
        f"{counts['acknowledged labels']} labels acknowledged; lost {counts['lost decisions']} and "
        f"{counts['lost labels']}, doubled {doubled}; {counts['states compared']} states compared; "
        f"{counts['acknowledged erasures']} erasures; {len(faults)} faults"
    )
    return len(faults)


def report(line: str) -> None:
    """Write a line now."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
