"""Study the headroom of tasks, `headroom run`, and print what was found, `headroom table`; skip what is stored."""

import argparse
import math
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from popbandits.basics.wording import number
from popbandits.engines.spawning import cores
from popbandits.errors import ArgumentError
from popbandits.space import Space as Encoding
from popbandits.space.drawing import draw_config
from popbandits_experiments.batched.ppo import BatchedPPO
from popbandits_experiments.ground import grounds, headroom
from popbandits_experiments.ground.grounds import GROUNDS, Agents, Ground
from popbandits_experiments.ground.headroom import BEST_OF, CHOOSING, JUDGING, TOP, Entry, Key, Study, What, studies
from popbandits_experiments.ground.records import SPACES, seed_range
from popbandits_experiments.ground.scales import scale_of
from popbandits_experiments.ground.sitting import EPISODES, TEST_SEED
from popbandits_experiments.ground.states import Kept
from popbandits_experiments.ground.statistics import FloatArray
from popbandits_experiments.ground.tables import UNKNOWN, markdown

SAMPLED, AGAIN = 10_000_000, 20_000_000
"""Offsets of the seeds of random configurations, and of those that are trained again."""
OPTIONAL: tuple[What, ...] = ("longer",)
"""Runs that come last, because no verdict waits for them, and may be left out."""
QUANTILES = (0.1, 0.5, 0.9, 1.0)
SURE = 100.0
"""Logit of an action that is always taken."""
LEGEND = f"""\
- Scores are means of {EPISODES} fresh episodes after the budget of one member, and then means over seeds with their
  standard errors. Random, untrained and still: random actions, policies before training, and doing nothing.
- What counts is the state with the best training score ever (early: yes), as `tune` hands it over, or the last one
  where a study has no other.
- Usual settings: one run; the best of {BEST_OF} by that training score; {BEST_OF} times the steps.
- Random configurations: uniform draws from the space, one run each; how many of these runs beat the mean run with the
  usual settings. The best {TOP} are trained again with {CHOOSING} new seeds, on which one is chosen, and {JUDGING}
  others, on which it is judged: luck is not headroom.
- Headroom: judged so, the configuration is ahead of the best of {BEST_OF} by more than {headroom.NOISE:g} standard
  errors, and by more than {headroom.WORTH:.0%} of what the usual settings gain. Unlearnable: no training is better
  than none by {headroom.NOISE:g} standard errors. Saturated: the rest. Only tasks with headroom enter means."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of both commands."""
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--tasks", nargs="+", choices=GROUNDS, default=list(GROUNDS), metavar="TASK")
    parser.add_argument("--spaces", nargs="+", choices=SPACES, default=list(SPACES), help="of those that a task has")
    parser.add_argument("--samples", type=int, default=100, help="random configurations of a space (%(default)s)")
    parser.add_argument("--seeds", default="0-32", help="seeds of the usual settings (%(default)s)")
    parser.add_argument("--rounds", type=int, default=30, help="intervals of the budget, as in `run` (%(default)s)")
    parser.add_argument(
        "--without",
        nargs="+",
        choices=OPTIONAL,
        default=[],
        help="runs to leave out, for which no verdict waits: longer has four times the steps, half the cost of a study",
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--at-once", type=int, default=512, help="members that train together (%(default)s)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no batch after this time")
    parser.add_argument("--digits", type=Path, help="file with the digits, where scikit-learn is not installed")
    parser.add_argument("--results", type=Path, default=headroom.RESULTS)


def main(options: argparse.Namespace) -> None:
    """Run studies, or print their table."""
    if options.command == "table":
        found = [study for study in studies(headroom.read(options.results).values()) if study.task in options.tasks]
        print(f"{LEGEND}\n\n{table(found)}")
        return
    for name, least in (("samples", TOP), ("at_once", 1)):
        if getattr(options, name) < least:
            raise ArgumentError(f"--{name.replace('_', '-')} must be at least {least}, got {getattr(options, name)}")
    grounds.DIGITS = options.digits
    start = time.perf_counter()
    for batch in batches(options):
        if time.perf_counter() - start >= options.seconds:
            break
        began = time.perf_counter()
        for entries in batch.run(options.rounds, options.device):
            headroom.append(entries, options.results)
        kinds = ", ".join(dict.fromkeys(key.what for key in batch.keys))
        seconds = time.perf_counter() - began
        print(f"{batch.ground.name}: {len(batch.keys)} members ({kinds}), {seconds:.0f} s", flush=True)


def batches(options: argparse.Namespace) -> Iterator["Batch"]:
    """Yield what is not stored yet, task by task; which configurations train again follows from what is stored."""
    seeds = seed_range(options.seeds)
    for task in options.tasks:
        ground = GROUNDS[task]
        ground.updates_in(options.rounds)
        spaces = [space for space in options.spaces if space in ground.spaces]
        yield from _missing(Untrained, ground, [Key(task, "untrained", None, 0, seed) for seed in seeds], options)
        first = [Key(task, "usual", None, run, seed) for seed in seeds for run in range(BEST_OF)]
        first += [Key(task, "sample", space, index, 0) for space in spaces for index in range(options.samples)]
        yield from _missing(Batch, ground, first, options)
        stored = headroom.read(options.results, task)
        if all(key in stored for key in first):
            again = [
                Key(task, "again", study.space, index, seed)
                for study in studies(stored.values())
                if study.task == task and study.space in spaces
                for index in study.top
                for seed in range(CHOOSING + JUDGING)
            ]
            yield from _missing(Batch, ground, again, options)
        for what in OPTIONAL:
            if what not in options.without:
                yield from _missing(Batch, ground, [Key(task, what, None, 0, seed) for seed in seeds], options)


def _missing(
    kind: "type[Batch]", ground: Ground, keys: Sequence[Key], options: argparse.Namespace
) -> "Iterator[Batch]":
    """Yield batches of the members that are not stored."""
    stored = headroom.read(options.results, ground.name)
    left = [key for key in keys if key not in stored]
    for start in range(0, len(left), options.at_once):
        yield kind(ground, left[start : start + options.at_once])


@dataclass(frozen=True)
class Batch:
    """Members of a study that train in one program, all for as long."""

    ground: Ground
    keys: Sequence[Key]

    def run(self, rounds: int, device: str) -> Iterator[list[Entry]]:
        """Train the members in intervals and yield their entries."""
        start, intervals = time.perf_counter(), _intervals(self.keys[0], rounds)
        agents = self._make(self.keys, rounds, device)
        configs = [configuration(self.ground, key) for key in self.keys]
        best = Best(agents, len(self.keys))
        for interval in range(intervals):
            scores = [outcome.score for outcome in agents.train(configs)]
            best.note(interval, scores)
        finals = _test(agents, range(len(self.keys)), self.keys)
        best.restore()
        kept = _test(agents, range(len(self.keys)), self.keys)
        seconds = (time.perf_counter() - start) / len(self.keys)
        steps = intervals * self.ground.updates_in(rounds) * self.ground.steps
        yield [
            Entry(*key, steps, _or(score, final), final, device_name(device), seconds, _or(highest, final), early)
            for key, score, final, highest, early in zip(self.keys, scores, finals, best.scores, kept, strict=True)
        ]

    def _make(self, keys: Sequence[Key], rounds: int, device: str) -> Agents:
        return self.ground.make([_member_seed(key) for key in keys], self.ground.updates_in(rounds), device)


class Best:
    """The best score of each member so far, and the state that had it."""

    def __init__(self, agents: Agents, members: int):
        self.scores = [math.nan] * members
        self._states, self._intervals = Kept(agents, size=1), dict[int, tuple[int, int]]()

    def note(self, interval: int, scores: Sequence[float]) -> None:
        """Keep the states of members whose score is the best so far; of equal ones the last, as `History.best`."""
        better = [i for i, score in enumerate(scores) if not math.isnan(score) and not score < self.scores[i]]
        for i in better:
            self._states.forget(i, ())
            self.scores[i], self._intervals[i] = scores[i], (0, interval)
        self._states.keep(interval, better)

    def restore(self) -> None:
        """Restore the best state of every member that had a score."""
        self._states.restore(self._intervals)


class Untrained(Batch):
    """Policies before training, and in their place random actions and standing still, where these mean something."""

    def run(self, rounds: int, device: str) -> Iterator[list[Entry]]:
        """Yield the entries of each kind."""
        agents = self._make(self.keys, rounds, device)
        yield self._entries(agents, "untrained", device)
        if isinstance(agents, BatchedPPO):
            brains, still = agents.brains, self.ground.still
            brains.fix_outputs([0.0] * brains.actions)
            yield self._entries(agents, "random" if brains.discrete else "still", device)
            if brains.discrete and still is not None:
                brains.fix_outputs([SURE * (action == still) for action in range(brains.actions)])
                yield self._entries(agents, "still", device)

    def _entries(self, agents: Agents, what: What, device: str) -> list[Entry]:
        start = time.perf_counter()
        keys = [key._replace(what=what) for key in self.keys]
        finals = _test(agents, range(len(keys)), keys)
        seconds = (time.perf_counter() - start) / len(keys)
        return [
            Entry(*key, 0, final, final, device_name(device), seconds) for key, final in zip(keys, finals, strict=True)
        ]


def _test(agents: Agents, members: Sequence[int], keys: Sequence[Key]) -> list[float]:
    """Return the mean returns of fresh episodes; the random score for members that diverged."""
    returns = agents.evaluate(list(members), EPISODES, [TEST_SEED + _member_seed(key) for key in keys])
    return [_or(final, scale_of(keys[0].task).random) for final in returns.mean(1).tolist()]


def _or(value: float, otherwise: float) -> float:
    return otherwise if math.isnan(value) else value


def _intervals(key: Key, rounds: int) -> int:
    return BEST_OF * rounds if key.what == "longer" else rounds


def _member_seed(key: Key) -> int:
    """Return the seed of a member; the usual settings have those of `run`, whose populations have four members."""
    offsets = {"sample": SAMPLED + key.index, "again": AGAIN + (CHOOSING + JUDGING) * key.index + key.seed}
    return offsets.get(key.what, BEST_OF * key.seed + key.index)


def configuration(ground: Ground, key: Key) -> dict[str, Any]:
    """Return what a member trains with: the usual settings, or a configuration drawn as random search does.

    A draw depends on its space and number alone, so it need not be stored.
    """
    if key.space is None:
        found = [dict(make().get_default_configuration()) for make in ground.spaces.values()]
        assert all(config == found[0] for config in found), f"the spaces of {ground.name} have different defaults"
        return found[0]
    rng = np.random.default_rng([key.index, SPACES.index(key.space)])
    return draw_config(Encoding(ground.spaces[key.space]()), rng)


def device_name(device: str) -> str:
    """Return the hardware, in words."""
    return torch.cuda.get_device_name() if device.startswith("cuda") else f"{platform.machine()}, {cores()} cores"


def table(found: Sequence[Study]) -> str:
    """Build a table with a row for each task and space."""
    head = ["task", "space", "early", "steps", "random", "untrained", "still", "usual, one run", f"best of {BEST_OF}"]
    head += [f"{BEST_OF}x the steps", *(f"{part:.0%} of random ones" for part in QUANTILES), "beat the usual"]
    head += ["best, trained again", "verdict"]
    return markdown(head, [_row(study) for study in found])


def _row(study: Study) -> list[str]:
    samples, usual = study.finals("sample"), study.one
    steps = max((entry.steps for entry in study.entries if entry.what == "sample"), default=0)
    row = [study.task, study.space, "yes" if study.early else "no", f"{steps:,}", number(study.random, 3)]
    row += [_mean(study.finals("untrained")), _mean(study.finals("still"))]
    row += [_mean(usual), _mean(study.best), _mean(study.finals("longer"))]
    row += [number(float(np.quantile(samples, part)), 3) for part in QUANTILES]
    row += [f"{(samples > usual.mean()).mean():.0%} of {len(samples)}" if len(usual) else UNKNOWN]
    return [*row, _mean(study.judged), study.judgement.verdict]


def _mean(finals: FloatArray) -> str:
    if not len(finals):
        return UNKNOWN
    return f"{number(float(finals.mean()), 3)} ± {number(headroom.error(finals), 2)}"
