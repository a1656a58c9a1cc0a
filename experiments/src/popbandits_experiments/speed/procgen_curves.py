"""Learning curves of stored runs on Procgen: `python -m popbandits_experiments.speed.procgen_curves`.

First the runs of `results/procgen`, then those of `results/start_defaults`, whose first member began with the published
settings: the mean raw return of the last 100 training episodes (for a population, its best member's), followed by the
100 test episodes where there are some; the cost of intervals; and what low learning rates do. Then comparisons:
`results/precision`, the same runs with convolutions in bfloat16 and in float32, and `results/kernels`, with CUDA
kernels in bfloat16 instead of the Triton kernels of before; and on BigFish, after 5M steps, DrAC alone with the
published settings, the best of four of these agents by score, which costs as much as a population, populations that
begin with these settings, and DrAC alone with level replay; then, on each game, populations that were selected on
validation levels, with level replay and without it, where agents alone are the members of these populations that keep
the published settings to the end. Last, agents that trained in two runs with the same seed and values, and whether they
did the same. p is of Welch's t-test. Means and standard deviations are over the seeds, up to the last round that all of
them reached. Nothing is trained here; docs/procgen_results.md says how these runs were made.
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from popbandits.basics.wording import counted
from popbandits.history import Observation
from popbandits.reports.stats import deviation
from popbandits.storage.schema import RUN_FILE
from popbandits_experiments import RESULTS
from popbandits_experiments.paper.procgen import published
from popbandits_experiments.paper.procgen.methods import short
from popbandits_experiments.paper.procgen.repeats import repeats_table
from popbandits_experiments.paper.procgen.tables import Trial, trials
from popbandits_experiments.paper.score_tables import mean_interval, welch, welch_interval

LOW = 2e-5
"""Learning rates up to this are within 1% of the lower end of the paper's range."""
SHORT, LONGER = 5_000_000, 10_000_000
"""Steps after which agents are compared."""
FIRST = 20
"""Rounds in which the stored trial of PB2-Mix had its GPU alone; the others always trained four at a time."""


def best_of_round(trial: Trial, round_: int) -> Observation | None:
    """Return the member with the best score after a round that all have finished; some may have failed."""
    found = [trial.run.history.find((member, round_)) for member in range(trial.population)]
    told = [observation for observation in found if observation is not None]
    if len(told) < trial.population:
        return None
    return max((o for o in told if not np.isnan(o.score)), key=lambda o: o.score, default=None)


def curves(given: Sequence[Trial], every: int) -> Table:
    """Build a table with a column for each game, method and variant, and a row for each `every` steps."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[Trial]] = {}
    for one in given:
        groups.setdefault((one.settings["game"], one.method, one.variant), []).append(one)
    table = Table("steps a member", box=box.MARKDOWN)
    for (game, method, variant), group in groups.items():
        table.add_column(", ".join([method, game, *variant, counted(len(group), "seed")]), justify="right")
    for steps in range(every, max(one.steps for one in given) + 1, every):
        cells = [_said(group, steps) for group in groups.values()]
        if any(cells):
            table.add_row(f"{steps / 1e6:g}M", *cells)
    last = []
    for game, method, _ in groups:
        known = [published.RETURNS[levels].get(game, {}).get(method) for levels in ("train", "test")]
        said = ["{:.1f} ± {:.1f}".format(*figure) for figure in known if figure]
        last.append("{} (test {})".format(*said) if said else "–")
    table.add_row("published, 25M", *last)
    return table


def _said(group: Sequence[Trial], steps: int) -> str:
    """Format training and test return of the runs after this number of steps; empty if a run is shorter."""
    found = [best_of_round(one, steps // one.settings["interval"] - 1) for one in group]
    told = [observation for observation in found if observation is not None]
    if len(told) < len(group):
        return ""
    tests = [float(o.metrics["test_return"]) for o in told if "test_return" in o.metrics]
    return _spread([o.score for o in told]) + (f" (test {_spread(tests)})" if len(tests) == len(group) else "")


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1f}" + (f" ± {deviation(values):.1f}" if len(values) > 1 else "")


def costs(given: Sequence[Trial]) -> Table:
    """Build a table with a row for each run: episodes lost to new environments, and the duration of a round."""
    head = (
        "run",
        "episodes of an interval",
        "dropped",
        "training levels - score",
        f"a round, first {FIRST}",
        "with tests",
        "all rounds",
    )
    table = Table(*head, box=box.MARKDOWN)
    for one in given:
        history, size = one.run.history, one.settings["environments"]
        # The count is copied with the weights; a failed interval has none.
        ended = [
            o.metrics["episodes"] - (history[history.index_of(o.parent)].metrics["episodes"] if o.parent else 0)
            for o in history
            if "episodes" in o.metrics
        ]
        apart = [float(o.metrics["train_return"]) - o.score for o in history if "train_return" in o.metrics]
        longest: dict[int, float] = {}
        for o in history:
            longest[o.round] = max(longest.get(o.round, 0.0), o.seconds or 0.0)
        tested = {o.round for o in history if "train_return" in o.metrics}
        kinds = ([s for r, s in longest.items() if r < FIRST and (r in tested) == tests] for tests in (False, True))
        table.add_row(
            one.run.name,
            f"{np.median(ended):,.0f}",
            f"{size / (size + np.median(ended)):.1%}",
            f"{np.mean(apart):.1f} ± {deviation(apart) / len(apart) ** 0.5:.1f} s.e.",
            *(f"{np.median(seconds):.0f} s" for seconds in kinds),
            f"{sum(longest.values()) / 60:.1f} min",
        )
    return table


def low_rates(given: Sequence[Trial]) -> Table:
    """Build a table with a row for each population: how long all had a low rate, and how scores change after a copy."""
    rounds, low, other = f"rounds with lr up to {LOW:g} in all members", f"after a copy, lr up to {LOW:g}", "higher lr"
    table = Table("run", rounds, low, other, box=box.MARKDOWN)
    for one in given:
        history = one.run.history
        if one.population == 1:
            continue
        higher = {o.round for o in history if o.config["lr"] > LOW}
        all_low = [round_ + 1 for round_ in range(history[-1].round + 1) if round_ not in higher]
        changes: dict[bool, list[float]] = {True: [], False: []}
        for o in history:
            if o.parent is not None and o.parent[0] != o.member and np.isfinite(o.change):
                changes[o.config["lr"] <= LOW].append(o.change)
        said = f"{len(all_low)}, the first is round {all_low[0]}" if all_low else "0"
        table.add_row(one.run.name, said, *(_change(changes[is_low]) for is_low in (True, False)))
    return table


def _change(changes: Sequence[float]) -> str:
    if len(changes) < 2:
        return counted(len(changes), "copy", "copies")
    error = deviation(changes) / len(changes) ** 0.5
    return f"{np.mean(changes):+.1f} ± {error:.1f} s.e., {len(changes)} copies"


def compared(first: str, some: Sequence[Trial], second: str, others: Sequence[Trial]) -> Table:
    """Build a table of two groups of runs, with a row for each interval that all of them have."""
    table = Table("steps", first, second, "p", box=box.MARKDOWN)
    for round_ in range(min(len(one.run.history) for one in (*some, *others))):
        a, b = ([one.run.history[round_].score for one in group] for group in (some, others))
        said = (f"{np.mean(scores):.2f} ± {deviation(scores):.2f}, {len(scores)} seeds" for scores in (a, b))
        table.add_row(short((round_ + 1) * some[0].settings["interval"]), *said, f"{welch(a, b):.2f}")
    return table


def after(given: Sequence[Trial], steps: int = SHORT) -> list[Observation]:
    """Return the best members after this many steps, of the runs that were tested then."""
    found = [best_of_round(one, steps // one.settings["interval"] - 1) for one in given]
    return [o for o in found if o is not None and "test_return" in o.metrics]


def controls(game: str, name: str, alone: Sequence[Observation], others: Mapping[str, Sequence[Observation]]) -> Table:
    """Build a table of agents alone, of the best of each four of them, and of others; p compares with agents alone."""
    table = Table(game, "runs", "test", "p", "training levels", box=box.MARKDOWN)
    validated = all("validation_return" in o.metrics for o in alone)
    by = "validation levels" if validated else "score"
    choices = [
        max(four, key=lambda o: o.metrics["validation_return"] if validated else o.score)
        for four in combinations(alone, 4)
    ]
    best = f"the best of four of them by {by}, all {len(choices)} choices"
    for label, rows in {name: alone, best: choices, **others}.items():
        if not rows:
            continue
        test, train = ([float(o.metrics[f"{levels}_return"]) for o in rows] for levels in ("test", "train"))
        if rows is choices:  # They share agents, so their spread says nothing.
            table.add_row(label, "", f"{np.mean(test):.1f}", "", f"{np.mean(train):.1f}")
        else:
            p = "" if rows is alone else f"{welch(test, [o.metrics['test_return'] for o in alone]):.2g}"
            table.add_row(label, str(len(rows)), _spread(test), p, _spread(train))
    return table


Finals = tuple[dict[int, Observation], dict[int, Observation]]
"""Winners, and members that kept the settings of the start, by seed."""


def finals(given: Sequence[Trial]) -> Finals:
    """Return the winners of finished runs, and their members that kept the settings of the start, each by seed."""
    done = {int(one.run.about["seed"]): one for one in given if one.done}
    winners = {seed: winner for seed, one in done.items() if (winner := one.final) is not None}
    last = {
        seed: one.run.history.find((0, one.run.about["rounds"] - 1)) for seed, one in done.items() if seed in winners
    }
    return winners, {seed: observation for seed, observation in last.items() if observation is not None}


def gain(what: str, ones: Mapping[int, Observation], others: Mapping[int, Observation]) -> str:
    """Say what agents have over others of the same seeds."""
    said, seeds = [], sorted(ones.keys() & others.keys())
    for levels in ("test", "train"):
        name = f"{levels}_return"
        apart = [ones[seed].metrics[name] - others[seed].metrics[name] for seed in seeds]
        mean, low, high = mean_interval(apart)
        said.append(f"{levels} {mean:+.1f} [{low:+.1f}, {high:+.1f}]: {', '.join(f'{each:+.1f}' for each in apart)}")
    return f"{what}, {counted(len(seeds), 'pair')}: " + "; ".join(said)


def unpaired(ones: Mapping[int, Observation], others: Mapping[int, Observation]) -> str:
    """Say how far the differences of the means may be if seeds pair nothing: Welch's 95% intervals."""
    said = []
    for levels in ("test", "train"):
        name = f"{levels}_return"
        low, high = welch_interval(*([o.metrics[name] for o in each.values()] for each in (ones, others)))
        said.append(f"{levels} [{low:+.1f}, {high:+.1f}]")
    return f"the same without pairs: {', '.join(said)}"


def share_gained(what: str, pairs: Sequence[Finals]) -> str:
    """Say what winners have over controls in shares of the mean control, over several games or kinds of levels.

    What a seed proposes is the same everywhere at first, so that the mean of a seed counts once.
    """
    seeds, said = sorted(set.intersection(*(set(winners) & set(kept) for winners, kept in pairs))), []
    for levels in ("test", "train"):
        name, shares = f"{levels}_return", []
        for winners, kept in pairs:
            before = np.array([kept[seed].metrics[name] for seed in seeds])
            shares.append((np.array([winners[seed].metrics[name] for seed in seeds]) - before) / before.mean())
        mean, low, high = mean_interval(list(np.mean(shares, 0)))
        ahead, behind = int(np.sum(np.array(shares) > 0)), int(np.sum(np.array(shares) < 0))
        said.append(f"{levels} {mean:+.0%} [{low:+.0%}, {high:+.0%}], {ahead} ahead, {behind} behind")
    return f"{what}, {counted(len(seeds), 'seed')}: " + "; ".join(said)


def stored(results: Path, *places: str) -> list[Trial]:
    """Return the trials in these folders of the results; some may not be there yet."""
    found = [results / place for place in places if any((results / place).rglob(RUN_FILE))]
    return trials(found) if found else []


def print_tuned(game: str, results: Path, console: Console) -> list[Finals]:
    """Print what populations reached with level replay and without it, beside their members that nothing changed.

    Returns winners and controls of the kinds of levels that have enough of them.
    """
    tuned = {levels: finals(stored(results, f"levels_{levels}/{game}/near-pbt")) for levels in ("replay", "uniform")}
    shuffled = {"DrAC alone, shuffled scores": after(stored(results, f"levels_shuffled/{game}/drac"))}
    enough = {levels: each for levels, each in tuned.items() if len(each[1]) >= 4}
    for levels, (winners, kept) in enough.items():
        others = {
            "Near PBT, 4 members": list(winners.values()),
            "DrAC alone, the runs of before": after(stored(results, f"levels_{levels}/{game}/drac")),
            "DrAC alone, 10M steps": after(stored(results, f"levels_{levels}_10M/{game}/drac"), LONGER),
            "DrAC alone, clip 0.45": after(stored(results, f"levels_{levels}_clip/{game}/drac")),
            **(shuffled if levels == "replay" else {}),
        }
        name = {"replay": "with level replay", "uniform": "with uniform levels"}[levels]
        console.print(controls(game, f"{name}: the controls, DrAC alone", list(kept.values()), others))
        console.print(gain("Winner minus control of the same run", winners, kept))
    for what, replay, uniform in zip(("winners", "controls"), *tuned.values(), strict=True):
        if len(replay.keys() & uniform.keys()) > 1:
            console.print(gain(f"{game}, {what}: level replay minus uniform levels", replay, uniform))
            console.print(unpaired(replay, uniform))
    return list(enough.values())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--every", type=int, default=2_500_000, help="steps between two rows of the first table")
    options = parser.parse_args(arguments)
    console = Console(width=200)
    for folder in ("procgen", "start_defaults"):
        runs = trials([options.results / folder])
        console.print(curves(runs, options.every))
        console.print(costs(runs))
        console.print(low_rates(runs))
    former, exact = (trials([options.results / "precision" / name]) for name in ("bfloat16", "float32"))
    console.print(compared("bfloat16", former, "float32", exact))
    console.print(compared("Triton", former, "CUDA", trials([options.results / "kernels"])))

    results = options.results
    others = {
        "Near PBT, 4 members, from the published settings": after(
            stored(results, "procgen_short_start/bigfish/near-pbt")
        ),
        "DrAC alone with level replay": after(stored(results, "levels_replay/bigfish/drac")),
        "DrAC alone, 10M steps": after(stored(results, "procgen/bigfish/drac"), LONGER),
    }
    alone = after(stored(results, "levels_uniform/bigfish/drac", "procgen/bigfish/drac"))
    console.print(controls("bigfish", "DrAC alone", alone, others))
    tuned = {game: print_tuned(game, results, console) for game in ("bigfish", "leaper", "starpilot")}
    for name, pairs in {**tuned, "all": [pair for each in tuned.values() for pair in each]}.items():
        if pairs:
            console.print(share_gained(f"{name}: winners over their controls, both kinds of levels", pairs))
    every = ("procgen", "procgen_short", "procgen_short_start", "start_defaults", "levels_*")
    console.print(repeats_table(trials([path for name in every for path in options.results.glob(name)]), least=10))


if __name__ == "__main__":
    main()
