"""Truncation that keeps behaviours apart: its determinants, who is replaced, and runs on every engine, killed too."""

import math
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popbandits.agent import Outcome
from popbandits.errors import ArgumentError
from popbandits.explorers import PBT
from popbandits.history import History, Observation
from popbandits.population import Population
from popbandits.run import resume, tune
from popbandits.selection import Selection, Truncation
from popbandits.views.view import View
from popbandits_experiments.contracts.selections import RANDOM_HISTORIES
from popbandits_experiments.methods import Diverse
from popbandits_experiments.methods.diverse import BEHAVIOUR, novelty
from tests.engines.agents import Walker, space
from tests.engines.batches import together
from tests.engines.test_engines import ENGINES
from tests.processes import in_a_child, run_script
from tests.test_docs import blocks

Behave = Callable[[int, int], list[float] | None]
"""Behaviour of a member in a round."""


def play(
    selection: Selection, rounds: int, score: Callable[[int, int], float], behave: Behave, size: int = 4
) -> History:
    population = Population({"lr": (0.0, 1.0)}, PBT(), size=size, rounds=rounds, seed=5, selection=selection)
    while not population.done:
        for assignment in population.ask():
            behaviour = behave(*assignment.key)
            metrics = {} if behaviour is None else {BEHAVIOUR: behaviour}
            population.tell(assignment, score(*assignment.key), metrics=metrics)
    return population.history


def replaced(
    selection: Selection, scores: Sequence[float], behaviours: Sequence[list[float] | None]
) -> dict[int, int | None]:
    """Return the members that are replaced after one round, and whose weights they load."""
    history = play(selection, 2, lambda m, _: scores[m], lambda m, _: behaviours[m], len(scores))
    sources = {o.member: o.parent and o.parent[0] for o in history if o.round == 1}
    return {member: source for member, source in sources.items() if source != member}


def test_novelty_is_the_ratio_of_determinants() -> None:
    rng = np.random.default_rng(1)
    behaviours, length = rng.uniform(-1, 1, (5, 6)), 0.7
    kernel = np.empty((5, 5))
    for i in range(5):
        for j in range(5):
            square = sum((a - b) ** 2 for a, b in zip(behaviours[i], behaviours[j], strict=True)) / 6
            kernel[i, j] = math.exp(-square / (2 * length**2)) + 1e-6 * (i == j)
    for i in range(5):
        rest = [j for j in range(5) if j != i]
        expected = np.linalg.det(kernel) / np.linalg.det(kernel[np.ix_(rest, rest)])
        assert novelty(behaviours, length)[i] == pytest.approx(expected, rel=1e-6)


APART = [[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]]


def test_the_copy_of_a_behaviour_is_replaced_before_a_worse_member_that_behaves_otherwise() -> None:
    alike = [APART[0], APART[1], APART[0], APART[3]]
    scores = [4.0, 3.0, 2.0, 1.0]
    assert replaced(Truncation(), scores, alike) == {3: 0}
    assert replaced(Diverse(length=0.5), scores, alike) == {2: 0}


def test_if_all_behave_otherwise_or_alike_it_is_truncation() -> None:
    scores = [2.0, 1.0, 4.0, 3.0]
    assert replaced(Diverse(length=0.1), scores, APART) == {1: 2}
    assert replaced(Diverse(), scores, [APART[0]] * 4) == {1: 2}


def test_the_best_is_never_replaced_though_others_behave_as_it_does() -> None:
    behaviours = [APART[0], APART[0], APART[1], APART[2]]
    assert replaced(Diverse(weight=1.0, length=0.1), [9.0, 8.0, 1.0, 2.0], behaviours) == {1: 0}


def test_of_many_the_second_is_chosen_without_the_first() -> None:
    # Members 4 to 6 are copies of one behaviour; two of them go, and the last of them is new again.
    alone = [[float(m == k) * 9 for k in range(8)] for m in range(8)]
    behaviours = [alone[4] if m in (5, 6) else alone[m] for m in range(8)]
    found = replaced(Diverse(length=0.2), [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], behaviours)
    assert set(found) == {5, 6}
    assert set(found.values()) <= {0, 1}


def test_a_member_that_failed_is_always_replaced() -> None:
    found = replaced(Diverse(), [4.0, 3.0, math.nan, 1.0], [APART[0], APART[0], None, APART[3]])
    assert found[2] == 0
    assert 0 not in found


def test_shuffled_behaviours_spare_members_whoever_they_are() -> None:
    # Two of four behave alike; which two is drawn, so any but the best can be replaced.
    alike = [APART[0], APART[1], APART[0], APART[3]]
    history = play(Diverse(shuffled=True), 60, lambda m, _: 4.0 - m, lambda m, _: alike[m])
    moved = [o.member for o in history if o.parent is not None and o.parent[0] != o.member]
    assert len(moved) == 59
    assert {m: moved.count(m) > 5 for m in range(4)} == {0: False, 1: True, 2: True, 3: True}
    assert 0 not in moved
    plain = play(Diverse(), 60, lambda m, _: 4.0 - m, lambda m, _: alike[m])
    assert {o.member for o in plain if o.parent is not None and o.parent[0] != o.member} == {2}


def wander(member: int, round_: int) -> list[float]:
    return np.random.default_rng([member, round_]).uniform(-1, 1, 4).tolist()


def climb(member: int, round_: int) -> float:
    return round_ + float(np.random.default_rng([member, round_, 7]).normal())


def lose(member: int, round_: int) -> list[float] | None:
    return wander(member, round_) if member else None


def parents(selection: Selection, behave: Behave) -> list[Any]:
    return [o.parent for o in play(selection, 12, climb, behave, size=6)]


@pytest.mark.parametrize(
    ("selection", "behave"),
    [(Diverse(0.5, weight=0.0), wander), (Diverse(0.5), lambda m, r: None), (Diverse(0.5), lose)],
    ids=["without weight", "without behaviours", "with one missing"],
)
def test_it_is_truncation(selection: Diverse, behave: Behave) -> None:
    assert parents(selection, behave) == parents(Truncation(0.5), behave)
    assert parents(Diverse(0.5), wander) != parents(Truncation(0.5), wander)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"quantile": 0.6}, "quantile must be above 0 and at most 0.5, got 0.6"),
        ({"weight": 1.5}, "weight must be a probability between 0 and 1, got 1.5"),
        ({"length": 0.0}, "length must be above 0, got 0.0; 0.5 is usual"),
        ({"shuffled": 1}, "shuffled must be True or False, got 1"),
    ],
)
def test_a_wrong_setting_is_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Diverse(**setting)


@pytest.mark.parametrize("name", ["behaviours", "behaviours, some failures"])
def test_the_contract_suite_tries_it_with_behaviours_that_count(name: str) -> None:
    history, members = RANDOM_HISTORIES[name].build(), np.arange(6)
    picks = [
        selection.select(history, members, np.random.default_rng(0)).weights.tolist()
        for selection in (Diverse(0.5), Truncation(0.5))
    ]
    assert picks[0] != picks[1]


DIVERSE = Diverse(0.5, length=0.1)
STATES = np.random.default_rng(0).normal(size=(8, 4))


class Behaving(Walker):
    """Tells what it does on states that are the same for all members."""

    def train(self, config: dict[str, Any]) -> Outcome:
        outcome = super().train(config)
        assert isinstance(outcome, Outcome)
        return Outcome(outcome.score, outcome.steps, {BEHAVIOUR: np.tanh(STATES @ self.weights).tolist()})


class Kill(View):
    """Kills the run after some observations, in the middle of a round."""

    def __init__(self, after: int):
        self.after = after

    def told(self, observation: Observation) -> None:
        self.after -= 1
        if self.after == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def agent_on(engine: str) -> Any:
    return together(Behaving) if engine == "batched" else Behaving


def tuned(directory: Path, engine: Any, progress: Any = False, selection: Selection = DIVERSE) -> History:
    settings: dict[str, Any] = {"population": 6, "rounds": 5, "progress": progress, "selection": selection}
    return tune(agent_on(engine), space(), PBT(), directory=directory, engine=engine, **settings).history


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A run in peace, in which behaviours decide."""
    folder = tmp_path_factory.mktemp("whole")
    history = tuned(folder / "diverse", "in-process")
    assert history != tuned(folder / "plain", "in-process", selection=Truncation(0.5))
    return history


@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_run_goes_on_to_the_same_history_on_every_engine(engine: str, whole: History, tmp_path: Path) -> None:
    child = in_a_child(partial(tuned, tmp_path, engine, Kill(after=15)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert 0 < len(History.load(tmp_path)) <= 15
    assert resume(tmp_path, agent=agent_on(engine), progress=False).history == whole


def test_the_example_of_the_docs_prints_what_they_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("sharing.md", "python")
    (script := tmp_path / "example.py").write_text(code)
    run_script(script, tmp_path)
    assert [capsys.readouterr().out] == blocks("sharing.md", "text")
