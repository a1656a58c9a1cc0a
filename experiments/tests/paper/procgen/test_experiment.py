"""The paper's experiment from the command line, on a real game, as small as it can be."""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.tests.paper.procgen.narrow import narrow
from popbandits import Experiment, History, NearPBT, PB2Mix, RandomSearch, Truncation
from popbandits.agent import Outcome
from popbandits.cli import main
from popbandits.errors import AgentError, ArgumentError
from popbandits.run import run as start
from popbandits.run.recipes import address, prepare, recipe
from popbandits.space import Space
from popbandits.storage import Store
from popbandits_experiments import agents
from popbandits_experiments.paper.commands.procgen import Preset
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS
from popbandits_experiments.paper.procgen.methods import PUBLISHED, parse_steps
from popbandits_experiments.paper.procgen.tables import OLD_DEFAULTS
from popbandits_experiments.paper.procgen.task import SPACE, Examined, Task, published_values

# Episodes of bossfight are short while nothing is known about the game.
TINY = Preset(
    population=2,
    steps=256,
    interval=128,
    agents={"environments": 4, "steps": 16, "epochs": 1, "minibatches": 2, "episodes": 1, "test_every": 10},
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("popbandits_experiments.paper.commands.procgen.QUICK", TINY)
    narrow(monkeypatch.setattr)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(output: Path, *arguments: str) -> int:
    given = ["--quick", "--game", "bossfight", "--device", "cpu", *arguments, "-o", str(output)]
    return main(["procgen", *given])


def observed(directory: Path) -> list[tuple[Any, ...]]:
    """By member and round: which of two threads is done first may differ."""
    return sorted(
        (o.key, o.parent, dict(o.config), o.score, o.steps, {name: repr(value) for name, value in o.metrics.items()})
        for o in History.load(directory)
    )


def test_a_population_is_tuned_on_a_real_game_and_goes_on_as_it_was_begun_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "whole"
    assert run(whole, "--methods", "pb2-mix", "ppo") == 0
    out, err = capsys.readouterr()
    assert "| bossfight | PPO     | 1 × 256, 1 run |" in out
    assert "| bossfight | PB2-Mix | 2 × 256, 1 run |" in out
    assert "(2 of 2): " in err
    assert "steps/s in all" in err

    history = History.load(whole / "bossfight" / "pb2-mix" / "0")
    assert [o.status for o in history] == ["completed"] * 4
    assert all(o.config["augmentation"] in AUGMENTATIONS and o.steps == 128 for o in history)
    assert [{"train_return", "test_return"} <= set(o.metrics) for o in history] == [False, False, True, True]
    alone = History.load(whole / "bossfight" / "ppo" / "0")
    assert [dict(o.config) for o in alone] == [{name: PUBLISHED[name] for name in ("lr", "clip", "entropy")}] * 2

    pieces = tmp_path / "pieces"
    assert run(pieces, "--method", "pb2-mix", "--time-limit", "0.001") == 130
    assert "Not all runs are finished; run the same command to resume." in capsys.readouterr().out
    assert len(History.load(pieces / "bossfight" / "pb2-mix" / "0")) == 2
    assert main(["procgen", "--table", str(pieces)]) == 0
    assert "pb2-mix/0, stopped, 1 of 2 rounds" in capsys.readouterr().out
    with Store.open(pieces / "bossfight/pb2-mix/0") as store:  # As before scale and start could be chosen.
        agent = store.about["agent"]
        old = {name: value for name, value in agent["settings"].items() if name not in OLD_DEFAULTS}
        store.describe(agent=agent | {"settings": old}, start=[])
    for other, refused in (
        (("--lr-scale", "log"), "got space.lr 'float [1e-05, 0.001] log' for"),
        (("--start", "defaults"), "got start [{'alpha': 0.1, 'augmentation': 'crop', "),
        (("--difficulty", "hard"), "got difficulty 'hard' for"),
    ):
        assert run(pieces, "--method", "pb2-mix", *other) == 1
        assert refused in capsys.readouterr().err
    assert run(pieces, "--method", "pb2-mix") == 0
    assert "| bossfight | PB2-Mix | 2 × 256, 1 run |" in capsys.readouterr().out
    assert observed(pieces / "bossfight/pb2-mix/0") == observed(whole / "bossfight/pb2-mix/0")

    assert run(pieces, "--method", "pb2-mix", "--interval", "64") == 1
    assert "got rounds 4 for" in capsys.readouterr().err


def test_members_are_selected_on_levels_apart_if_asked_to(tmp_path: Path) -> None:
    assert run(tmp_path, "--method", "ppo", "--difficulty", "hard", "--select-on", "validation") == 0
    for one in History.load(tmp_path / "bossfight/ppo/0"):
        assert one.score == one.metrics["validation_return"]


class NarrowTask(Task):
    """A task whose agents have few channels in every process that makes one."""

    def __call__(self, seed: int) -> Examined:
        narrow()
        return super().__call__(seed)


@pytest.mark.slow  # The contract suite of the engines holds it for small agents.
def test_every_engine_comes_to_the_same_history(tmp_path: Path) -> None:
    task = NarrowTask("bossfight", "ppo", 2, interval=128, **TINY.agents)
    space = {name: SPACE[name] for name in published_values("ppo")}
    experiment = Experiment(task, space, PB2Mix(), population=2, rounds=2)
    engines = ("in-process", "threads", "processes")
    for engine in engines:
        start(replace(experiment, engine=engine, directory=tmp_path / engine))
    one, two, three = (observed(tmp_path / engine) for engine in engines)
    assert one == two == three
    places = [path.relative_to(tmp_path / "in-process") for path in (tmp_path / "in-process").rglob("learner.pt")]
    assert len(places) == 2
    for place in places:
        assert len({(tmp_path / engine / place).read_bytes() for engine in engines}) == 1


def test_an_interval_without_an_episode_says_so(tmp_path: Path) -> None:
    task = Task("coinrun", "ppo", 1, interval=64, **TINY.agents)
    with pytest.raises(AgentError, match="long enough for an episode of coinrun to end, got 64 steps in 4 environ"):
        task(0).train(published_values("ppo"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--game", "tetris"], "game: unknown name 'tetris'; choose from bigfish, "),
        (["--method", "pb3"], "method: unknown name 'pb3'; choose from ppo, drac, ucb-drac, pbt, "),
        (["--steps", "1M", "--interval", "300k"], "steps must be a multiple of the interval, 300000, got 1000000"),
        (["--steps", "many"], "steps must be a whole number of at least 1, got 'many'; write 25M, 500k or 2048"),
        (["--device", "cpu", "--precision", "bfloat16"], "precision 'bfloat16' needs a GPU, got device 'cpu'"),
        (["--population", "0"], "population must be at least 1, got 0"),
        (["--device", "gpu"], "device must be cpu, cuda or cuda:N, got 'gpu'"),
        (["--device", "meta"], "device must be cpu, cuda or cuda:N, got 'meta'"),
        (["--steps", "20k", "--interval", "10k"], "interval must be at least a rollout, 64 environments × 256 steps"),
        (["--levels", "replay", "--methods", "drac", "pbt"], "add --select-on validation for pbt"),
        (["--at-a-time", "0"], "--at-a-time must be at least 1, got 0"),
        (["--method", "ppo", "--set", "alpha=0.2"], "ppo has the hyperparameters lr, clip, entropy, got 'alpha'"),
        (["--method", "drac", "--set", "clip=0.6"], "must be in the ranges that populations tune: 'clip'"),
        (["--method", "drac", "--set", "clip=wide"], "must be in the ranges that populations tune: 'clip'"),
        (["--method", "drac", "--set", "augmentation=blur"], "ranges that populations tune: 'augmentation'"),
        (["--method", "drac", "--set", "clip"], "--set: must be NAME=VALUE, such as clip=0.45, got 'clip'"),
        (["--method", "drac", "pbt", "--set", "clip=0.3"], "--set is for agents alone (ppo, drac, ucb-drac), got pbt"),
        (["--method", "ppo", "--population", "4"], "--population is for populations, got 4 for ppo, which train alone"),
        (["--time-limit", "0"], "--time-limit: must be above 0 seconds, got '0'; leave it out for no limit"),
        (["--time-limit", "soon"], "--time-limit: must be above 0 seconds, got 'soon'"),
    ],
)
def test_what_cannot_run_is_said_before_anything_is_written(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("popbandits_experiments.paper.grid.run_grid", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(SystemExit) as caught:
        main(["procgen", *arguments, "-o", str(tmp_path / "out")])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_gpu_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        main(["procgen", "--device", "cuda", "-o", str(tmp_path)])
    assert "device must exist, got 'cuda', but torch sees 0 GPUs; use --device cpu" in capsys.readouterr().err


def test_gpus_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(SystemExit):
        main(["procgen", "--device", "cuda:2", "-o", str(tmp_path)])
    assert "device must exist, got 'cuda:2', but torch sees 2 GPUs" in capsys.readouterr().err


def test_a_gpu_is_told_its_number_of_queues_by_the_first_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA reads the number when it is first used, also to count devices: a command that does so comes later."""
    number = "CUDA_DEVICE_MAX_CONNECTIONS"
    for before, expected in ((None, "32"), ("8", "8")):
        monkeypatch.setenv(number, before) if before else monkeypatch.delenv(number, raising=False)
        importlib.reload(importlib.import_module("popbandits_experiments.paper.procgen"))
        assert os.environ[number] == expected


def planned(arguments: list[str], output: Path, monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    """Return the runs that a command would do."""
    found: list[Experiment] = []

    def run_grid(experiments: list[Experiment], *rest: Any, **how: Any) -> bool:
        found.extend(experiments)
        return False

    monkeypatch.setattr("popbandits_experiments.paper.grid.run_grid", run_grid)
    assert main(["procgen", "--device", "cpu", *arguments, "-o", str(output)]) == 130
    return found


def test_the_published_budget_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = ["--games", "bigfish", "leaper", "--methods", "pb2-mix", "drac", "--seeds", "0", "1"]
    runs = planned(given, tmp_path, monkeypatch)
    assert [str(Path(str(one.directory)).relative_to(tmp_path)) for one in runs[:5]] == [
        *("bigfish/pb2-mix/0", "bigfish/drac/0", "leaper/pb2-mix/0", "leaper/drac/0", "bigfish/pb2-mix/1")
    ]
    mix, drac = runs[:2]
    assert isinstance(mix.agent, Task)
    assert (mix.population, mix.rounds, mix.agent.interval, mix.agent.rounds) == (4, 50, 500_000, 50)
    assert (drac.population, drac.rounds, drac.space) == (1, 50, dict(PUBLISHED))
    assert mix.space == dict(SPACE)
    sizes = mix.agent.settings().sizes
    assert (sizes.environments, sizes.steps, sizes.epochs, sizes.minibatches) == (64, 256, 3, 8)


def test_the_default_runs_as_everywhere_and_a_start_is_the_published_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, alone = planned(["--methods", "near-pbt", "ppo"], tmp_path, monkeypatch)
    assert (near.name, near.method, near.start) == ("Near PBT", NearPBT(), None)
    assert near.plan.selection == Truncation()
    arguments = ["--methods", "near-pbt", "ppo", "--start", "defaults", "--lr-scale", "log"]
    started, same = planned(arguments, tmp_path, monkeypatch)
    assert started.make_population().ask()[0].config == PUBLISHED
    assert [(each.name, each.log) for each in Space(started.space).numerical] == [
        *(("alpha", False), ("clip", False), ("entropy", False), ("lr", True))
    ]
    assert same == alone  # Nothing is tuned, so nothing differs.


def test_models_can_be_fitted_as_the_published_code_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mix, alone = planned(["--methods", "pb2-mix", "ppo", "--continued-only"], tmp_path, monkeypatch)
    assert mix.method == PB2Mix(continued_only=True)
    assert alone.method == RandomSearch()
    (both,) = planned(["--continued-only", "--score-before"], tmp_path, monkeypatch)
    assert both.method == PB2Mix(continued_only=True, score_before=True)
    for option in ("--continued-only", "--score-before"):
        with pytest.raises(SystemExit):
            planned(["--methods", "pbt", option], tmp_path, monkeypatch)
        assert f"{option} is for methods with a model, got pbt" in capsys.readouterr().err


def test_an_agent_alone_can_have_values_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ["--set", "clip=0.45", "augmentation=flip"]
    (drac,) = planned(["--methods", "drac", *own], tmp_path, monkeypatch)
    assert drac.space == {**PUBLISHED, "clip": 0.45, "augmentation": "flip"}
    ppo, ucb = planned(["--methods", "ppo", "ucb-drac", "--set", "clip=0.45"], tmp_path, monkeypatch)
    assert ppo.space == {**published_values("ppo"), "clip": 0.45}
    assert ucb.space == {**published_values("ucb-drac"), "clip": 0.45}


def test_runs_that_train_at_the_same_time_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mix, drac = planned(["--methods", "pb2-mix", "drac", "--at-a-time", "3"], tmp_path, monkeypatch)
    assert isinstance(mix.agent, Task)
    assert isinstance(drac.agent, Task)
    assert (mix.agent.at_a_time, drac.agent.at_a_time) == (4, 3)  # The four of a population are never apart.


def test_levels_are_replayed_and_how_is_tuned_with_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--levels", "replay", "--select-on", "validation", "--start", "defaults"]
    tuned, alone = planned(["--methods", "patient-pbt", "ppo", *given], tmp_path, monkeypatch)
    published = {"temperature": 0.1, "staleness": 0.1}
    assert alone.space == published_values("ppo") | published
    assert tuned.start == [PUBLISHED | published]
    added = {
        each.name: (each.lower, each.upper, each.log) for each in Space(tuned.space).numerical if each.name in published
    }
    assert added == {"temperature": (0.05, 2.0, True), "staleness": (0.0, 1.0, False)}
    assert all(isinstance(one.agent, Task) and one.agent.settings().levels == "replay" for one in (tuned, alone))


@pytest.mark.slow  # An agent that replays levels goes on bit for bit in a case that is always run.
def test_a_population_that_replays_levels_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--method", "pbt", "--levels", "replay", "--select-on", "validation"]
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert run(whole, *given) == 0
    assert ", prioritised level replay" in capsys.readouterr().out
    assert run(pieces, *given, "--time-limit", "0.001") == 130
    assert run(pieces, "--method", "pbt", "--select-on", "validation") == 1
    assert "levels 'uniform' for" in capsys.readouterr().err
    assert run(pieces, *given) == 0
    assert observed(pieces / "bossfight/pbt/0") == observed(whole / "bossfight/pbt/0")
    assert all({"temperature", "staleness"} < set(o.config) for o in History.load(whole / "bossfight/pbt/0"))


def test_a_run_s_record_can_make_its_agents_again() -> None:
    task = Task("leaper", "ucb-drac", 3, **TINY.agents)
    made = recipe(task)
    assert made is not None
    assert prepare(made, "agent") == task


def test_the_agents_that_any_record_may_name_are_where_it_says() -> None:
    assert {("make", address(Task))} == agents.AGENTS


@pytest.mark.parametrize("package", ["popbandits.rl.procgen", "popbandits.paper.procgen"])
def test_a_record_from_before_the_agents_moved_names_the_same_agents(package: str) -> None:
    task = Task("leaper", "ucb-drac", 3, **TINY.agents)
    made = recipe(task)
    assert made is not None
    assert prepare(made | {"make": f"{package}.task:Task"}, "agent") == task


@dataclass
class Player:
    """Stands for an agent: notes what it is tested on."""

    asked: list[int] = field(default_factory=list)
    closed: bool = False

    def close(self) -> None:
        self.closed = True

    def train(self, config: Mapping[str, Any]) -> Outcome:
        return Outcome(1.0, 100, {"training_return": 1.0})

    def evaluate(self, levels: Sequence[str], *, seed: int) -> dict[str, list[float]]:
        self.asked.append(seed)
        return {name: {"train": [1.0, 2.0], "test": [0.0, 1.0]}[name] for name in levels}

    def assigned(self, member: int, round_: int) -> None: ...

    def save(self, directory: Path) -> None: ...

    def load(self, directory: Path) -> None: ...


def test_agents_are_tested_now_and_then_and_last(tmp_path: Path) -> None:
    task = replace(Task("leaper", "ppo", 5), test_every=2)
    player, again = Player(), Player()
    agent, other = Examined(player, 7, task), Examined(again, 8, task)  # type: ignore[arg-type]
    outcomes = []
    for interval in range(5):
        outcomes.append(agent.train({}))
        if interval == 2:
            agent.save(tmp_path)
    assert [outcome.metrics.get("test_return") for outcome in outcomes] == [None, 0.5, None, 0.5, 0.5]
    assert outcomes[1].metrics == {"training_return": 1.0, "train_return": 1.5, "test_return": 0.5}
    assert len(set(player.asked)) == len(player.asked) == 3
    other.load(tmp_path)  # Whoever takes over is tested on what the first would have been.
    assert [other.train({}) for _ in range(2)] == outcomes[3:]
    assert again.asked == player.asked[1:]
    other.close()
    assert again.closed
    assert not player.closed


def test_an_interval_that_failed_delays_no_test() -> None:
    agent = Examined(Player(), 7, replace(Task("leaper", "ppo", 5), test_every=2))  # type: ignore[arg-type]
    tested = []
    for round_ in (0, 1, 3, 4):
        agent.assigned(0, round_)
        tested.append("test_return" in agent.train({}).metrics)
    assert tested == [False, True, True, True]


@pytest.mark.parametrize("text", ["", "M", "0", "-5k", "1.5", "0.0001k", "nan", "inf"])
def test_steps_are_whole_numbers_however_they_are_written(text: str) -> None:
    with pytest.raises(ArgumentError, match="steps must be a whole number of at least 1"):
        parse_steps(text)
