"""Check batched agents before an expensive run: the rules for agents, and that members do not affect one another.

Intervals are compared as in `check_agent`. Members 0, 1, ... of a batch are built from seeds s0, s1, ...; c and c' are
configurations that differ in everything; T0 and T1 are the states of members 0 and 1 after interval 1.

| interval | batch | does | is compared with |
|---|---|---|---|
| 1 | A | member 0 trains with c, member 1 with c' -> T0, T1 | |
| 2 | A | copy swaps 0 and 1, and 2 becomes the old 0; all train | 4: copy |
| 3 | new, A's seeds | as in 1 | 1: repeatable |
| 4 | the same | continues in memory, with the configurations swapped | |
| 5, 6 | other seeds and indices | a member of seed s0 trains with c, as all do; of s1 with c' | 1: others and index |
| 7 | other seeds | loads T0 and T1, trains | 4: memory equals a load |
| 8, 9 | new, A's seeds | as in 1; 1 is loaded, 2 is reset to s0; all train | 4, 1: the others are unchanged; reset |
| 10, 11 | new, A's seeds | all but 0 train with NaN; they are replaced; all train | 1, 4: the others are unchanged |
| 12 | a batch of one | trains with c | 1: except for rounding |

If no rule is broken so far, one member is checked as an agent, with the intervals of `check_agent`.
"""

import math
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from popbandits.agent import MakeAgents
from popbandits.history import Config
from popbandits.space import Space
from popbandits.testing.agent_report import AgentRule, BatchRule, Report
from popbandits.testing.agents import AgentCheck, compare, first_contrasts
from popbandits.testing.batch_trials import BatchTrials
from popbandits.testing.trials import CheckAborted, Trace, same_score

MIN_SIZE = 4
"""Minimum number of members of the checked batch."""


def check_batched(
    make_agents: MakeAgents,
    space: Any,
    seed: int = 0,
    *,
    each: bool = True,
    population: int = 4,
    rounds: int = 50,
    progress: Callable[[str], object] = lambda line: None,
) -> Report:
    """Check whether batched agents follow the contract, on configurations of a space; the report lists what is wrong.

    A correct batch trains for 12 intervals, plus those of `check_agent`, all with `population` members (at least 4).
    The arguments are those of `check_agent`.

    >>> import json
    >>> class Climbers:
    ...     def __init__(self, seeds):
    ...         self.x = [0.0 for seed in seeds]
    ...
    ...     def train(self, configs):
    ...         self.x = [x + config["lr"] * (1 - x) for x, config in zip(self.x, configs)]
    ...         return self.x
    ...
    ...     def copy(self, sources):
    ...         self.x = [self.x[source] for source in sources]
    ...
    ...     def reset(self, member, seed):
    ...         self.x[member] = 0.0
    ...
    ...     def save(self, member, directory):
    ...         (directory / "x.json").write_text(json.dumps(self.x[member]))
    ...
    ...     def load(self, member, directory):
    ...         self.x[member] = json.loads((directory / "x.json").read_text())
    >>> report = check_batched(Climbers, {"lr": (0.0, 1.0)})
    >>> report.ok, report.costs.intervals
    (True, 18)
    """
    space = Space(space)
    with TemporaryDirectory(prefix="popbandits-check-", ignore_cleanup_errors=True) as folder:
        trials = BatchTrials(make_agents, max(MIN_SIZE, population), Path(folder), progress)
        trials.carry_out(lambda: BatchCheck(trials, space, seed).run(each))
        return Report(trials.findings(), trials.costs(population, rounds), trials.rules)


class BatchCheck:
    """The intervals in order, and the conclusions from them."""

    def __init__(self, trials: BatchTrials, space: Space, seed: int) -> None:
        self._trials, self._space, self._seed = trials, space, seed
        self._seeds = list(range(seed, seed + trials.size))
        self._others = list(range(seed + trials.size, seed + 2 * trials.size))

    def run(self, each: bool) -> None:
        """Train the intervals, and note the findings."""
        self._begin()
        if repeatable := self._repeat():
            if not self._company():
                return
            self._copy()
            self._load()
            self._apart()
            if self._well():
                self._diverge()
            self._size()
        if self._well():
            AgentCheck(self._trials, self._space, self._seed, each).run()
        if repeatable and self._well():
            self._memory()

    def _well(self) -> bool:
        """Tell whether no problem was found that would affect other rules too; those of `applied` do not."""
        findings = self._trials.findings()
        return not any(finding.status == "problem" and finding.rule != AgentRule.APPLIED for finding in findings)

    def _configs(self, *first: Config) -> list[Config]:
        """Return one configuration for each member: those given for the first members, and c for the rest."""
        return [*first, *[self._contrast.first] * (self._trials.size - len(first))]

    def _begin(self) -> None:
        """Train intervals 1 and 2, with a configuration that training survives."""
        for contrast in first_contrasts(self._trials, self._space, self._seed, "member"):
            self._contrast, c, d = contrast, contrast.first, contrast.second
            with self._trials.batch(self._seeds) as agents:
                self._start = self._trials.train_all(agents, self._configs(c, d), "a new batch", [0, 1])
                if math.isfinite(self._start[0].score):
                    self._trials.copy(agents, 1, 0, 0)
                    self._copied = self._trials.train_all(agents, self._configs(c, d, d), "after copies", [0, 1, 2])
                    return

    def _repeat(self) -> bool:
        """Train intervals 3 and 4; tell whether intervals can be compared. If not, the check of one member says why."""
        c, d = self._contrast.first, self._contrast.second
        with self._trials.batch(self._seeds) as agents:
            again = self._trials.train_all(agents, self._configs(c, d), "a new batch of the same seeds", [0, 1])
            self._onward = self._trials.train_all(agents, self._configs(d, c), "it continues in memory", [0, 1])
        pairs = list(zip(self._start, again, strict=True))
        if not all(same_score(one, other) for one, other in pairs):
            return False
        self._trials.files_count = all(self._trials.alike(one, other) for one, other in pairs)
        return True

    def _same(self, rule: BatchRule, got: Trace, expected: Trace, text: str) -> bool:
        """Note whether a rule holds; `text` states the rule and, after the first "; ", the fix."""
        if self._trials.alike(got, expected):
            self._trials.confirm(rule)
            return True
        seen, _, fix = text.partition("; ")
        self._trials.blame(rule, f"{seen}, got {compare(got, expected)}; {fix}")
        return False

    def _company(self) -> bool:
        """Train intervals 5 and 6; tell whether members are independent. If not, nothing else can be checked."""
        text = (
            "a member must train alike as number {} and as number {}, next to members with other values than before; "
            "give every member its own random numbers, and draw as many whatever the others do; let members share "
            "nothing: no generator, no statistics, no norm of all gradients"
        )
        for member, config in enumerate((self._contrast.first, self._contrast.second)):
            index = 1 - member
            seeds = list(self._others)
            seeds[index] = self._seeds[member]
            with self._trials.batch(seeds) as agents:
                why = "with other members, at another index"
                (got,) = self._trials.train_all(agents, [config] * self._trials.size, why, [index])
            if not self._same(BatchRule.COMPANY, got, self._start[member], text.format(member, index)):
                return False
        return True

    def _copy(self) -> None:
        """Compare intervals 2 and 4."""
        text = (
            "after copy([1, 0, 0, ...]) each must train as its source would have; copy weights, optimizer, counters "
            "and random states, from all sources as they were before the call"
        )
        for got, source in zip(self._copied, (1, 0, 0), strict=True):
            self._same(BatchRule.COPY, got, self._onward[source], text)

    def _load(self) -> None:
        """Train interval 7."""
        with self._trials.batch(self._others) as agents:
            self._trials.bring(agents, 0, self._start[0])
            self._trials.bring(agents, 1, self._start[1])
            configs = self._configs(self._contrast.second, self._contrast.first)
            self._loaded = self._trials.train_all(agents, configs, "from checkpoints", [0, 1])

    def _apart(self) -> None:
        """Train intervals 8 and 9."""
        c, d = self._contrast.first, self._contrast.second
        with self._trials.batch(self._seeds) as agents:
            self._trials.train_all(agents, self._configs(c, d), "a new batch of the same seeds", [])
            self._trials.bring(agents, 1, self._start[0])
            self._trials.reset(agents, 2, self._seed)
            going, _, new = self._trials.train_all(
                agents, self._configs(d, d, c), "after a load and a reset", [0, 1, 2]
            )
        text = "a member must train as if no other had been loaded or reset; let these change only their member"
        self._same(BatchRule.APART, going, self._onward[0], text)
        text = (
            "a member that is reset must train like a new one of the same seed; let reset create everything again, "
            "optimizer and random states included"
        )
        self._same(BatchRule.RESET, new, self._start[0], text)

    def _diverge(self) -> None:
        """Train intervals 10 and 11."""
        c, d = self._contrast.first, self._contrast.second
        broken = self._broken(c)
        if broken == c:  # No hyperparameter can be NaN.
            return
        with self._trials.batch(self._seeds) as agents:
            configs, why = self._configs(c, broken, broken, broken), "three members diverge"
            try:
                (sound,) = self._trials.train_all(agents, configs, why, [0])
            except CheckAborted:
                if (raised := self._trials.retract(AgentRule.RUNS)) is None:
                    raise
                text = f"this could not be checked: with hyperparameters that are NaN, {raised.text}"
                self._trials.warn(BatchRule.DIVERGED, f"{text}\nan error of train fails all members")
                return
            text = "a member must train alike next to members that become NaN; let nothing be summed over members"
            if not self._same(BatchRule.DIVERGED, sound, self._start[0], text):
                return
            self._trials.copy(agents, 0, 0)
            self._trials.bring(agents, 2, self._start[0])
            self._trials.reset(agents, 3, self._seed)
            ends = self._trials.train_all(agents, self._configs(d, d, d, c), "after they were replaced", [0, 1, 2, 3])
        expected = (self._onward[0], self._onward[0], self._loaded[0], self._start[0])
        for got, wanted, how in zip(ends, expected, ("", "copied over", "loaded", "reset"), strict=True):
            text = f"a member that was NaN and then {how} must train like any other; overwrite, do not add or multiply"
            self._same(BatchRule.DIVERGED, got, wanted, text if how else "the others must train alike; overwrite")

    def _broken(self, config: Config) -> Config:
        """Set each float to NaN: with that most training diverges."""
        floats = {parameter.name for parameter in self._space.numerical if parameter.kind == "float"}
        flat = self._space.flatten(config)
        return self._space.nest({name: math.nan if name in floats else value for name, value in flat.items()})

    def _size(self) -> None:
        """Train interval 12."""
        with self._trials.batch([self._seed]) as agents:
            (alone,) = self._trials.train_all(agents, [self._contrast.first], "a batch of one", [0])
        if not math.isclose(alone.score, self._start[0].score, rel_tol=1e-3, abs_tol=1e-6):
            got, why = compare(alone, self._start[0]), "batches of two sizes may be computed in another order"
            fix = f"let losses be summed over members, not averaged, unless rounding explains it: {why}"
            self._trials.warn(BatchRule.SIZE, f"a member alone must train as in a batch, got {got}; {fix}")
        self._trials.confirm(BatchRule.SIZE)

    def _memory(self) -> None:
        """Compare intervals 4 and 7. If a checkpoint lacks something, the check of one member has noted it."""
        for got, expected in zip(self._onward, self._loaded, strict=True):
            text = (
                "with new hyperparameters, a member must train alike from memory and from its checkpoint; let train "
                "set all hyperparameters every time, and keep nothing else of earlier intervals"
            )
            self._same(BatchRule.MEMORY, got, expected, text)
