"""Observed training intervals of a batch of agents, and an adapter of one member to an agent."""

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from popbandits.agent import BatchedAgents, MakeAgents, Outcome
from popbandits.engines.batched import Slot, applied_by, build_batch, scores_of
from popbandits.errors import AgentError
from popbandits.history import Config
from popbandits.testing.agent_report import AgentRule, AnyRule, BatchRule
from popbandits.testing.trials import Trace, Trials


class SingleMember:
    """One member of a batch as an agent: the others are its copies, like members that are not due in a run."""

    def __init__(self, seed: int, make_agents: MakeAgents, size: int):
        self._agents, self._size = build_batch(make_agents, [seed] * size), size
        self._slot = Slot(self._agents, 0)
        self.save = self._slot.save
        if callable(getattr(self._agents, "applied", None)):
            self.applied = lambda: applied_by(self._agents, size)[0]
        if callable(close := getattr(self._agents, "close", None)):
            self.close = close

    def assigned(self, member: int, round_: int) -> None:
        """Announce the same interval to all members."""
        announce_all(self._agents, self._size)

    def train(self, config: Config) -> float | Outcome:
        """Train all members with one configuration, and return the first result."""
        configs = [config, *(copy.deepcopy(config) for _ in range(self._size - 1))]
        result: float | Outcome = scores_of(self._agents.train(configs), self._size)[0]
        return result

    def load(self, directory: Path) -> None:
        """Load into the first member, and copy it to the others."""
        self._slot.load(directory)
        self._agents.copy([0] * self._size)


class BatchTrials(Trials):
    """Trains batches interval by interval, and notes which rules they break."""

    # A batch is one program, and its members one object.
    rules: tuple[AnyRule, ...] = (*(rule for rule in AgentRule if rule != AgentRule.SHARED), *BatchRule)
    batched = True

    def __init__(self, make_agents: MakeAgents, size: int, folder: Path, progress: Callable[[str], object]):
        super().__init__(partial(SingleMember, make_agents=make_agents, size=size), folder, progress)
        self._make_agents = make_agents
        self.size = size

    def batch(self, seeds: list[int]) -> AbstractContextManager[BatchedAgents]:
        """Build a batch, and close it at the end."""
        return self._build(lambda: build_batch(self._make_agents, seeds), "make_agents")

    def train_all(
        self, agents: BatchedAgents, configs: Sequence[Config], why: str, watched: Sequence[int]
    ) -> list[Trace]:
        """Train every member for an interval, save those in `watched`, and return their traces."""
        self._progress(f"interval {self.intervals + 1}: {why}")
        given = copy.deepcopy(list(configs))
        self._time("assigned", lambda: announce_all(agents, len(configs)))
        returned = self._time("train", lambda: agents.train(given))
        with self.give_up_on_error("applied", explained=AgentError):
            scores, used = scores_of(returned, len(configs)), applied_by(agents, len(configs))
        traces = []
        for member in watched:
            score = self.judge(scores[member], given[member], configs[member])
            if callable(getattr(agents, "applied", None)):
                self.judge_applied(configs[member], used[member])
            traces.append(self._save(Slot(agents, member), score))
        return traces

    def bring(self, agents: BatchedAgents, member: int, trace: Trace) -> None:
        """Load a checkpoint into a member."""
        self._time("load", lambda: agents.load(member, trace.checkpoint))

    def copy(self, agents: BatchedAgents, *sources: int) -> None:
        """Replace the first members by copies of `sources`."""
        everyone = [*sources, *range(len(sources), self.size)]
        self._time("copy", lambda: agents.copy(everyone), f"copy({everyone})")

    def reset(self, agents: BatchedAgents, member: int, seed: int) -> None:
        """Replace a member by a new one."""
        self._time("reset", lambda: agents.reset(member, seed), f"reset({member}, {seed})")


def announce_all(agents: BatchedAgents, size: int) -> None:
    """Announce the same interval to every member, so that it causes no difference."""
    if callable(assigned := getattr(agents, "assigned", None)):
        assigned([(0, 0)] * size)
