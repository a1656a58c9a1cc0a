"""Commands `plan`, `run` and `report`."""

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict
from math import sqrt
from pathlib import Path
from typing import Any

from popbandits_experiments.mutation import __doc__ as about
from popbandits_experiments.mutation import trials
from popbandits_experiments.mutation.mutants import ROOT, Mutant, plan

FOLDER = Path("runs/mutation")


def main() -> None:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("plan", "run", "report"))
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of plan and results (%(default)s)")
    parser.add_argument("--count", type=int, default=300, help="number of mutants, 0 for all (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (%(default)s)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes at a time (%(default)s)")
    parser.add_argument("--shard", default="1/1", help="part of the plan, such as 3/16 (%(default)s)")
    parser.add_argument("--only", nargs="*", help="the folders to take mutants from, such as models")
    parser.add_argument("--again", type=int, nargs="*", help="try survivors again: these, or all if none is named")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no trial after this time (no limit)")
    usual = trials.Limits()
    parser.add_argument("--slowest", type=float, default=usual.slowest, help="leave out slower tests (%(default)s s)")
    parser.add_argument("--together", type=float, default=usual.together, help="tests of a mutant (%(default)s s)")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that trials end with it
    {"plan": write_plan, "run": run, "report": report}[options.command](options)


def write_plan(options: argparse.Namespace) -> None:
    """Draw the mutants; delete the results of an earlier plan."""
    made = plan(options.count, options.seed, options.only or ())
    for old in options.folder.glob("results*.jsonl"):
        old.unlink()
    (options.folder / "plan.json").write_text(json.dumps(made, indent=1), "utf-8")
    print(f"{len(made['mutants'])} mutants at {made['sites']} sites: {options.folder / 'plan.json'}")


def run(options: argparse.Namespace) -> None:
    """Try the mutants not tried yet, or survivors again."""
    tried = read_results(options.folder)

    def wanted(mutant: Mutant) -> bool:
        if options.only and folder_of(mutant) not in options.only:
            return False
        if options.again is None:
            return mutant.id not in tried or tried[mutant.id]["outcome"] == trials.UNFINISHED
        survived = mutant.id in tried and tried[mutant.id]["outcome"] == "survived"
        return survived and (not options.again or mutant.id in options.again)

    part, parts = map(int, options.shard.split("/"))
    until = time.monotonic() + 60.0 * options.minutes
    mutants = [mutant for mutant in read_plan(options.folder)[part - 1 :: parts] if wanted(mutant)]
    with trials.make_copies(options.workers) as copies:
        files = {test for file in {mutant.file for mutant in mutants} for test in trials.files_with_tests(file)}
        tests = measured(sorted(files), options.folder / f"tests-{part}-of-{parts}.json", copies)
        results = options.folder / f"results-{part}-of-{parts}.jsonl"
        trials.run(mutants, tests, copies, trials.Limits(options.slowest, options.together), results, until)
    report(options)


def measured(files: list[str], path: Path, copies: list[Path]) -> trials.Tests:
    """Return times and calls of the tests in these files; measure files that are new or have changed."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    now = {file: hashlib.sha256((ROOT / file).read_bytes()).hexdigest() for file in files}
    new = [file for file in files if kept.get(file, {}).get("sha256") != now[file]]

    def keep(file: str, tests: trials.Tests) -> None:
        kept[file] = {"sha256": now[file], "tests": {name: asdict(known) for name, known in tests.items()}}
        path.write_text(json.dumps(kept))

    trials.measure(new, copies, keep)
    return {name: trials.Known(**known) for file in files for name, known in kept[file]["tests"].items()}


def report(options: argparse.Namespace) -> None:
    """Print the score with its interval, by folder, and the survivors."""
    planned = read_plan(options.folder)
    mutants = {mutant.id: mutant for mutant in planned}
    outcomes = read_results(options.folder)
    folders = Counter(folder_of(mutants[i]) for i in outcomes)
    killed = Counter(folder_of(mutants[i]) for i, line in outcomes.items() if line["outcome"] in ("killed", "timeout"))
    print(
        f"\n{len(outcomes)} of {len(planned)} mutants tried: {Counter(line['outcome'] for line in outcomes.values())}"
    )
    for folder in folders:
        print(f"  {folder:<12}{killed[folder]:>4} of {folders[folder]:>4}")
    low, high = interval(killed.total(), len(outcomes))
    print(f"killed: {killed.total() / max(1, len(outcomes)):.1%}, 95% interval {low:.1%} to {high:.1%}\n")
    for number, line in sorted(outcomes.items()):
        if line["outcome"] not in ("killed", "timeout"):
            mutant = mutants[number]
            print(f"#{number} {line['outcome']} {mutant.file}:{mutant.line} {mutant.kind}: {_line_of(mutant)}")
            print(f"    {mutant.old!r} -> {mutant.new!r}")


def folder_of(mutant: Mutant) -> str:
    """Return the folder of src/popbandits that the mutant is in."""
    return Path(mutant.file).parts[2]


def _line_of(mutant: Mutant) -> str:
    path = Path(mutant.file)
    return path.read_text("utf-8").splitlines()[mutant.line - 1].strip() if path.exists() else ""


def interval(successes: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval of a proportion."""
    if not of:
        return 0.0, 1.0
    share = successes / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return middle - half, middle + half


def read_plan(folder: Path) -> list[Mutant]:
    """Read the mutants of a plan."""
    return [Mutant(**each) for each in json.loads((folder / "plan.json").read_text("utf-8"))["mutants"]]


def read_results(folder: Path) -> dict[int, dict[str, Any]]:
    """Read the last result of each mutant that was tried, from all parts."""
    lines = (line for path in sorted(folder.glob("results*.jsonl")) for line in path.read_text().splitlines())
    return {result["id"]: result for result in map(json.loads, lines)}


if __name__ == "__main__":
    main()
