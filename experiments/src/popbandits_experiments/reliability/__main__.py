"""The command: `python -m popbandits_experiments.reliability --help`."""

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from popbandits_experiments.reliability import __doc__ as about
from popbandits_experiments.reliability.clocks import attack_clock
from popbandits_experiments.reliability.disk import COMMANDS, attack_command, attack_runs
from popbandits_experiments.reliability.failures import attack_check, attack_intervals
from popbandits_experiments.reliability.faulty_disk import FAULTS, KILL, can_fail, is_loaded, preload
from popbandits_experiments.reliability.trials import Tally, processes_left, table

FOLDER = "POPBANDITS_RELIABILITY"
"""Environment variable with the folder of all trials; it marks the processes that they start."""
ENGINES = ("in-process", "threads", "processes")
CELLS: dict[str, dict[str, Any]] = {
    f"{engine}, {'synchronous' if synchronous else 'asynchronous'}": {"engine": engine, "synchronous": synchronous}
    for engine in ENGINES
    for synchronous in (True, False)
}
ATTACKS: dict[str, Callable[[Tally, int, Path], None]] = {
    **{f"killed: {name}": partial(attack_runs, faults=[KILL], **cell) for name, cell in CELLS.items()},
    **{f"intervals fail: {name}": partial(attack_intervals, **cell) for name, cell in CELLS.items()},
    **{
        f"disk fails under a run: {engine}": partial(attack_runs, engine=engine, synchronous=True, faults=FAULTS)
        for engine in ENGINES
    },
    **{f"disk fails under {name}": partial(attack_command, name=name) for name in COMMANDS},
    "check on a hostile agent": attack_check,
    "the clock jumps": attack_clock,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m popbandits_experiments.reliability",
        description=f"{about}\nAttacks:\n\n  " + "\n  ".join(ATTACKS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="attacks whose names contain one of these (all)")
    parser.add_argument("--trials", type=int, default=40, help="trials of a kind, spread over a run (%(default)s)")
    arguments = parser.parse_args()
    chosen = [attack for attack in ATTACKS if any(name in attack for name in arguments.names or [""])]
    if not chosen:
        parser.error(f"no attack has a name with {' or '.join(arguments.names)}; use one of {', '.join(ATTACKS)}")
    if not can_fail():
        sys.exit("Calls can be made to fail on Linux with a C compiler (cc): nothing was tried.")
    if not is_loaded():
        folder = Path(mkdtemp(prefix="popbandits-reliability-"))
        os.environ.update({FOLDER: str(folder), "XDG_STATE_HOME": f"{folder}/state"})  # not the account's own key
        preload(["-m", "popbandits_experiments.reliability", *sys.argv[1:]], folder)
    tallies: list[Tally] = []
    try:
        for attack in chosen:
            tallies.append(tally := Tally(attack))
            folder = Path(os.environ[FOLDER], str(len(tallies)))
            folder.mkdir()
            ATTACKS[attack](tally, arguments.trials, folder)
            tally.check(not processes_left(os.environ[FOLDER]), "left behind", "processes")
            print(attack, file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        sys.exit("Interrupted; these are the counts so far.")
    finally:
        print(*(each for tally in tallies for each in tally.examples), table(tallies), sep="\n\n", flush=True)
        shutil.rmtree(os.environ[FOLDER], ignore_errors=True)
    broken = sum(tally.broken.total() for tally in tallies)
    print(f"\n{sum(tally.trials for tally in tallies):,} trials, {broken} did not hold.")
    sys.exit(int(broken > 0))


if __name__ == "__main__":
    main()
