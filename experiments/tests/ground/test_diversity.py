"""Diversity on the ground: as spelled, in company as alone, at equal steps, and in a table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.tests.ground.climbers import Track, ground
from experiments.tests.ground.test_ground import play
from experiments.tests.ground.test_tables import runs
from popbandits.agent import Outcome
from popbandits.population import Population
from popbandits_experiments.batched.device import DeviceWorld
from popbandits_experiments.batched.ppo import SHARED_STATES, BatchedPPO, Settings
from popbandits_experiments.batched.spaces import DEFAULTS
from popbandits_experiments.batched.tasks import TASKS
from popbandits_experiments.ground.__main__ import main
from popbandits_experiments.ground.deciding import MEMBERS
from popbandits_experiments.ground.grounds import GROUNDS, Agents, Ground
from popbandits_experiments.ground.methods import find
from popbandits_experiments.ground.records import append, read
from popbandits_experiments.ground.sitting import Batch
from popbandits_experiments.methods import Diverse
from popbandits_experiments.methods.diverse import BEHAVIOUR

TINY = Settings(copies=4, rollout=8, updates=1, episodes=2, hidden=8)
WORLD = DeviceWorld(TASKS["Detour"])
ROUNDS = 3


def tiny(built: list[Agents]) -> Ground:
    """Make the detour with tiny agents, which are remembered."""

    def make(seeds: Sequence[int], updates: int, device: str) -> Agents:
        built.append(BatchedPPO(seeds, WORLD, replace(TINY, updates=updates)))
        return built[-1]

    return replace(GROUNDS["Detour"], updates=ROUNDS, make=make)


def test_a_population_in_a_batch_makes_the_history_that_it_makes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[list[float]] = []
    train = BatchedPPO.train

    def remembered(self: BatchedPPO, configs: Sequence[Mapping[str, Any]]) -> list[Outcome]:
        outcomes = train(self, configs)
        rounds.append([outcome.score for outcome in outcomes])
        return outcomes

    monkeypatch.setattr(BatchedPPO, "train", remembered)
    place, method = tiny([]), "pbt/diverse"
    records = play(Batch(place, "wide", ROUNDS, (method,), range(5, 7), "development"))
    way = find(method)
    together = list(rounds)
    copied = False
    for index, record in enumerate(records):
        seed = record.seed
        rounds.clear()
        agents = place.make([MEMBERS * seed + m for m in range(MEMBERS)], 1, "cpu")
        population = Population(
            place.spaces["wide"](), way.make(), MEMBERS, ROUNDS, seed, selection=way.make_selection(), start="random"
        )
        while not population.done:
            asked = sorted(population.ask(), key=lambda a: a.member)
            sources = [a.member if a.parent is None else a.parent[0] for a in asked]
            copied |= sources != list(range(MEMBERS))
            agents.copy(sources)
            agents.assigned([(a.member, a.round + 1) for a in asked])
            outcomes = agents.train([a.config for a in asked])
            assert isinstance(agents, BatchedPPO)
            behaviours = agents.behaviours(MEMBERS)
            for a, outcome in zip(asked, outcomes, strict=True):
                population.tell(a, outcome.score, metrics={BEHAVIOUR: behaviours[a.member]})
        own = slice(MEMBERS * index, MEMBERS * (index + 1))
        assert len(rounds) == len(together) == ROUNDS
        for alone, batch in zip(rounds, together, strict=True):
            assert alone == pytest.approx(batch[own], rel=1e-5)
        assert record.curve[-1] == pytest.approx(max(rounds[-1]), rel=1e-5)
    assert copied


def test_diversity_trains_in_one_program_with_the_others_at_equal_steps_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Agents] = []
    monkeypatch.setitem(GROUNDS, "Detour", tiny(built))
    methods = ["pbt", "pbt/diverse", "pbt/diverse:shuffled=true"]
    command = ["run", "--tasks", "Detour", "--rounds", str(ROUNDS), "--seeds", "0-2", "--device", "cpu"]
    command += ["--workers", "1", "--results", str(tmp_path), "--methods", *methods]
    assert main(command) == 0
    assert len(built) == 1
    records = read(tmp_path)
    assert {(record.method, record.seed) for record in records} == {(m, seed) for m in methods for seed in range(2)}
    assert {(record.steps, record.intervals) for record in records} == {(ROUNDS * 1024, MEMBERS * ROUNDS)}
    assert main(command) == 0
    assert len(built) == 1  # What is stored is not run again.


def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(GROUNDS, "Pendulum", ground(Track()))
    command = ["run", "--tasks", "Pendulum", "--seeds", "0-1", "--device", "cpu", "--workers", "1"]
    assert main([*command, "--results", str(tmp_path), "--methods", "pbt/diverse"]) == 1
    assert "behaviours can be compared only on tasks of PPO, got Pendulum" in capsys.readouterr().err


def test_settings_of_a_selection_can_be_spelled() -> None:
    assert find("pbt/diverse").make_selection() == Diverse()
    assert find("pbt/diverse:weight=0.25").make_selection() == Diverse(weight=0.25)


@pytest.mark.parametrize("task", ["Detour", "CartPole-v1"])
def test_behaviours_are_what_members_do_on_the_states_of_their_population(task: str) -> None:
    agents = BatchedPPO(range(6), DeviceWorld(TASKS[task]), TINY)
    agents.train([{**DEFAULTS, "lr": 0.05, "minibatches": 4}] * 6)
    found = agents.behaviours(3)
    each = torch.linspace(0, TINY.copies * TINY.rollout - 1, -(-SHARED_STATES // 3)).long()
    for member, behaviour in enumerate(found):
        states = []
        for other in range(member - member % 3, member - member % 3 + 3):
            states.append(agents.rollout.observations[other].flatten(0, 1)[each])
        seen = agents.brains.see(torch.cat(states).expand(6, -1, -1))[member]
        own = [weight[member] for weight in agents.brains.weights]
        out = ((seen @ own[0] + own[1]).tanh() @ own[2] + own[3]).tanh() @ own[4] + own[5]
        out = out.softmax(-1) if task == "CartPole-v1" else out.clamp(-1, 1)
        torch.testing.assert_close(torch.tensor(behaviour), out.flatten().detach(), rtol=1e-4, atol=1e-5)
    assert max(abs(a - b) for a, b in zip(found[0], found[1], strict=True)) > 1e-3


def test_a_member_that_diverged_tells_no_behaviour_and_spoils_no_others() -> None:
    agents = BatchedPPO(range(2), WORLD, TINY)
    agents.state["weights"][1] = float("nan")
    agents.train([{**DEFAULTS, "minibatches": 4}] * 2)
    sound, ill = (torch.tensor(each) for each in agents.behaviours(2))
    assert sound.isfinite().all()
    assert not ill.isfinite().any()


def test_arms_are_compared_on_the_same_seeds_with_their_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(runs("pbt", lambda seed: 0.4 + 0.01 * seed), tmp_path)
    append(runs("pbt/diverse", lambda seed: 0.6 + 0.01 * seed, seeds=range(9), seconds=5.0), tmp_path)
    for method, level in (("pbt", 0.5), ("pbt/diverse", 0.1)):
        append(runs(method, lambda seed, level=level: level, task="CartPole"), tmp_path)
    assert main(["arms", "--results", str(tmp_path)]) == 0
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if "apart" in line]
    cartpole, pendulum, both = lines
    assert pendulum[2:] == ["-574", "-779", "205 [205, 205]", "**1.00 [0.63, 1.00]** (8)", "0%", "0%", "2.50 x"]
    assert cartpole[4:] == ["-181 [-181, -181]", "*0.00 [0.00, 0.37]* (8)", "100%", "0%", "1.00 x"]
    assert both[2:] == ["0.37", "0.47", "-0.10 [-0.10, -0.10]", "0.50 [0.50, 0.50] (16)", "50%", "0%", "1.75 x"]


def test_arms_need_their_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(runs("pbt/diverse", lambda seed: 0.5), tmp_path)
    assert main(["arms", "--results", str(tmp_path)]) == 1
    assert "--baseline must be among the selected methods, got 'pbt'" in capsys.readouterr().err
