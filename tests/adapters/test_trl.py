"""Post-training with TRL as an agent: a low-rank adapter each, and one base in memory."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from popbandits import History, tune
from popbandits.errors import AgentError
from popbandits.testing import check_agent
from tests.adapters.checking import flawless, saved
from tests.processes import run_script

pytestmark = pytest.mark.integration
EXAMPLE = Path(__file__).parents[2] / "examples" / "trl_grpo.py"

SPACES: dict[str, dict[str, Any]] = {
    "grpo": {
        "learning_rate": (0.01, 0.1),
        "beta": (0.1, 2.0),
        "temperature": (0.5, 2.0),
        "epsilon": (0.001, 0.01),
        "max_grad_norm": (0.001, 0.01),
        "weight_decay": (0.1, 1.0),
        "num_generations": [2, 4, 8],
    },
    "sft": {"learning_rate": (0.01, 0.1), "max_grad_norm": (0.001, 0.01), "weight_decay": (0.1, 1.0)},
}
FIRST = {"learning_rate": 0.05, "beta": 0.5, "temperature": 1.0, "epsilon": 0.2, "max_grad_norm": 1.0}
SECOND = {"learning_rate": 0.02, "beta": 0.1, "temperature": 0.7, "epsilon": 0.1, "max_grad_norm": 0.5}


@pytest.fixture
def agents() -> Any:
    from tests.adapters import language_models  # `make test` collects this file without TRL.

    language_models.EMBEDDINGS.clear()
    return language_models


def weights_of(checkpoint: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(checkpoint / "adapter_model.safetensors")


@pytest.mark.parametrize("kind", SPACES)
def test_it_passes_the_check(kind: str, agents: Any) -> None:
    flawless(check_agent(getattr(agents, kind), SPACES[kind]))


@pytest.mark.parametrize("kind", SPACES)
def test_a_loaded_agent_goes_on_exactly_as_the_one_that_was_saved(kind: str, agents: Any, tmp_path: Path) -> None:
    config = {"learning_rate": 0.05, "weight_decay": 0.1}
    first, second = getattr(agents, kind)(0), getattr(agents, kind)(1)
    first.train(config)
    second.load(saved(first, tmp_path / "a"))
    outcomes = [agent.train(config) for agent in (first, second)]
    assert outcomes[0] == outcomes[1]
    trained, again = (weights_of(saved(agent, tmp_path / name)) for agent, name in ((first, "b"), (second, "c")))
    assert all(torch.equal(trained[name], again[name]) for name in trained)
    before = weights_of(tmp_path / "a")
    assert any(not torch.equal(trained[name], before[name]) for name in trained)


def test_new_hyperparameters_apply_after_a_load(agents: Any, tmp_path: Path) -> None:
    trainers: list[Any] = []

    def make_trainer(base: Any, arguments: Any) -> Any:
        trainers.append(agents.make_grpo(base, arguments))
        return trainers[-1]

    first, second = agents.grpo(0), agents.grpo(1, make_trainer)
    first.train(FIRST)
    second.load(saved(first, tmp_path / "a"))
    second.train(SECOND)
    assert second.applied() == SECOND
    [trainer] = trainers
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {0.02}
    assert (trainer.beta, trainer.temperature, trainer.epsilon_low, trainer.epsilon_high) == (0.1, 0.7, 0.1, 0.1)
    assert (trainer.generation_config.temperature, trainer.args.max_grad_norm) == (0.7, 0.5)
    assert trainer.state.global_step == 8  # It has gone on, and not begun again.


def test_a_trainer_that_ignores_its_arguments_is_noticed(agents: Any) -> None:
    def make_trainer(base: Any, arguments: Any) -> Any:
        trainer = agents.make_grpo(base, arguments)
        trainer.beta, trainer.generation_config.temperature = 0.3, 0.9
        return trainer

    agent = agents.grpo(0, make_trainer)
    agent.train(FIRST)
    assert agent.applied() == FIRST | {"beta": 0.3, "temperature": 0.9}


def test_a_checkpoint_holds_the_adapter_and_not_the_base(agents: Any, tmp_path: Path) -> None:
    agent = agents.grpo(0)
    agent.train(FIRST)
    checkpoint = saved(agent, tmp_path / "a")
    adapter = weights_of(checkpoint)
    assert len(adapter) == 4
    assert all("lora_" in name for name in adapter)
    assert list(checkpoint.rglob("*.safetensors")) == [checkpoint / "adapter_model.safetensors"]
    state = torch.load(checkpoint / "optimizer.pt", weights_only=True)["state"]
    assert sorted(each["exp_avg"].shape for each in state.values()) == sorted(each.shape for each in adapter.values())


@pytest.mark.filterwarnings("ignore:engine='threads' lets members share the global generator")
@pytest.mark.parametrize("engine", ["in-process", "threads"])
def test_members_share_one_base_that_nobody_changes(engine: Any, agents: Any, tmp_path: Path) -> None:
    from popbandits.adapters.trl import share_base

    base = share_base(agents.load_base)
    before = {name: weights.clone() for name, weights in base.state_dict().items()}
    tune(agents.grpo, SPACES["grpo"], population=2, rounds=2, engine=engine, directory=tmp_path, progress=False)
    at = base.get_input_embeddings().weight.data_ptr()
    assert [at] * 4 == agents.EMBEDDINGS
    assert agents.LOADED == 1
    after = share_base(agents.load_base).state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_a_trainer_does_to_its_modules_does_not_reach_other_members(agents: Any) -> None:
    from popbandits.adapters.trl import share_base

    agents.grpo(0).train(FIRST)
    names = [name for name, _ in share_base(agents.load_base).named_modules()]
    assert not any("lora" in name for name in names)
    assert "forward" not in vars(share_base(agents.load_base))  # TRL has replaced it, in the member's own.


@pytest.mark.parametrize(("kind", "name"), [("grpo", "lora_alpha"), ("grpo", "output_dir"), ("sft", "beta")])
def test_a_hyperparameter_that_cannot_be_changed_is_refused_with_a_list(kind: str, name: str, agents: Any) -> None:
    listed = "What can be tuned: .*learning_rate, max_grad_norm, .*weight_decay"
    with pytest.raises(AgentError, match=f"'{name}': with a .*Config this cannot be changed .*{listed}"):
        getattr(agents, kind)(0).train({"learning_rate": 0.1, name: 1})


@pytest.mark.parametrize("lora", [None, {"bias": "all"}])
def test_a_trainer_that_would_change_the_base_is_refused(lora: dict[str, Any] | None, agents: Any) -> None:
    from trl import GRPOTrainer

    def whole(base: Any, arguments: Any) -> Any:
        data = agents.Dataset.from_dict({"prompt": agents.PROMPTS})
        return GRPOTrainer(base, agents.reward, arguments, data, processing_class=agents.TOKENIZER)

    agent = agents.grpo(0, whole if lora is None else partial(agents.make_grpo, **lora))
    with pytest.raises(AgentError, match="make_trainer must train an adapter and leave the base as it is"):
        agent.train({"learning_rate": 0.1})


def test_a_score_can_be_a_function_of_the_trainer(agents: Any) -> None:
    agent = agents.grpo(0, score=lambda trainer: float(trainer.state.global_step))
    assert [agent.train(FIRST).score for _ in range(2)] == [4.0, 8.0]


def test_the_example_trains_a_population_and_says_where_it_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_script(EXAMPLE, tmp_path, "--rounds", "2", "--steps", "2")
    out = capsys.readouterr().out
    found = re.search(r"The best agent gets ([\d.]+)% right.*Everything is in (\S+), the best agent in", out, re.DOTALL)
    assert found is not None
    assert float(found[1]) > 20
    assert len(History.load(tmp_path / found[2])) == 8
