"""Check an agent before an expensive run: does it follow the contract, and what does it cost?

An agent is judged by its scores and the files of its checkpoints. Two intervals are alike if both are equal; files
count only if equal intervals leave equal files. The intervals and what they are compared with (c and c' are
configurations that differ in everything):

| interval | agent | does | is compared with |
|---|---|---|---|
| 1 | A, new | train(c) -> checkpoint | |
| 2 | A | train(c), continuing in memory | |
| 3 | new, A's seed | train(c) | 1: the same seed trains alike |
| 4 | B, new, another seed | train(c'), to have trained before | |
| 5 | B | load, train(c) | 2: the checkpoint holds everything, and nothing else matters |
| 6 | B | load, train(c') | 5: the new hyperparameters apply |
| 7, ... | B | load, train(c with one value changed) | 5: each of them applies |

If 5 differs from 2, new agents that load the checkpoint show what is missing from it. If a hyperparameter changes
nothing, a new agent shows whether it does without a load.

If equal intervals differ, six new agents that load the checkpoint show by how much. That is a warning, since it may be
intended. Hyperparameters are then judged by what `applied` returns or, without it, by scores beyond that spread. A
finding from a spread is never more than a warning.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from popbandits.agent import Agent, MakeAgent
from popbandits.basics.settings import EngineName
from popbandits.errors import ArgumentError, RunError
from popbandits.history import Config
from popbandits.space import Space
from popbandits.testing.agent_report import AgentRule, Report
from popbandits.testing.contrasts import Contrast, contrasts
from popbandits.testing.overhead import time_process
from popbandits.testing.spread import Spread
from popbandits.testing.trials import Trace, Trials, same_score

MAX_FIRST_CONTRASTS = 3
"""Maximum number of first configurations to try until one gives a finite score."""

SPREAD_LOADS = 6
"""Number of new agents that load one checkpoint to measure the random spread of scores."""


def check_agent(
    make_agent: MakeAgent,
    space: Any,
    seed: int = 0,
    *,
    each: bool = True,
    population: int = 4,
    rounds: int = 50,
    engine: EngineName = "in-process",
    progress: Callable[[str], object] = lambda line: None,
) -> Report:
    """Check whether an agent follows the contract, on configurations of a space; the report lists what is wrong.

    A correct agent trains for 6 intervals, plus one for each hyperparameter (`each=False` leaves these out; then a load
    that restores only some old hyperparameters is not found). A fault takes a few more to explain. `progress` is called
    with a line before every interval. `population`, `rounds` and `engine` are those of the run whose duration is
    estimated; with "threads", a global random generator that the agent uses is a warning.
    Checkpoints are written to the system's temporary folder.

    >>> import json
    >>> class Agent:
    ...     def __init__(self, seed):
    ...         self.x = 0.0
    ...
    ...     def train(self, config):
    ...         self.x += config["lr"] * (1 - self.x)
    ...         return self.x
    ...
    ...     def save(self, directory):
    ...         (directory / "x.json").write_text(json.dumps(self.x))
    ...
    ...     def load(self, directory):
    ...         self.x = json.loads((directory / "x.json").read_text())
    >>> report = check_agent(Agent, {"lr": (0.0, 1.0)})
    >>> report.ok, report.costs.intervals
    (True, 6)
    """
    space = Space(space)
    with TemporaryDirectory(prefix="popbandits-check-", ignore_cleanup_errors=True) as folder:
        trials = Trials(make_agent, Path(folder), progress)
        trials.carry_out(AgentCheck(trials, space, seed, each).run)
        _judge_generators(trials, engine)
        costs = trials.costs(population, rounds)
        if costs is not None and engine == "processes":
            try:
                costs = replace(costs, start=costs.start + time_process(make_agent, Path(folder)))
            except (ArgumentError, RunError) as error:
                trials.blame(AgentRule.RUNS, str(error))
        return Report(trials.findings(), costs)


def _judge_generators(trials: Trials, engine: EngineName) -> None:
    """Note whether the agent used generators that members in threads would share."""
    used = [f"{method} uses the global generator of {library}" for library, method in trials.shared.items()]
    if not used:
        trials.confirm(AgentRule.SHARED)
    elif engine == "threads":
        trials.warn(
            AgentRule.SHARED,
            f"{', '.join(used)}, which all threads share: the same seed may not give the same history; use "
            "engine='processes', or draw from generators of the agent's own, such as numpy.random.default_rng(seed)",
        )
    else:
        text = "with engine='threads', members share it, and the same seed may not give the same history"
        trials.note(AgentRule.SHARED, "ok", f"{', '.join(used)}: {text}")


class AgentCheck:
    """The intervals in order, and the conclusions from them."""

    def __init__(self, trials: Trials, space: Space, seed: int, each: bool) -> None:
        self._trials, self._space, self._each = trials, space, each
        self._seed, self._second_seed, self._third_seed = seed, seed + 1, seed + 2
        self._repeatable = True
        self._veteran: Agent | None = None
        self._settled: dict[Trace, Trace] = {}

    def run(self) -> None:
        """Train the intervals, and note the findings."""
        self._begin()
        self._repeat()
        with self._trials.agent(self._second_seed) as veteran:
            trained = self._trials.train(
                veteran, self._contrast.second, "a new agent of another seed, with other values"
            )
            self._trials.evaluate(veteran, trained)
            self._veteran = veteran
            loaded = self._resume(self._start)
            if self._trials.alike(loaded, self._onward):
                self._trials.confirm(AgentRule.COMPLETE, AgentRule.ALIKE)
                self._vary(loaded)
                return
        self._veteran = None
        reference = self._explain(loaded)
        if isinstance(reference, Spread):
            self._vary_by_chance(reference)
        else:
            self._vary(reference)

    def _begin(self) -> None:
        """Train intervals 1 and 2, with a configuration that gives a finite score."""
        for contrast in first_contrasts(self._trials, self._space, self._seed, "agent"):
            self._contrast = contrast
            with self._trials.agent(self._seed) as agent:
                self._start = self._trials.train(agent, self._contrast.first, "a new agent")
                if math.isfinite(self._start.score):
                    self._onward = self._trials.train(agent, self._contrast.first, "it continues in memory")
                    return

    def _repeat(self) -> None:
        """Train interval 3, which also shows whether files can be compared."""
        with self._trials.agent(self._seed) as agent:
            again = self._trials.train(agent, self._contrast.first, "a new agent of the same seed")
        self._repeatable = self._trials.alike(self._start, again)
        if self._repeatable:
            self._trials.confirm(AgentRule.SEED)
            return
        text = f"two new agents of seed {self._seed}, trained with equal values, got {compare(self._start, again)}"
        if same_score(self._start, again):
            self._trials.files_count, self._repeatable = False, True
            text += (
                "; save nothing that changes by itself, such as the time, if that is all; "
                "otherwise training is not determined by the seed. From here on, scores alone are compared"
            )
        else:
            text += "; no run can be repeated: draw everything random from generators that the seed determines"
        self._trials.warn(AgentRule.SEED, text)

    def _explain(self, loaded: Trace) -> Trace | Spread:
        """Note why a load and memory differ. Return the interval of a new agent after a load, or their spread."""
        new = self._resume(self._start, why="by a new agent")
        third = self._resume(self._start, why="by a new agent of a third seed", seed=self._third_seed)
        if self._trials.alike(new, third):
            self._explain_memory(loaded, new)
            return new
        loads, determined = [new, third], True
        if self._trials.alike(loaded, new):
            cause = ": the seed they were built with still shows; save random states, and let load restore them"
        elif self._trials.alike(new, again := self._resume(self._start, why="by a new agent once more")):
            cause = ": load does not restore what is random; save the states of all generators, also global ones"
        else:
            loads, determined = [*loads, again], False
            cause = (
                ", and so do those of one seed: training is not deterministic; draw everything random, environments "
                "included, from generators that load restores, and choose deterministic kernels on a GPU"
            )
        for seed in range(self._third_seed + 1, self._third_seed + 1 + SPREAD_LOADS - len(loads)):
            loads.append(self._resume(self._start, why="by a new agent of yet another seed", seed=seed))
        spread = Spread(trace.score for trace in loads)
        text = f"agents of two seeds load the same checkpoint, got {compare(new, third)}{cause}, unless it is meant"
        self._explain_chance(spread, loaded, f"{text}. Scores of loads: {spread}")
        return new if determined else spread

    def _explain_chance(self, spread: Spread, loaded: Trace, text: str) -> None:
        """Note that loads do not train alike, and which differences chance does not explain."""
        if spread.holds(loaded.score) is False:
            text += (
                f". An agent that has trained before got {loaded.score!r} from that checkpoint, beyond that spread; "
                "let load replace everything, and train keep nothing of earlier intervals"
            )
        self._trials.warn(AgentRule.ALIKE, text)
        complete, score = spread.holds(self._onward.score), self._onward.score
        text = f"an agent that continues in memory got {score!r}, {{}} the spread of those that load what it saved"
        if complete is False:
            text = f"{text.format('beyond')}; save the optimizer's state, normalisers and counters too"
            self._trials.warn(AgentRule.COMPLETE, text)
        elif complete:
            self._trials.note(AgentRule.COMPLETE, "ok", text.format("within"))

    def _explain_memory(self, loaded: Trace, new: Trace) -> None:
        """Note what an agent's memory changes, given that seeds change nothing."""
        if self._trials.alike(new, self._onward):
            self._trials.confirm(AgentRule.COMPLETE)
            self._trials.blame(
                AgentRule.ALIKE,
                "an agent that has trained before and a new one load the same checkpoint and must train alike, got "
                f"{compare(loaded, new)}; let load replace everything, and train keep no hyperparameters, buffers or "
                "environments of earlier intervals",
            )
            return
        left = ", and load does not replace what the agent had before"
        if self._trials.alike(loaded, new):
            left = ""
            self._trials.confirm(AgentRule.ALIKE)
        self._trials.blame(
            AgentRule.COMPLETE,
            "an agent that continues in memory and one that loads what it saved must train alike, got "
            f"{compare(self._onward, new)}: something is not saved or not restored{left}; save the optimizer's state, "
            "normalisers, counters and random states too, and let train create again what cannot be saved, such as "
            "environments",
        )

    def _vary(self, reference: Trace) -> None:
        """Train intervals 6 and later: other values after a load, all at once and then one at a time."""
        self._settled[self._start] = reference
        single = self._contrast.single
        if not single:
            return
        everything = ", ".join(single)
        silent, unclear = self._silent({everything: self._contrast.second}, reference)
        if self._each and len(single) > 1 and not silent and not unclear:
            silent, unclear = self._silent(single, reference)
        if unclear:
            self._trials.warn(
                AgentRule.HELD,
                f"{', '.join(unclear)}: whatever their values, the score was {reference.score!r}, and files cannot be "
                "compared; let train return a finer score, or give the agent applied()",
            )
            return
        stale = [name for name, config in silent.items() if self._shows_without_load(name, config)]
        ignored = [name for name in silent if name not in stale]
        seen = f"another value must show, got the score {reference.score!r} with either and no other difference"
        if stale:
            self._trials.blame(
                AgentRule.HELD,
                f"{', '.join(stale)}: {seen}, though it shows in an agent that did not load: the old value came back; "
                "let train set it every time, in the optimizer too, after what restores the optimizer's state",
            )
        if ignored:
            self._trials.note(
                AgentRule.USED,
                "problem" if ignored == [everything] else "warning",
                f"{', '.join(ignored)}: {seen}; let train use it, unless an interval is too short for it to matter, or "
                "make it conditional if it matters with some values of other hyperparameters only",
            )
        self._trials.confirm(AgentRule.HELD, AgentRule.USED)

    def _vary_by_chance(self, spread: Spread) -> None:
        """Train intervals 6 and later if training is not deterministic: judge by `applied`, or else by scores."""
        single = self._contrast.single
        if not single:
            return
        after = self._resume(self._start, self._contrast.second, "with other values")
        unclear = [name for name in single if name not in self._trials.reported]
        if spread.holds(after.score) is False:
            alone = unclear if self._each and len(single) > 1 else []
            tries = {name: self._resume(self._start, single[name], f"with another value of {name}") for name in alone}
            unclear = [name for name, trace in tries.items() if spread.holds(trace.score) is not False]
        if unclear:
            self._trials.warn(
                AgentRule.HELD,
                f"{', '.join(unclear)}: this cannot be decided, since other values led to scores within the spread of "
                f"equal ones ({spread}); give the agent applied(), which returns what it trained with",
            )
        elif all(finding.rule != AgentRule.APPLIED or finding.status == "ok" for finding in self._trials.findings()):
            self._trials.confirm(AgentRule.HELD, AgentRule.USED)

    def _silent(self, tries: dict[str, Config], reference: Trace) -> tuple[dict[str, Config], list[str]]:
        """Return the changes that have no effect after a load, and those that cannot be decided."""
        silent, unclear = {}, []
        for name, config in tries.items():
            after = self._resume(self._start, config, f"with another value of {name}")
            shows = self._shows(after, reference)
            if shows is None:
                unclear.append(name)
            elif not shows:
                silent[name] = config
            self._trials.forget(after)
        return silent, unclear

    def _shows_without_load(self, name: str, config: Config) -> bool:
        if not self._repeatable:
            return False
        with self._trials.agent(self._seed) as agent:
            trace = self._trials.train(agent, config, f"a new agent, with another value of {name}")
        return self._shows(trace, self._start) is True

    def _resume(
        self, trace: Trace, config: Config | None = None, why: str = "by a used agent", seed: int | None = None
    ) -> Trace:
        """Train from a checkpoint, with the agent that has trained before if there is one, else with a new one."""
        config = self._contrast.first if config is None else config
        new = self._trials.agent(self._second_seed if seed is None else seed)
        with new if self._veteran is None else nullcontext(self._veteran) as agent:
            return self._trials.resume(agent, trace, config, f"from a checkpoint, {why}")

    def _shows(self, trace: Trace, reference: Trace) -> bool | None:
        """Tell whether other hyperparameters had an effect; None if that cannot be decided."""
        if not same_score(trace, reference):
            return True
        if trace.files == reference.files:
            return False
        if not self._trials.files_count:
            return None
        # The files may differ only because the agent saves its configuration. After one more interval with equal
        # values, they no longer do.
        for each in (trace, reference):
            if each not in self._settled:
                self._settled[each] = self._resume(each, why="with the first values again")
        one, other = self._settled[trace], self._settled[reference]
        return not (same_score(one, other) and one.files == other.files)


def first_contrasts(trials: Trials, space: Space, seed: int, who: str) -> Iterator[Contrast]:
    """Yield contrasts to find one with a finite score; give up after MAX_FIRST_CONTRASTS."""
    for contrast in islice(contrasts(space, seed), MAX_FIRST_CONTRASTS):
        yield contrast
    trials.give_up(
        AgentRule.SCORE,
        f"a new {who} must reach a finite score, got none with {MAX_FIRST_CONTRASTS} configurations, the last one "
        f"{contrast.first}; narrow the space, or look at what train returns",
    )


def compare(one: Trace, other: Trace) -> str:
    """Describe how the results of two intervals differ."""
    if same_score(one, other):
        return f"the score {one.score!r} twice, but different checkpoints"
    return f"the scores {one.score!r} and {other.score!r}"
