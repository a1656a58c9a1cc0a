"""Agents that can be evaluated: skill rises, scores are noisy, and evaluations of one seed are equally lucky."""

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

from popbandits import Outcome

SPACE = {"gain": (0.0, 0.2)}


class Learner:
    """Gains skill; a score has as much noise as many intervals gain."""

    def __init__(self, seed: int):
        self.skill, self.luck = 0.0, random.Random(seed).getrandbits(30)

    def train(self, config: dict[str, Any]) -> float:
        self.skill += config["gain"]
        self.luck += 1
        return self.skill + random.Random(self.luck).gauss(0, 1)

    def save(self, directory: Path) -> None:
        (directory / "state.json").write_text(json.dumps([self.skill, self.luck]))

    def load(self, directory: Path) -> None:
        self.skill, self.luck = json.loads((directory / "state.json").read_text())


class Evaluated(Learner):
    """Can be evaluated."""

    def evaluate(self, seed: int) -> float | Outcome:
        return self.skill + random.Random(seed).gauss(0, 1)


class WithOutcome(Evaluated):
    """Returns more than a score."""

    def evaluate(self, seed: int) -> Outcome:
        return Outcome(self.skill + random.Random(seed).gauss(0, 1), metrics={"episodes": 3})


class OfItsOwn(Learner):
    """Has a method of the name for another purpose."""

    def evaluate(self, episodes: int = 5) -> float:
        raise AssertionError("nobody but the agent calls it")


class Raising(Learner):
    """Cannot be evaluated."""

    def evaluate(self, seed: int) -> float:
        raise ValueError("there is no environment")


class Diverging(Learner):
    """Has no finite score above a certain skill."""

    def __init__(self, seed: int, limit: float = 0.0):
        super().__init__(seed)
        self.limit = limit

    def evaluate(self, seed: int) -> float:
        return self.skill if self.skill < self.limit else float("nan")


class Failing(Evaluated):
    """Fails in the last round."""

    def assigned(self, member: int, round: int) -> None:
        self.round = round

    def train(self, config: dict[str, Any]) -> float:
        if self.round == 5:
            raise ValueError("that is enough")
        return super().train(config)


class Killed(Evaluated):
    """Kills its process in the middle of the evaluations, once."""

    def __init__(self, seed: int, marks: Path):
        super().__init__(seed)
        self.marks = marks

    def evaluate(self, seed: int) -> float | Outcome:
        if len(list(self.marks.iterdir())) == 5:
            (self.marks / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        (self.marks / f"{len(list(self.marks.iterdir()))}").touch()
        return super().evaluate(seed)


class Interrupted(Evaluated):
    """Presses Ctrl-C, or does so twice, when it is evaluated for the first time."""

    presses = 1

    def evaluate(self, seed: int) -> float | Outcome:
        while Interrupted.presses:
            Interrupted.presses -= 1
            signal.raise_signal(signal.SIGINT)
        return super().evaluate(seed)


class Counting(Evaluated):
    """Counts its evaluations in what it saves."""

    def evaluate(self, seed: int) -> float | Outcome:
        self.luck += 1
        return super().evaluate(seed)


class Fickle(Evaluated):
    """Evaluates with numbers that its seed does not determine."""

    def evaluate(self, seed: int) -> float | Outcome:
        return self.skill + random.SystemRandom().random()
