"""A training script as an agent: a function that names its state, and yields its score at the end of an interval."""

import inspect
from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import Optimizer

from popbandits.adapters import optimizers
from popbandits.adapters.seeding import SeededAgent
from popbandits.adapters.states import restore_all, state_of
from popbandits.agent import Outcome
from popbandits.basics.deprecation import present_name
from popbandits.errors import AgentError

Score = float | Outcome
Script = Callable[[dict[str, Any], "ScriptRun"], Generator[Score, Any, Any] | Score]


def script(function: Script) -> Callable[[int], "ScriptAgent"]:
    """Make an agent from a training script: a decorator.

    In every interval the script runs from its top to its next `yield`, so it may keep its loop. It builds its objects
    again, and `run.keep` restores their state. A function that returns its score works too.

    >>> @script
    ... def train(config, run):
    ...     layer = torch.nn.Linear(1, 1)
    ...     optimizer = torch.optim.SGD(layer.parameters(), lr=config["lr"])
    ...     kept = run.keep(layer=layer, optimizer=optimizer, steps=0)
    ...     while True:
    ...         loss = ((layer(torch.ones(1)) - 3) ** 2).mean()
    ...         optimizer.zero_grad()
    ...         loss.backward()
    ...         optimizer.step()
    ...         kept.steps += 1
    ...         yield -loss.item()
    >>> agent = train(seed=0)
    >>> agent.train({"lr": 0.1}) < agent.train({"lr": 0.2}), agent.applied()
    (True, {'lr': 0.2})

    Args:
        function: Generator function of the hyperparameters and a `ScriptRun`, which yields a score or an `Outcome`.
    """

    def make_agent(seed: int) -> ScriptAgent:
        return ScriptAgent(function, seed)

    update_wrapper(make_agent, function)
    del make_agent.__wrapped__  # type: ignore[attr-defined]  # or its signature would replace this one's
    return make_agent


class KeptState:
    """State of a script, as attributes; plain values are changed by assignment: `kept.steps += 1`."""

    def __init__(self, things: dict[str, Any]) -> None:
        self.__dict__.update(things)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"only what keep() was given is kept, got {name!r}; add it to keep(...)")
        self.__dict__[name] = value


class ScriptRun:
    """Information for a script about its interval, and `keep`, which names its state.

    Args:
        config: Hyperparameters of the interval.
        seed: Seed of the interval.
        interval: Member and round.
        states: State at the end of the last interval. None for a fresh start.
    """

    def __init__(
        self, config: dict[str, Any], seed: int, interval: tuple[int, int], states: dict[str, Any] | None
    ) -> None:
        self.seed = seed
        """Seed for environments; Python's, NumPy's and PyTorch's global generators are already seeded."""
        self.member, self.round = interval
        self.applied: dict[str, Any] = {}
        """Hyperparameters read back from the optimizers after `keep`."""
        self._config, self._states = config, states
        self._kept: KeptState | None = None

    @property
    def fresh(self) -> bool:
        """True if this is a fresh start."""
        return self._states is None

    def keep(self, **things: Any) -> KeptState:
        """Name the state that training continues from, and restore it. Call it once, when everything is built.

        Modules, schedules and generators are restored in place. So are optimizers, except for their options, which stay
        as built. Plain values, tensors and arrays are attributes of the returned object; change them there.

        Args:
            things: Objects and values to keep, by name.
        """
        if self._kept is not None:
            raise AgentError("keep() is called once in an interval, got a second call; name everything in one")
        if not things:
            raise AgentError("keep() must name what training continues from, got nothing; name modules, optimizers")
        for name, thing in things.items():
            state_of(name, thing)  # Raise now, not after training.
        found = {name: thing for name, thing in things.items() if isinstance(thing, Optimizer)}
        built = optimizers.read_options(found, self._config)
        if self._states is not None:
            things |= restore_all(things, self._states)
        after = optimizers.read_options(found, self._config)
        self.applied = optimizers.confirmed(built, after, self._config)
        self._kept = KeptState(things)
        return self._kept

    def states(self) -> dict[str, Any]:
        """Return the current states of everything that is kept."""
        if self._kept is None:
            raise AgentError("a script must name what its training continues from, got no call of keep()")
        return {name: state_of(name, thing) for name, thing in vars(self._kept).items()}


class ScriptAgent(SeededAgent):
    """An agent that runs a script from its top to its next `yield` in every interval.

    Args:
        script: The training script.
        seed: Seed of the agent.
    """

    def __init__(self, script: Script, seed: int) -> None:
        super().__init__(seed)
        self._script = script
        self._states: dict[str, Any] | None = None

    def train(self, config: dict[str, Any]) -> Score:
        """ScriptRun the script until it yields (or returns) its score."""
        with self._new_numbers() as seed:
            run = ScriptRun(config, seed, self._next_interval, self._states)
            result: Any = self._script(config, run)
            steps = result if inspect.isgenerator(result) else iter([result])
            with closing(steps) if steps is result else nullcontext():  # Its `finally` blocks run at the end.
                try:
                    score: Score = next(steps)
                except StopIteration:
                    raise AgentError("a script must yield its score, but ended without one") from None
                self._states, self._applied = run.states(), run.applied
        return score

    def save(self, directory: Path) -> None:
        """Write the state of the script."""
        torch.save({"kept": self._states, **self._seeds()}, directory / "script.pt")

    def load(self, directory: Path) -> None:
        """Load a checkpoint; the next interval begins with it."""
        saved = torch.load(directory / "script.pt", weights_only=True)
        self._set_seeds(saved)
        self._states = saved["kept"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return globals()[present_name(__name__, {"Run": "ScriptRun", "Kept": "KeptState"}, name)]
