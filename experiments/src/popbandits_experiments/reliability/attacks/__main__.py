"""The command: `python -m popbandits_experiments.reliability.attacks --help`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from popbandits_experiments.reliability.attacks import __doc__ as about
from popbandits_experiments.reliability.attacks import adapters, callbacks, checks, clocks, disk, faulty_disk, readers
from popbandits_experiments.reliability.attacks.trials import Tally, table

ATTACKS: dict[str, Callable[[int, Path], Iterable[Tally]]] = {
    "disk": disk.runs_on_failing_disks,
    "commands": disk.commands_on_failing_disks,
    "check": checks.check_hostile_agents,
    "clocks": clocks.runs_under_jumping_clocks,
    "callbacks": callbacks.runs_with_hanging_callbacks,
    "readers": readers.read_while_runs_are_killed,
    "adapters": adapters.adapters_on_hostile_checkpoints,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m popbandits_experiments.reliability.attacks",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {', '.join(ATTACKS)} (all)")
    parser.add_argument("--trials", type=int, default=40, help="trials of a kind, spread over a run (%(default)s)")
    parser.add_argument("--json", type=Path, help="also write the counts to this file")
    arguments = parser.parse_args()
    if unknown := set(arguments.attacks) - ATTACKS.keys():
        parser.error(f"attacks are {', '.join(ATTACKS)}, got {', '.join(sorted(unknown))}")
    if not faulty_disk.can_fail():
        sys.exit("Calls can be made to fail on Linux with a C compiler (cc): nothing was tried.")
    with TemporaryDirectory(prefix="popbandits-attacks-") as name:
        if not faulty_disk.is_loaded():
            environment = {"XDG_STATE_HOME": f"{name}/state", "OPENBLAS_NUM_THREADS": "1"}
            os.environ.update(environment)  # The account's own key is not used.
            command = [sys.executable, "-m", "popbandits_experiments.reliability.attacks", *sys.argv[1:]]
            sys.exit(faulty_disk.preloaded(command, Path(name)).returncode)
        tallies: list[Tally] = []
        for attack in arguments.attacks or ATTACKS:
            folder = Path(name) / attack
            folder.mkdir()
            for tally in ATTACKS[attack](arguments.trials, folder):
                tallies.append(tally)
                print(tally, *tally.examples, sep="\n\n", file=sys.stderr, flush=True)
    finish(tallies, arguments.json)


def finish(tallies: list[Tally], path: Path | None) -> None:
    """Print the counts, and end the process."""
    print(table(tallies))
    if path is not None:
        path.write_text(json.dumps([vars(tally) for tally in tallies], indent=1))
    broken = sum(tally.broken.total() for tally in tallies)
    print(f"\n{sum(tally.trials for tally in tallies):,} trials, {broken} did not hold.")
    sys.exit(int(broken > 0))


if __name__ == "__main__":
    main()
