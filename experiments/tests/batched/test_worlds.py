"""Rollouts and fresh episodes on the device, beside the same task stepped by hand; policies beside PyTorch's."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal

from popbandits_experiments.batched.brains import Brains
from popbandits_experiments.batched.device import DeviceWorld, choose
from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.batched.rollouts import Rollout
from popbandits_experiments.batched.tasks import Task
from popbandits_experiments.batched.tasks.cartpole import CartPole
from popbandits_experiments.batched.tasks.pendulum import Pendulum

CPU = torch.device("cpu")
MEMBERS, COPIES, STEPS = 2, 3, 12


class ShortCartPole(CartPole):
    limit = 14


class ShortPendulum(Pendulum):
    limit = 10


TASKS: dict[str, Task] = {"choices": ShortCartPole(), "numbers": ShortPendulum()}


def make_brains(task: Task, normalise: bool = True) -> Brains:
    inputs = task.observation[0]
    brains = Brains(MEMBERS, inputs, task.actions, task.discrete, 8, CPU, normalise)
    brains.flat.copy_(brains.draw(Streams(keys_of(range(MEMBERS), CPU))) * 1.5)
    brains.flat[:, -1] = 0.3  # also the deviation of numbers
    brains.observed.update(torch.randn(MEMBERS, 50, inputs, generator=torch.Generator().manual_seed(1)) * 0.2 + 0.1)
    return brains


def sees(brains: Brains, member: int, observation: Tensor) -> Tensor:
    """Normalise one observation by the definition."""
    scale = brains.observed
    deviation = (scale.squares[member] / scale.count[member]).sqrt()
    return ((observation.double() - scale.mean[member]) / deviation).clamp(-10, 10).float()


def outputs_of(brains: Brains, member: int, observation: Tensor) -> Tensor:
    weights = [weight[member].detach() for weight in brains.weights[:6]]
    hidden = (sees(brains, member, observation) @ weights[0] + weights[1][0]).tanh()
    hidden = (hidden @ weights[2] + weights[3][0]).tanh()
    return hidden @ weights[4] + weights[5][0]


def act(brains: Brains, member: int, observation: Tensor, noise: Tensor) -> Tensor:
    """Act by the definition: a choice by inverting its distribution, numbers by mean and deviation."""
    outputs = outputs_of(brains, member, observation)
    if not brains.discrete:
        return outputs + brains.weights[-1][member, 0].detach().exp() * noise
    total = 0.0
    for action, probability in enumerate(outputs.softmax(0).tolist()):
        total += probability
        if float(noise) < total:
            return torch.tensor(action)
    return torch.tensor(brains.actions - 1)


@pytest.mark.parametrize("kind", TASKS)
def test_two_rollouts_are_those_of_the_task_stepped_by_hand(kind: str) -> None:
    task = TASKS[kind]
    brains, gamma = make_brains(task), torch.tensor([[0.9], [0.7]])
    rollout = Rollout.empty(brains, STEPS, COPIES)
    play = DeviceWorld(task).play(brains, gamma, rollout, None)
    streams, again = (Streams(keys_of([5, 6], CPU)) for _ in range(2))
    play.collect(Streams(keys_of([8, 9], CPU)))  # Nothing of other episodes is left in fresh ones.
    for name, fresh in play.fresh(streams).items():
        play.state[name].copy_(fresh)
    (state,) = task.start(again.uniform(COPIES, task.start_noise))
    age = (again.uniform(COPIES) * (task.limit // 2)).long()
    assert len(age.unique()) > 1
    discounted = torch.zeros(MEMBERS, COPIES)
    ends = {"terminated": 0, "truncated": 0}
    for _ in range(2):
        play.collect(streams)
        acting = brains.noise(again, STEPS, COPIES)
        again.uniform(STEPS, COPIES, task.step_noise)
        (fresh,) = task.start(again.uniform(STEPS, COPIES, task.start_noise))
        for i in range(MEMBERS):
            for n in range(COPIES):
                for t in range(STEPS):
                    observation = task.observe((state[i, n],))
                    action = act(brains, i, observation, acting[i, t, n])
                    (after,), reward, terminated = task.step((state[i, n],), action, torch.zeros(0))
                    age[i, n] += 1
                    over = bool(terminated) or int(age[i, n]) == task.limit
                    discounted[i, n] = discounted[i, n] * gamma[i, 0] + reward
                    expected = (observation, task.observe((after,)), action, reward, discounted[i, n])
                    # The same numbers in a larger batch: the vectorised functions round otherwise.
                    for name, value in zip(vars(rollout), expected, strict=False):
                        torch.testing.assert_close(
                            getattr(rollout, name)[i, t, n], value, rtol=1e-4, atol=1e-4, msg=name
                        )
                    assert bool(rollout.terminated[i, t, n]) == bool(terminated)
                    assert bool(rollout.over[i, t, n]) == over
                    ends["terminated"] += bool(terminated)
                    ends["truncated"] += over and not bool(terminated)
                    state[i, n] = fresh[i, t, n] if over else after
                    discounted[i, n] = 0 if over else discounted[i, n]
                    age[i, n] = 0 if over else age[i, n]
    assert ends["truncated"] > 0
    assert (ends["terminated"] > 0) == task.discrete


@pytest.mark.parametrize("kind", TASKS)
def test_returns_of_fresh_episodes_are_those_of_the_task_stepped_by_hand(kind: str) -> None:
    task = TASKS[kind]
    brains = make_brains(task)
    test = DeviceWorld(task).test(brains, COPIES, None)
    test(Streams(keys_of([8, 9], CPU)))  # Nothing of one call is left in the next.
    found = test(Streams(keys_of([5, 6], CPU)))
    streams = Streams(keys_of([5, 6], CPU))
    (state,) = task.start(streams.uniform(COPIES, task.start_noise))
    noise = brains.noise(streams, task.limit, COPIES)
    lengths = []
    for i in range(MEMBERS):
        for n in range(COPIES):
            total, here = 0.0, state[i, n]
            for t in range(task.limit):
                seen = task.observe((here,))
                # Numbers by their means, without noise.
                action = act(brains, i, seen, noise[i, t, n] if task.discrete else torch.zeros(task.actions))
                (here,), reward, terminated = task.step((here,), action, torch.zeros(0))
                total += float(reward)
                if terminated:
                    break
            lengths.append(t + 1)
            assert float(found[i, n]) == pytest.approx(total, rel=1e-4)
    assert (min(lengths) < task.limit) == task.discrete


def test_fresh_episodes_last_as_long_as_the_limit_whatever_its_divisors() -> None:
    class Endless(CartPole):
        def step(self, state: Any, action: Tensor, noise: Tensor) -> Any:
            state, reward, terminated = super().step(state, action, noise)
            return state, reward, terminated & False

    for limit in (1, 7, 64, 67, 130, 200):
        task = type("Limited", (Endless,), {"limit": limit})()
        brains = make_brains(task)
        assert DeviceWorld(task).test(brains, 2, None)(Streams(keys_of([5, 6], CPU))).unique().tolist() == [limit]


def test_a_world_of_images_leaves_observations_as_they_are() -> None:
    brains = make_brains(TASKS["choices"], normalise=False)
    rows = torch.randn(MEMBERS, 5, 4) * 30
    assert torch.equal(brains.see(rows), rows)
    assert DeviceWorld(TASKS["choices"]).normalise


def test_log_probabilities_are_those_of_pytorch() -> None:
    generator = torch.Generator().manual_seed(0)
    choices, numbers = make_brains(TASKS["choices"]), make_brains(ShortReacher())
    outputs, actions = torch.randn(MEMBERS, 6, 2, generator=generator), torch.arange(12).view(MEMBERS, 6) % 2
    found = choices.log_probabilities(outputs, actions)
    torch.testing.assert_close(found, Categorical(logits=outputs).log_prob(actions))
    spread = torch.tensor([[0.5, -1.0], [0.0, 0.2]])
    numbers.flat[:, -2:] = spread
    taken = torch.randn(MEMBERS, 6, 2, generator=generator)
    found = numbers.log_probabilities(outputs, taken)
    torch.testing.assert_close(found, Normal(outputs, spread.exp()[:, None]).log_prob(taken).sum(-1))


class ShortReacher(Pendulum):
    """Two numbers in an action, for the shapes alone."""

    actions = 2


def test_choices_are_as_frequent_as_their_probabilities_and_numbers_as_spread_as_their_deviation() -> None:
    streams = Streams(keys_of(range(MEMBERS), CPU))
    choices, numbers = make_brains(TASKS["choices"]), make_brains(ShortReacher())
    outputs = torch.tensor([[0.3, -0.7], [-2.0, 1.0]])[:, None].expand(-1, 20_000, -1)
    taken = choices.act(outputs, choices.noise(streams, 20_000))
    probability = outputs[:, 0].softmax(-1)[:, 1]
    assert (taken.double().mean(1) - probability).abs().max() < 4 * 0.5 / 20_000**0.5
    numbers.flat[:, -2:] = torch.tensor([[0.5, -1.0], [0.0, 0.2]])
    moved = numbers.act(outputs, numbers.noise(streams, 20_000)) - outputs
    torch.testing.assert_close(moved.std(1), numbers.flat[:, -2:].exp(), rtol=0.03, atol=0)
    assert moved.mean(1).abs().max() < 0.05


def test_a_choice_of_no_probability_is_never_made() -> None:
    brains = Brains(1, 1, 3, True, 4, CPU)
    outputs = torch.tensor([[[-torch.inf, 0.0, -torch.inf]]]).expand(1, 4, 3)
    noise = torch.tensor([0.0, 0.5, 1 - 2**-24, 2**-24]).view(1, 4, 1)
    assert brains.act(outputs, noise).tolist() == [[1, 1, 1, 1]]


def test_probabilities_that_add_up_to_less_than_1_still_give_a_choice() -> None:
    brains = Brains(1, 1, 7, True, 4, CPU)
    outputs = torch.randn(1, 2000, 7, generator=torch.Generator().manual_seed(0))
    noise = torch.full((1, 2000, 1), 1 - 2**-24)
    assert (outputs.softmax(-1).cumsum(-1)[..., -1:] <= noise).any()
    assert brains.act(outputs, noise).max() == 6


def test_first_policies_are_nearly_indifferent_and_first_critics_are_not() -> None:
    brains = make_brains(TASKS["numbers"])
    brains.flat.copy_(brains.draw(Streams(keys_of(range(MEMBERS), CPU))))
    assert brains.weights[4].norm(dim=1).flatten().tolist() == pytest.approx([0.01] * MEMBERS)
    assert brains.weights[10].norm(dim=1).flatten().tolist() == pytest.approx([1.0] * MEMBERS)
    assert not brains.weights[12].any()  # a deviation of 1


def test_states_are_chosen_by_environment_whatever_their_shapes() -> None:
    condition = torch.tensor([[True, False]])
    yes, no = (torch.ones(1, 2), torch.ones(1, 2, 3, 4)), (torch.zeros(1, 2), torch.zeros(1, 2, 3, 4))
    flat, deep = choose(condition, yes, no)
    assert flat.tolist() == [[1, 0]]
    assert deep[0, 0].all()
    assert not deep[0, 1].any()
