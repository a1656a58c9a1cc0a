"""rsl_rl, skrl and rl_games as agents: vectorised environments, and hyperparameters that a load does not bring back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from popbandits.engines.work import differences
from popbandits.errors import AgentError, ArgumentError
from popbandits.testing import check_agent
from tests.adapters.checking import flawless, saved
from tests.adapters.robots import rl_games, rsl_rl, skrl

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # rl_games uses what PyTorch and NumPy will remove.
]
EVERY = pytest.mark.parametrize("make", [rsl_rl, skrl, rl_games])
ADAPTIVE: dict[Any, dict[str, Any]] = {
    rsl_rl: {"schedule": "adaptive", "desired_kl": 0.01},
    skrl: {"learning_rate_scheduler": "KLAdaptiveLR", "learning_rate_scheduler_kwargs": {"kl_threshold": 0.01}},
    rl_games: {"lr_schedule": "adaptive", "kl_threshold": 0.01},
}
CONSTANT: dict[Any, dict[str, Any]] = {rsl_rl: {"schedule": "fixed"}, skrl: {}, rl_games: {"lr_schedule": "constant"}}
SPACES: dict[Any, dict[str, Any]] = {
    rsl_rl: {"gamma": (0.9, 0.99), "num_mini_batches": [1, 2], "schedule": ["adaptive", "fixed"]},
    skrl: {"discount_factor": (0.9, 0.99), "mini_batches": [1, 2], "ratio_clip": (0.05, 0.3)},
    rl_games: {"gamma": (0.9, 0.99), "minibatch_size": [8, 16], "entropy_coef": (0.0, 0.1)},
}


def algorithm(agent: Any) -> Any:
    """Return what has the optimizer."""
    if hasattr(agent, "runner"):
        return agent.runner.alg
    return agent.trainer.agents if hasattr(agent, "trainer") else agent.algorithm


@contextmanager
def noted_rates(agent: Any) -> Iterator[list[float]]:
    """Note the learning rate of every step of the optimizer."""
    rates: list[float] = []
    handle = algorithm(agent).optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    yield rates
    handle.remove()


def weights(agent: Any) -> list[torch.Tensor]:
    groups = algorithm(agent).optimizer.param_groups
    return [weight.detach().clone() for group in groups for weight in group["params"]]


@EVERY
def test_it_passes_the_check(make: Any) -> None:
    flawless(check_agent(make, {"learning_rate": (1e-4, 1e-2), "effort": (0.0, 1.0), **SPACES[make]}))


@EVERY
def test_it_learns(make: Any) -> None:
    agent = make(0, iterations=10, **CONSTANT[make])
    scores = [agent.train({"learning_rate": 0.01}).score for _ in range(6)]
    assert scores[-1] > scores[0] + 3  # Returns are of 8 steps, of about -2 each with random weights.


@EVERY
@pytest.mark.parametrize("settings", [CONSTANT, ADAPTIVE])
def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(make: Any, settings: Any, tmp_path: Path) -> None:
    first, second = (make(seed, **settings[make]) for seed in (0, 1))
    for agent in (first, second):
        agent.env.unwrapped.max_episode_length = 5  # The interval ends within an episode.
    first.train({"effort": 0.5})
    second.load(saved(first, tmp_path / "a"))
    with noted_rates(first) as rates, noted_rates(second) as other_rates:
        assert [first.train({"effort": 0.5}) for _ in range(2)] == [second.train({"effort": 0.5}) for _ in range(2)]
    assert rates == other_rates
    assert all(torch.equal(one, other) for one, other in zip(weights(first), weights(second), strict=True))


@pytest.mark.parametrize("make", [rsl_rl, rl_games])
def test_a_recurrent_policy_goes_on_from_a_checkpoint(make: Any, tmp_path: Path) -> None:
    first, second = make(0, recurrent=True), make(1, recurrent=True)
    for agent in (first, second):
        agent.env.unwrapped.max_episode_length = 5  # The interval ends within an episode.
    first.train({})
    second.load(saved(first, tmp_path / "a"))
    assert first.train({}) == second.train({})


def test_curiosity_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    weight = {"mode": "linear", "initial_step": 0, "final_step": 60, "final_value": 0.0}
    layers = {"num_outputs": 2, "predictor_hidden_dims": [4], "target_hidden_dims": [4]}
    curious = {**layers, "weight": 9.0, "reward_normalization": True, "weight_schedule": weight}
    first, second = (rsl_rl(seed, rnd_cfg=dict(curious)) for seed in (0, 1))
    first.train({})
    second.load(saved(first, tmp_path / "a"))
    first.train({})
    second.train({})
    assert all(torch.equal(one, other) for one, other in zip(weights(first), weights(second), strict=True))


def test_scales_that_were_made_in_inference_mode_can_be_loaded_into(tmp_path: Path) -> None:
    agent = rsl_rl(0)
    agent.train({})
    folder, scale = saved(agent, tmp_path / "a"), agent.runner.alg.actor.obs_normalizer
    with torch.inference_mode():  # rsl_rl 5.0 does so in rollouts.
        scale._std = scale._std * 2
    agent.load(folder)
    assert torch.equal(scale._std, torch.load(folder / "model.pt")["actor_state_dict"]["obs_normalizer._std"])


CHANGES: list[tuple[Any, dict[str, Any]]] = [
    (
        rsl_rl,
        {
            "desired_kl": 0.02,
            "clip_param": 0.3,
            "entropy_coef": 0.02,
            "value_loss_coef": 0.7,
            "gamma": 0.8,
            "lam": 0.7,
            "num_learning_epochs": 3,
            "num_mini_batches": 4,
            "max_grad_norm": 0.4,
            "use_clipped_value_loss": False,
            "normalize_advantage_per_mini_batch": True,
        },
    ),
    (
        skrl,
        {
            "learning_epochs": 3,
            "mini_batches": 4,
            "discount_factor": 0.8,
            "gae_lambda": 0.7,
            "grad_norm_clip": 0.4,
            "ratio_clip": 0.3,
            "value_clip": 0.1,
            "entropy_loss_scale": 0.02,
            "value_loss_scale": 0.7,
            "kl_threshold": 9.0,
            "time_limit_bootstrap": True,
        },
    ),
    (
        rl_games,
        {
            "e_clip": 0.3,
            "entropy_coef": 0.02,
            "critic_coef": 0.7,
            "bounds_loss_coef": 0.01,
            "gamma": 0.8,
            "tau": 0.7,
            "mini_epochs": 3,
            "minibatch_size": 8,
            "grad_norm": 0.4,
        },
    ),
]


@pytest.mark.parametrize(("make", "changes"), CHANGES)
def test_hyperparameters_hold_after_the_load_of_an_agent_that_had_others(
    make: Any, changes: dict[str, Any], tmp_path: Path
) -> None:
    first, second = make(0, **CONSTANT[make]), make(1, **CONSTANT[make])
    first.train({"learning_rate": 0.5e-3})
    checkpoint = saved(first, tmp_path / "a")
    for name, value in ({"learning_rate": 0.02} | changes).items():
        second.load(checkpoint)
        assert value != second._built[name]
        second.train({name: value})
        assert second.applied() == {name: value}
        assert differences(second._built | {name: value}, second._read()) == []
    second.load(checkpoint)
    config = {"learning_rate": 0.02} | changes
    with noted_rates(second) as rates:
        second.train(config)
    assert second.applied() == config
    assert set(rates) == {0.02}
    assert len(rates) == 2 * 3 * 4  # Iterations, epochs and minibatches.


@pytest.mark.parametrize(("make", "changes"), CHANGES)
def test_what_is_learnt_depends_on_every_hyperparameter(make: Any, changes: dict[str, Any], tmp_path: Path) -> None:
    agent = make(0, **CONSTANT[make])
    agent.env.unwrapped.max_episode_length = 5  # Episodes end within rollouts, too.
    agent.train({})
    checkpoint, ends = saved(agent, tmp_path / "a"), {}
    for name, value in {"nothing": 0, **changes}.items():
        agent.load(checkpoint)
        agent.train({"learning_rate": 0.3} | ({} if name == "nothing" else {name: value}))
        ends[name] = torch.cat([weight.reshape(-1) for weight in weights(agent)])
    alike = {name for name, end in ends.items() if torch.equal(end, ends["nothing"])}
    assert alike - {"desired_kl", "kl_threshold"} == {"nothing"}  # Others tell what these do, with an adaptive rate.


@EVERY
def test_an_adaptive_learning_rate_is_learnt_unless_it_is_tuned(make: Any, tmp_path: Path) -> None:
    first, second = make(0, **ADAPTIVE[make]), make(1, **ADAPTIVE[make])
    first.train({"learning_rate": 1e-4})
    reached = algorithm(first).optimizer.param_groups[0]["lr"]
    assert reached not in (1e-4, 1e-3)
    second.load(saved(first, tmp_path / "a"))
    with noted_rates(second) as rates:
        second.train({})
    assert rates[0] == reached
    with noted_rates(second) as rates:
        second.train({"learning_rate": 2e-4})
    assert rates[0] == 2e-4
    assert rates[-1] != 2e-4
    assert second.applied() == {"learning_rate": 2e-4}


@pytest.mark.parametrize(
    ("make", "name", "place"),
    [
        (rsl_rl, "desired_kl", lambda agent: agent.runner.alg.desired_kl),
        (skrl, "scheduler_kl_threshold", lambda agent: agent.trainer.agents.scheduler.kl_threshold),
        (rl_games, "kl_threshold", lambda agent: agent.algorithm.scheduler.kl_threshold),
    ],
)
def test_the_target_of_an_adaptive_learning_rate_can_be_tuned(make: Any, name: str, place: Any, tmp_path: Path) -> None:
    first, second = make(0, **ADAPTIVE[make]), make(1, **ADAPTIVE[make])
    first.train({name: 0.5})
    second.load(saved(first, tmp_path / "a"))
    with noted_rates(second) as rates:
        second.train({name: 1e-9, "learning_rate": 1e-3})  # The policy always changes by more.
    assert place(second) == 1e-9
    assert rates[-1] < 1e-3
    second.train({})
    assert place(second) == 0.01  # as it was built


def test_a_schedule_of_skrl_goes_on_from_its_factor_with_the_new_rate(tmp_path: Path) -> None:
    steps = {"learning_rate_scheduler": torch.optim.lr_scheduler.StepLR, "learning_epochs": 1}
    steps |= {"learning_rate_scheduler_kwargs": {"step_size": 3, "gamma": 0.5}}
    first, second = skrl(0, **steps), skrl(1, **steps)
    first.train({"learning_rate": 0.1})
    first.train({"learning_rate": 0.1})  # Four epochs so far: it was halved once.
    second.load(saved(first, tmp_path / "a"))
    with noted_rates(second) as rates:
        second.train({"learning_rate": 0.01})
        second.train({"learning_rate": 0.02})
    assert rates[::2] == pytest.approx([0.005, 0.005, 0.005, 0.005])  # Halved again after six, as the rate was doubled.
    assert second.applied() == {"learning_rate": 0.02}


def test_a_schedule_of_rl_games_goes_on_from_its_factor_with_the_new_values(tmp_path: Path) -> None:
    decay = {"lr_schedule": "linear", "max_epochs": 8, "schedule_entropy": True, "entropy_coef": 0.1}
    first, second = rl_games(0, **decay), rl_games(1, **decay)
    first.train({"learning_rate": 0.1})
    second.load(saved(first, tmp_path / "a"))
    config = {"learning_rate": 0.01, "entropy_coef": 0.2}
    with noted_rates(second) as rates:
        second.train(config)
    assert second.applied() == config
    assert (rates[0], rates[-1]) == pytest.approx((0.01 * 6 / 8, 0.01 * 4 / 8), rel=1e-3)
    assert second.algorithm.entropy_coef == pytest.approx(0.2 * 4 / 8, rel=1e-2)


@EVERY
def test_hyperparameters_of_environments_are_set_and_read_back(make: Any) -> None:
    agent = make(0)
    agent.train({"effort": 0.7})
    assert agent.env.unwrapped.effort == 0.7
    assert agent.applied() == {"effort": 0.7}


@EVERY
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"gama": 0.9}, "'gama': .*Agent cannot change this while it trains; .* What can be tuned: .*learning_rate"),
        ({"num_envs": 9, "rollouts": 8}, "'num_envs', 'rollouts': .*Agent cannot change this"),
    ],
)
def test_what_cannot_be_changed_is_refused_by_name(make: Any, config: Any, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        make(0).train(config)


def test_a_function_that_does_not_say_what_it_has_set_is_refused() -> None:
    with pytest.raises(AgentError, match=r"configure must return the hyperparameters that it has set, .* got None"):
        rsl_rl(0, configure=lambda env, config: None).train({"effort": 0.1})


@EVERY
def test_the_score_is_the_mean_return_with_its_standard_error(make: Any) -> None:
    agent, rewards = make(0), list[torch.Tensor]()
    advance = agent.env.unwrapped.advance

    def noted(actions: Any) -> Any:
        result = advance(actions)
        rewards.append(result[0])
        return result

    agent.env.unwrapped.advance = noted
    outcome = agent.train({})
    returns = torch.stack(rewards).reshape(2, 8, 4).sum(1).reshape(-1).double()  # Two episodes of 8 steps, 4 times.
    assert outcome.score == outcome.metrics["training_return"] == pytest.approx(float(returns.mean()))
    assert outcome.standard_error == pytest.approx(float(returns.std()) / 8**0.5)
    assert outcome.steps == 64


@EVERY
def test_the_score_can_be_what_environments_log(make: Any) -> None:
    outcome = make(0, score="Metrics/distance").train({})
    assert 0 < outcome.score < 9
    assert outcome.metrics["training_return"] < 0
    with pytest.raises(AgentError, match=r"must name a value that environments log, got 'x' .* .'Metrics/distance'"):
        make(0, score="x").train({})


@EVERY
def test_the_score_can_be_a_function_of_the_environments(make: Any) -> None:
    assert make(0, score=lambda env: env.unwrapped.effort).train({"effort": 0.3}).score == 0.3


def test_an_interval_without_the_end_of_an_episode_has_no_score() -> None:
    agent = rsl_rl(0)
    agent.env.unwrapped.max_episode_length = 99
    with pytest.raises(AgentError, match="an episode must end within an interval, got none in 64 steps"):
        agent.train({})


def test_environments_that_cannot_be_reset_are_refused() -> None:
    agent = rsl_rl(0)
    agent.env.env = None
    with pytest.raises(AgentError, match="environments must have a method reset, got Vectorised without it"):
        agent.train({})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"iterations": 0}, "iterations must be a whole number of at least 1, got 0"),
        ({"score": 3}, "score must be None, the name of a logged value or a function, got 3"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        rsl_rl(0, **wrong)


def test_algorithms_whose_state_is_not_in_a_checkpoint_are_refused() -> None:
    with pytest.raises(AgentError, match="a trainer of skrl must have one agent of A2C, PPO, RPO, got CEM"):
        skrl(0, **{"class": "CEM", "learning_epochs": None})
    rates = {"actor_lr": 0.1, "critic_lr": 0.1, "alpha_lr": 0.1, "critic_tau": 0.1, "init_alpha": 1.0}
    sizes = {"batch_size": 8, "replay_buffer_size": 64, "learnable_temperature": True}
    with pytest.raises(AgentError, match="must be a2c_continuous or a2c_discrete, got sac"):
        rl_games(0, algorithm="sac", **rates, **sizes)


def test_episodes_can_begin_at_random_lengths() -> None:
    agent = rsl_rl(0, iterations=1, score=lambda env: 0.0)
    agent.env.unwrapped.max_episode_length = 99
    agent.random_lengths = True
    agent.train({})
    assert len(set(agent.env.episode_length_buf.tolist())) > 1


def pendulums() -> Any:
    import gymnasium
    from skrl.envs.wrappers.torch import wrap_env

    return wrap_env(gymnasium.make_vec("Pendulum-v1", 2, max_episode_steps=8, vectorization_mode="sync"))


def test_environments_of_gymnasium_are_reset_with_a_new_seed_in_every_interval(tmp_path: Path) -> None:
    first, second = (skrl(seed, env=pendulums, configure=None) for seed in (0, 1))
    begun = [first.train({}).score for _ in range(2)]
    assert begun[0] != begun[1]
    second.load(saved(first, tmp_path / "a"))
    assert first.train({}) == second.train({})


@EVERY
def test_environments_are_closed(make: Any) -> None:
    agent = make(0)
    agent.close()
    assert agent.env.unwrapped.closed


@EVERY
def test_nothing_is_left_in_an_environment(make: Any) -> None:
    agent = make(0)
    agent.train({})
    assert "step" not in vars(agent.env)


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"open({str(self.marker)!r}, 'w').close()",)


@EVERY
def test_an_object_in_a_checkpoint_is_not_unpickled(make: Any, tmp_path: Path) -> None:
    agent = make(0)
    agent.train({})
    folder = saved(agent, tmp_path / "saved")
    for path in folder.glob("*.pt*"):
        content = torch.load(path, weights_only=True)
        torch.save(content | {"more": Payload(tmp_path / "it-ran")}, path)
        with pytest.raises(AgentError, match="a checkpoint must hold plain values and tensors, got an object in"):
            agent.load(folder)
        torch.save(content, path)
    assert not (tmp_path / "it-ran").exists()
