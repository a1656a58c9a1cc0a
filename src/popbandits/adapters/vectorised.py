"""Train with a library for robot learning: the base of its agents, whose environments an interval resets."""

import math
import pickle
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from popbandits.adapters.seeding import SeededAgent
from popbandits.agent import Outcome
from popbandits.basics.rules import whole
from popbandits.errors import AgentError, ArgumentError

Configure = Callable[[Any, dict[str, Any]], Mapping[str, Any]]
Score = str | Callable[[Any], float] | None


class VectorisedAgent(SeededAgent):
    """Base of agents that train in vectorised environments, with a library's algorithm.

    Hyperparameters that an interval does not name have the values that the algorithm was built with. An adaptive
    learning rate is learnt, unless it is named: then its schedule begins there in every interval.

    Args:
        make: Function that builds what the library trains with, from a seed.
        seed: Seed of the agent.
        iterations: Iterations of an interval: rollouts in all environments, each with an update.
        score: None (default) for the mean return of the training episodes that ended in the interval; the name of a
            value that the environments log (in `extras["log"]` or `extras["episode"]`), for its mean over the interval;
            or a function of the environments, called after the interval.
        configure: Function of the environments and of the hyperparameters that the library does not know, such as the
            weights of rewards. It is called before every interval, sets them, and returns those that it has set, read
            from where they are used. Default None.
    """

    def __init__(
        self,
        make: Callable[[int], Any],
        *,
        seed: int,
        iterations: int,
        score: Score = None,
        configure: Configure | None = None,
    ) -> None:
        if not (score is None or isinstance(score, str) or callable(score)):
            raise ArgumentError(f"score must be None, the name of a logged value or a function, got {score!r}")
        whole(1).check("iterations", iterations)
        super().__init__(seed)
        self._iterations, self._score, self._configure = iterations, score, configure
        with self._new_numbers() as number:
            self.env = self._build(make(number))
        self._built = self._read()

    @abstractmethod
    def _build(self, made: Any) -> Any:
        """Note what was built, and return its environments."""

    @abstractmethod
    def _places(self) -> dict[str, tuple[Any, str]]:
        """Name the object and the attribute where training reads each hyperparameter, but for the learning rate."""

    @abstractmethod
    def _rate(self) -> float: ...

    @abstractmethod
    def _put_rate(self, rate: float) -> None: ...

    @abstractmethod
    def _adapts_rate(self) -> bool:
        """Tell whether the learning rate follows the changes of the policy."""

    @abstractmethod
    def _learn(self, seed: int) -> None:
        """Reset the environments, and train for an interval."""

    def train(self, config: dict[str, Any]) -> Outcome:
        """Set the hyperparameters, reset the environments, and train for one interval."""
        with self._new_numbers() as number:
            self._apply(config)
            for each in self._layers():
                if callable(method := getattr(each, "seed", None)):
                    method(number)
            with _watch(self.env) as episodes:
                self._learn(number)
            return episodes.outcome(self._score, self.env)

    def close(self) -> None:
        """Close the environments."""
        if callable(close := getattr(self.env, "close", None)):
            close()

    def _layers(self) -> tuple[Any, Any]:
        """Return the environments, and what they are wrapped around or None: Isaac Lab's wrappers miss some methods."""
        return self.env, getattr(self.env, "env", None)

    def _read(self) -> dict[str, Any]:
        return {name: getattr(*place) for name, place in self._places().items()} | {"learning_rate": self._rate()}

    def _apply(self, config: dict[str, Any]) -> None:
        """Set hyperparameters, whatever was loaded, and read them back."""
        rest = {name: value for name, value in config.items() if name not in self._built}
        found = self._configure(self.env, dict(rest)) if self._configure is not None else {}
        if not isinstance(found, Mapping):
            raise AgentError(f"configure must return the hyperparameters that it has set, as a dict, got {found!r}")
        if unknown := sorted(rest.keys() - found.keys()):
            raise AgentError(
                f"{', '.join(map(repr, unknown))}: {type(self).__name__} cannot change this while it trains; leave it "
                "out of the space, or set it in configure(env, config), which returns what it has set. "
                f"What can be tuned: {', '.join(sorted(self._built))}"
            )
        values = self._built | {name: config[name] for name in config.keys() - rest.keys()}
        for name, (owner, attribute) in self._places().items():
            setattr(owner, attribute, values[name])
        if "learning_rate" in config or not self._adapts_rate():
            self._put_rate(values["learning_rate"])
        now = dict(found) | self._read()
        self._applied = {name: now[name] for name in config}


class _Episodes:
    """Sums over the steps of an interval, on the device of the environments: no step waits for a GPU."""

    def __init__(self) -> None:
        self.steps = 0
        self._logged: dict[str, list[Any]] = {}
        self._running: Any = 0.0  # Return so far of the episode in each environment.
        self._moments: Any = 0.0  # Number of episodes that ended, the sum of their returns, and of their squares.

    def note(self, rewards: Any, ended: Any, extras: Any) -> None:
        """Add a step of all environments."""
        ended = torch.as_tensor(ended).reshape(-1).bool()
        self._running = self._running + torch.as_tensor(rewards).reshape(len(ended), -1).sum(1).double()
        self.steps += len(ended)
        returns = torch.where(ended, self._running, 0.0)
        self._moments = self._moments + torch.stack([ended.sum().double(), returns.sum(), returns.square().sum()])
        self._running = torch.where(ended, 0.0, self._running)
        logged = extras.get("log", extras.get("episode")) if isinstance(extras, Mapping) else None
        for name, value in logged.items() if isinstance(logged, Mapping) else ():
            total = self._logged.setdefault(name, [0.0, 0])
            total[0] = total[0] + torch.as_tensor(value).double().mean()
            total[1] += 1

    def outcome(self, score: Score, env: Any) -> Outcome:
        """Return the score, the steps, and the mean return of the episodes that ended."""
        count, total, squares = self._moments.tolist()
        metrics = {"training_return": total / count} if count else {}
        if callable(score):
            return Outcome(float(score(env)), self.steps, metrics)
        if score is not None:
            if score not in self._logged:
                raise AgentError(
                    f"score must name a value that environments log, got {score!r} where there are "
                    f"{sorted(self._logged)}"
                )
            total, number = self._logged[score]
            return Outcome(float(total) / number, self.steps, metrics)
        if not count:
            raise AgentError(
                f"an episode must end within an interval, got none in {self.steps} steps; let it be longer"
            )
        variance = max(0.0, squares - total * total / count) / max(1.0, count - 1)
        return Outcome(total / count, self.steps, metrics, math.sqrt(variance / count) if count > 1 else None)


@contextmanager
def _watch(env: Any) -> Iterator[_Episodes]:
    """Note every step of environments, by a method `step` of this object alone."""
    episodes, step = _Episodes(), env.step

    def noted(actions: Any) -> Any:
        result = step(actions)
        _, rewards, *ends, extras = result
        episodes.note(rewards, ends[0] if len(ends) == 1 else ends[0] | ends[1], extras)
        return result

    env.step = noted
    try:
        yield episodes
    finally:
        del env.step


def read_tensors(path: Path, device: Any = "cpu") -> Any:
    """Read a file of PyTorch that holds tensors and plain values; nothing in it is unpickled.

    Args:
        path: File that `torch.save` wrote.
        device: Where the tensors go. Default "cpu".
    """
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        raise AgentError(
            f"a checkpoint must hold plain values and tensors, got an object in {path}: {error}"
        ) from error
