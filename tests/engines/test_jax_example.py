"""The example in JAX: PPO agents as one program, of which no member depends on another.

`python -m tests.engines.test_jax_example FOLDER` begins a run of it or resumes it. With KILL_AT_SAVE=n in the
environment, it kills itself in the n-th save of its process, with SIGKILL.
"""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from popbandits import History, log, resume, tune
from popbandits.errors import HistoryError
from popbandits.run.replay import replay
from popbandits.space import Space
from popbandits.testing import check_batched
from tests.adapters.checking import flawless
from tests.processes import run_script

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "batched_jax.py"
SMALLER = {"GAMES": 4, "LENGTH": 16, "UPDATES": 4, "GRADIENTS": 8, "BATCH": 16, "EPISODES": 4, "LIMIT": 100}


@cache
def load_example(**constants: int) -> ModuleType:
    """Import the example, with intervals that take an instant; once, for what was compiled is kept with it."""
    spec = importlib.util.spec_from_file_location("batched_jax", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for name, value in (SMALLER | constants).items():
        assert hasattr(made, name)
        setattr(made, name, value)
    return made


def draw(example: ModuleType, count: int) -> list[dict[str, Any]]:
    """Draw configurations of its space."""
    space = Space(example.SPACE)
    return space.decode(space.sample(count, np.random.default_rng(0)))


def test_it_passes_the_check() -> None:
    example = load_example()
    # With the lowest rates of its space nothing is clipped in a short interval, and the check says so of `clip`.
    flawless(check_batched(example.Agents, example.SPACE | {"lr": log(3e-3, 1e-1)}))


def train_rounds(example: ModuleType, seeds: list[int], configs: list[dict[str, Any]]) -> list[Any]:
    """Train three intervals; return the scores of the first two members, and all that they are."""
    agents, scores = example.Agents(seeds), []
    for round_ in range(3):
        agents.assigned([(member, round_) for member in range(len(configs))])
        scores += [outcome.score for outcome in agents.train(configs)[:2]]
    return [scores, *(np.asarray(leaf)[:2] for leaf in example.tree.leaves(agents.members))]


def test_a_member_trains_the_same_whoever_and_how_many_are_beside_it() -> None:
    example = load_example()
    configs = draw(example, 20)
    alone = train_rounds(example, [0, 1], configs[:2])
    for seeds in ([0, 1, 2], [0, 1, *range(50, 56)], list(range(20))):
        mixed = [*configs[:2], *reversed(configs[2:])][: len(seeds)]
        assert all(map(np.array_equal, alone, train_rounds(example, seeds, mixed)))
    assert not all(map(np.array_equal, alone, train_rounds(example, [2, 1], configs[:2])))


# Histories


def with_weights(example: ModuleType) -> Any:
    """Return agents that report a sum of their weights: a history shows the last bit, where a mean return would not."""

    class Agents(example.Agents):  # type: ignore[misc, name-defined]
        def train(self, configs: list[dict[str, Any]]) -> Any:
            outcomes = super().train(configs)
            matrices = [np.asarray(matrix, float) for matrix, _ in self.members.weights]
            sums = [sum(float(matrix[member].sum()) for matrix in matrices) for member in range(len(configs))]
            return [replace(o, metrics={"weights": each}) for o, each in zip(outcomes, sums, strict=True)]

    return Agents


def tune_four(example: ModuleType, agent: Any, directory: Path, engine: str = "batched") -> list[Any]:
    settings: dict[str, Any] = {"population": 4, "rounds": 4, "method": "pbt", "seed": 0, "progress": False}
    history = tune(agent, example.SPACE, directory=directory, engine=engine, **settings).history
    assert any(o.parent is not None and o.parent[0] != o.member for o in history)
    return list(history)


def test_a_history_is_the_same_alone_and_in_the_company_of_252_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = load_example(WIDTH=256, EPISODES=2, LIMIT=20, UPDATES=1)
    others, sizes, train_members = draw(example, 252), [], example.train_members
    Agents = with_weights(example)

    class InCompany(Agents):  # type: ignore[misc, valid-type]
        """Four members that train in the program of 252 others."""

        def __init__(self, seeds: list[int]):
            super().__init__([*seeds, *range(1000, 1252)])

        def train(self, configs: list[dict[str, Any]]) -> Any:
            return super().train([*configs, *others])[:4]

        def applied(self) -> list[dict[str, Any]]:
            return super().applied()[:4]

        def assigned(self, keys: list[tuple[int, int]]) -> None:
            super().assigned([*keys, *((member, keys[0][1]) for member in range(4, 256))])

        def copy(self, sources: list[int]) -> None:
            super().copy([*sources, *range(4, 256)])

    def counted(members: Any, config: Any) -> Any:
        sizes.append(len(np.unique(members.key, axis=0)))
        return train_members(members, config)

    monkeypatch.setattr(example, "train_members", counted)
    alone = tune_four(example, Agents, tmp_path / "alone")
    assert sizes == [4] * 4
    sizes.clear()
    assert tune_four(example, InCompany, tmp_path / "in company") == alone
    assert sizes == [256] * 4


def test_a_history_is_the_same_one_by_one_and_as_a_batch(tmp_path: Path) -> None:
    example = load_example()
    Agents = with_weights(example)

    class Agent:
        """One member, with no other beside it."""

        def __init__(self, seed: int):
            self.agents = Agents([seed])

        def train(self, config: dict[str, Any]) -> Any:
            return self.agents.train([config])[0]

        def applied(self) -> dict[str, Any]:
            (config,) = self.agents.applied()
            return dict(config)

        def assigned(self, member: int, round: int) -> None:
            self.agents.assigned([(member, round)])

        def save(self, directory: Path) -> None:
            self.agents.save(0, directory)

        def load(self, directory: Path) -> None:
            self.agents.load(0, directory)

    batch = tune_four(example, Agents, tmp_path / "a batch")
    assert tune_four(example, Agent, tmp_path / "one by one", engine="in-process") == batch


# The program


def test_copies_draw_random_numbers_of_their_own() -> None:
    example = load_example()
    agents = example.Agents([1, 2, 3, 4])
    agents.copy([0, 0, 0, 3])
    agents.assigned([(0, 1), (1, 1), (1, 1), (3, 1)])
    agents.train([example.START] * 4)
    first, second, third, _ = np.asarray(agents.members.games[0])
    assert not np.array_equal(first, second)
    assert np.array_equal(second, third)


def test_a_new_configuration_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    example = load_example(UPDATES=3)  # of which nothing is compiled yet
    traces, update = [], example.update

    def counted(*given: Any) -> Any:
        traces.append(given)
        return update(*given)

    monkeypatch.setattr(example, "update", counted)
    agents = example.Agents([0, 1, 2, 3])
    agents.train([example.START] * 4)
    assert traces
    traces.clear()
    for config in draw(example, 6):
        agents.assigned([(member, 1) for member in range(4)])
        agents.train([config] * 4)
        assert [used["activation"] for used in agents.applied()] == [config["activation"]] * 4
    agents.copy([1, 1, 2, 0])
    agents.reset(3, 7)
    agents.train([example.START | {"lr": 0.01}] * 4)
    assert traces == []


def test_256_members_train_in_one_program(tmp_path: Path) -> None:
    example = load_example(WIDTH=256, EPISODES=2, LIMIT=20, UPDATES=1)
    result = tune(
        example.Agents, example.SPACE, population=256, rounds=2, directory=tmp_path, engine="batched", progress=False
    )
    assert result.done
    assert sum(not o.failed for o in result.history) == 512


# Kills


def begin_or_resume(directory: Path, kill_at: int | None = None) -> History:
    example = load_example()
    saves = 0

    class Agents(example.Agents):  # type: ignore[misc, name-defined]
        """Agents of whom the n-th save kills this process."""

        def save(self, member: int, directory: Path) -> None:
            nonlocal saves
            saves += 1
            if saves == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            super().save(member, directory)

    try:
        return resume(directory, agent=Agents, progress=False).history
    except HistoryError:  # There is no run yet.
        settings: dict[str, Any] = {"population": 4, "rounds": 4, "method": "pbt", "progress": False}
        return tune(Agents, example.SPACE, directory=directory, engine="batched", **settings).history


def test_a_run_that_is_killed_in_the_middle_of_a_round_resumes_with_nothing_lost(tmp_path: Path) -> None:
    def play(kill_at: int | None) -> int:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        if kill_at is not None:
            environment["KILL_AT_SAVE"] = str(kill_at)
        command = [sys.executable, "-m", "tests.engines.test_jax_example", str(tmp_path / "killed")]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode

    known = []
    for _ in range(2):  # The second kill hits a run that was resumed.
        assert play(kill_at=7) == -signal.SIGKILL
        known.append(len(History.load(tmp_path / "killed")))
    assert known[0] < known[1] < 16
    assert play(kill_at=None) == 0
    whole = begin_or_resume(tmp_path / "whole")
    assert any(o.parent is not None and o.parent[0] != o.member for o in whole)
    assert list(History.load(tmp_path / "killed")) == list(whole)


def test_the_winning_schedule_can_be_replayed(tmp_path: Path) -> None:
    example = load_example()
    settings: dict[str, Any] = {"population": 4, "rounds": 4, "method": "pbt", "progress": False}
    tune(example.Agents, example.SPACE, directory=tmp_path, engine="batched", **settings)
    again = replay(tmp_path, agent=example.Agents)
    assert again.scores == tuple(o.score for o in again.recorded)


# The script


def test_the_script_learns_and_says_where_it_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_script(SCRIPT, tmp_path)
    out = capsys.readouterr().out
    found = re.search(r"The best agent balances the pole for (\d+) of 500 steps", out)
    assert found is not None
    assert int(found[1]) > 400
    kept = re.search(r"Everything is in (\S+), the best agent in (\S+)\.$", out, re.MULTILINE)
    assert kept is not None
    assert len(History.load(tmp_path / kept[1])) == 64
    assert any((tmp_path / kept[2]).iterdir())


def test_the_script_times_one_program_beside_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_script(SCRIPT, tmp_path, "--time", "2")
    speeds = re.findall(r"^2 members in (one program|a loop): ([\d,]+) steps/s on \S", capsys.readouterr().out, re.M)
    assert [name for name, _ in speeds] == ["one program", "a loop"]
    assert all(int(speed.replace(",", "")) > 0 for _, speed in speeds)


if __name__ == "__main__":
    at = os.environ.get("KILL_AT_SAVE")
    begin_or_resume(Path(sys.argv[1]), None if at is None else int(at))
