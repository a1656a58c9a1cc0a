"""Tune eight PPO agents that train as one JAX program: `python examples/batched_jax.py`.

They learn gymnax's CartPole-v1. Every function is written for one member, and `jax.vmap` makes it one for all.
Four things are worth copying: a member is one tree of arrays, its random key among them, so that copying, saving and
loading are a line or two each; hyperparameters are arrays too, labels as their index, so that a new configuration needs
no compilation; `assigned` lets copies of a member draw random numbers of their own; and the program has always the same
number of members, so that XLA rounds alike for one of them alone and for one of many.

`python examples/batched_jax.py --time 256` times 256 members in one program, and in a loop.
"""

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, nn, random, tree

from popbandits import Outcome, log, tune

TASK, PARAMS = gymnax.make("CartPole-v1")  # or any other with a vector as observation and a number as action
WIDTH = 8  # members of the program: fewer are filled up, more are trained in several calls
GAMES, LENGTH, UPDATES = 8, 64, 8  # games of a member; steps of each before an update; updates in an interval
GRADIENTS, BATCH = 16, 128  # gradient steps in an update; experiences in each
LAYERS = (*TASK.observation_space(PARAMS).shape, 32, 32, TASK.num_actions + 1)  # units; the last one is the value
EPISODES, LIMIT = (
    16,
    PARAMS.max_steps_in_episode,
)  # episodes of which the score is the mean return; steps of the longest
STEPS = GAMES * LENGTH * UPDATES
REPEATS = 5  # intervals that are timed
ACTIVATIONS = ["tanh", "relu"]
SPACE = {
    "lr": log(1e-5, 1e-1),
    "discount": (0.8, 0.999),
    "trace": (0.5, 1.0),
    "clip": log(0.03, 1.0),
    "entropy": log(1e-5, 1e-1),
    "activation": ACTIVATIONS,
}
START = {"lr": 1e-4, "discount": 0.9, "trace": 0.95, "clip": 0.2, "entropy": 0.01, "activation": "relu"}
Config = dict[str, Array]


class Member(NamedTuple):
    """All of a member that lasts between intervals. With one more axis, the first, it is all members."""

    key: Array
    weights: list[tuple[Array, Array]]
    means: list[tuple[Array, Array]]  # Adam's: of gradients, and of their squares
    squares: list[tuple[Array, Array]]
    gradients: Array  # Adam's steps so far
    games: tuple[Array, Any]  # observations and gymnax's states, in the middle of episodes


# Several games at once, with a key for each.


@jax.vmap
def begin(key: Array) -> tuple[Array, Any]:
    """Begin an episode; return the observation and the state."""
    return TASK.reset(key, PARAMS)


@jax.vmap
def step(key: Array, state: Any, action: Array) -> tuple[Array, Any, Array, Array, Array, dict[str, Array]]:
    """Act, and begin anew at an end; return observation, state, reward, terminated, truncated, and more."""
    return TASK.step(key, state, action, PARAMS)


@jax.vmap
def step_on(key: Array, state: Any, action: Array) -> tuple[Array, Any, Array, Array]:
    """Act, and never begin anew, which takes most of the time; return observation, state, reward and terminated."""
    return TASK.step_env(key, state, action, PARAMS)[:4]


# One member.


@jax.jit
def new(key: Array) -> Member:
    """Make a member that has not been trained."""
    key, start, *keys = random.split(key, len(LAYERS) + 1)
    shapes = zip(keys, pairwise(LAYERS), strict=True)
    weights = [(random.normal(k, (rows, units)) / rows**0.5, jnp.zeros(units)) for k, (rows, units) in shapes]
    zeros = tree.map(jnp.zeros_like, weights)
    return Member(key, weights, zeros, zeros, jnp.array(0), begin(random.split(start, GAMES)))


def network(weights: list[tuple[Array, Array]], values: Array, config: Config) -> tuple[Array, Array]:
    """Compute the log-probabilities of actions and the value of observations."""
    for matrix, bias in weights[:-1]:
        values = values @ matrix + bias
        values = jnp.where(config["activation"] == 0, jnp.tanh(values), nn.relu(values))
    outputs = values @ weights[-1][0] + weights[-1][1]
    return nn.log_softmax(outputs[..., :-1]), outputs[..., -1]


def collect(member: Member, config: Config, key: Array) -> tuple[Member, dict[str, Array]]:
    """Play all games for some steps; return also what was seen and done, (steps, games, ...)."""

    def play(games, key):
        (observations, states), (acting, moving) = games, random.split(key)
        logs, values = network(member.weights, observations, config)
        actions = random.categorical(acting, logs)
        after, states, rewards, terminated, truncated, info = step(random.split(moving, GAMES), states, actions)
        next_values = network(member.weights, info["final_observation"], config)[1]
        seen = {"observations": observations, "actions": actions, "logs": logs, "values": values, "rewards": rewards}
        seen |= {"next values": jnp.where(terminated, 0.0, next_values), "ended": terminated | truncated}
        return (after, states), seen

    games, seen = lax.scan(play, member.games, random.split(key, LENGTH))
    return member._replace(games=games), seen


def judge(seen: dict[str, Array], config: Config) -> dict[str, Array]:
    """Add how much better actions were than expected, by generalised advantage estimation; flatten steps and games."""
    rewards = (1 - config["discount"]) * seen["rewards"]  # With these, values are of the size of a reward.
    surprises = rewards + config["discount"] * seen["next values"] - seen["values"]
    kept = config["discount"] * config["trace"] * ~seen["ended"]

    def sum_back(later, now):
        total = now[0] + now[1] * later
        return total, total

    _, gains = lax.scan(sum_back, jnp.zeros(GAMES), (surprises, kept), reverse=True)
    seen |= {"targets": gains + seen["values"], "gains": (gains - gains.mean()) / (gains.std() + 1e-8)}
    return tree.map(lambda x: x.reshape(LENGTH * GAMES, *x.shape[2:]), seen)


def loss(weights: list[tuple[Array, Array]], seen: dict[str, Array], config: Config) -> Array:
    """Compute PPO's loss."""
    logs, values = network(weights, seen["observations"], config)
    ratios = jnp.exp(logs - seen["logs"])[jnp.arange(BATCH), seen["actions"]]
    clipped = jnp.clip(ratios, 1 - config["clip"], 1 + config["clip"])
    policy = -jnp.minimum(ratios * seen["gains"], clipped * seen["gains"]).mean()
    entropy = -(jnp.exp(logs) * logs).sum(-1).mean()
    return policy - config["entropy"] * entropy + ((values - seen["targets"]) ** 2).mean()


def update(member: Member, config: Config) -> Member:
    """Collect experience, and learn from it."""
    key, playing, drawing = random.split(member.key, 3)
    member, seen = collect(member._replace(key=key), config, playing)
    seen = judge(seen, config)

    def descend(member, chosen):  # a step of Adam
        slopes = jax.grad(loss)(member.weights, tree.map(lambda x: x[chosen], seen), config)
        count = member.gradients + 1
        means = tree.map(lambda mean, slope: 0.9 * mean + 0.1 * slope, member.means, slopes)
        squares = tree.map(lambda square, slope: 0.999 * square + 0.001 * slope**2, member.squares, slopes)
        rate = config["lr"] * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        weights = tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), member.weights, means, squares)
        return member._replace(weights=weights, means=means, squares=squares, gradients=count), None

    return lax.scan(descend, member, random.randint(drawing, (GRADIENTS, BATCH), 0, LENGTH * GAMES))[0]


def train_member(member: Member, config: Config) -> tuple[Member, Array]:
    """Train for an interval; return also the returns of new episodes without chance, or NaN if it diverged."""
    member, _ = lax.scan(lambda member, _: (update(member, config), None), member, length=UPDATES)

    def play(now, keys):
        (observations, states), over = now
        actions = network(member.weights, observations, config)[0].argmax(-1)
        observations, states, rewards, terminated = step_on(keys, states, actions)
        return ((observations, states), over | terminated), jnp.where(over, 0.0, rewards)

    key, beginning, playing = random.split(member.key, 3)
    games = begin(random.split(beginning, EPISODES))
    _, rewards = lax.scan(play, (games, jnp.zeros(EPISODES, bool)), random.split(playing, (LIMIT, EPISODES)))
    finite = jnp.isfinite(sum(leaf.sum() for leaf in tree.leaves(member.weights)))
    return member._replace(key=key), jnp.where(finite, rewards.sum(0), jnp.nan)


# All members.

train_members = jax.jit(jax.vmap(train_member))


@jax.jit
def pick(rows: Any, which: Array) -> Any:
    """Return one row of all arrays, or several."""
    return tree.map(lambda array: array[which], rows)


@jax.jit
def put(rows: Any, member: int, one: Any) -> Any:
    """Overwrite one row of all arrays."""
    return tree.map(lambda array, row: array.at[member].set(row), rows, one)


@jax.jit
@jax.vmap
def branch(member: Member, number: Array, round_: Array) -> Member:
    """Change a key by the number of the member and of the round."""
    return member._replace(key=random.fold_in(random.fold_in(member.key, number), round_))


def train_blocks(members: Member, config: Config) -> tuple[Member, Array]:
    """Train WIDTH members in a call, the last of which is filled up: how many there are changes no rounding."""
    count = len(members.key)
    which = np.arange(-(-count // WIDTH) * WIDTH).reshape(-1, WIDTH) % count
    blocks = [train_members(*pick((members, config), block)) for block in which]
    return tree.map(lambda *parts: jnp.concatenate(parts)[:count], *blocks)


class Agents:
    """What a population trains: all members at once."""

    def __init__(self, seeds: list[int]):
        self.members = tree.map(lambda *rows: jnp.stack(rows), *(new(random.PRNGKey(seed)) for seed in seeds))
        self.used: Config = {}

    def train(self, configs: list[dict[str, Any]]) -> list[Outcome]:
        """Train for an interval; the mean return of episodes."""
        self.used = as_arrays(configs)
        self.members, returns = train_blocks(self.members, self.used)
        returns = np.asarray(returns, float)
        scores, errors = returns.mean(1).tolist(), (returns.std(1) / EPISODES**0.5).tolist()
        return [Outcome(s, STEPS, standard_error=e) for s, e in zip(scores, errors, strict=True)]

    def applied(self) -> list[dict[str, Any]]:
        """Return the hyperparameters that each member trained with."""
        columns = {name: array.tolist() for name, array in self.used.items()}
        columns["activation"] = [ACTIVATIONS[index] for index in columns["activation"]]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def assigned(self, keys: list[tuple[int, int]]) -> None:
        """Let each member go on with random numbers of its own, also if it is a copy."""
        self.members = branch(self.members, *jnp.array(keys).T)

    def copy(self, sources: list[int]) -> None:
        """Let member i become what member sources[i] is."""
        self.members = pick(self.members, jnp.array(sources))

    def reset(self, member: int, seed: int) -> None:
        """Let a member start afresh."""
        self.members = put(self.members, member, new(random.PRNGKey(seed)))

    def save(self, member: int, directory: Path) -> None:
        """Write all of a member."""
        np.savez(directory / "member.npz", *tree.leaves(pick(self.members, member)))

    def load(self, member: int, directory: Path) -> None:
        """Read it."""
        with np.load(directory / "member.npz") as file:
            one = tree.unflatten(tree.structure(self.members), list(file.values()))
        self.members = put(self.members, member, one)


def as_arrays(configs: list[dict[str, Any]]) -> Config:
    """Make an array of each hyperparameter, with a value for each member."""
    columns = {name: [config[name] for config in configs] for name in SPACE}
    columns["activation"] = [ACTIVATIONS.index(label) for label in columns["activation"]]
    return {name: jnp.array(values) for name, values in columns.items()}


def measure(count: int) -> None:
    """Print training steps per second of one program and of a loop; evaluations take time, but are not counted."""
    members, config = Agents(list(range(count))).members, as_arrays([START] * count)
    one = jax.jit(train_member)
    ways = {
        "one program": lambda: train_members(members, config),
        "a loop": lambda: [one(pick(members, number), pick(config, number)) for number in range(count)],
    }
    for name, way in ways.items():
        jax.block_until_ready(way())  # compiled here
        start = time.perf_counter()
        for _ in range(REPEATS):
            jax.block_until_ready(way())
        speed = REPEATS * count * STEPS / (time.perf_counter() - start)
        print(f"{count} members in {name}: {speed:,.0f} steps/s on {jax.devices()[0].device_kind}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--time", type=int, metavar="MEMBERS", help="only time this many members")
    arguments = parser.parse_args()
    if arguments.time:
        measure(arguments.time)
    else:
        settings = {"population": 8, "rounds": arguments.rounds, "seed": 0, "engine": "batched"}
        result = tune(Agents, SPACE, start=START, control=True, **settings)  # Member 0 stays on the start.
        untuned = max(o.score for o in result.history if o.member == 0)
        print(f"The best agent balances the pole for {result.best.score:.0f} of {LIMIT} steps,", end=" ")
        print(f"the one that was not tuned for {untuned:.0f}. What the best one trained with:")
        for number, config in enumerate(result.schedule):
            print(f"{number:>5}  lr {config['lr']:.1e}  discount {config['discount']:.3f}  {config['activation']}")
        print(f"Everything is in {result.directory}, the best agent in {result.checkpoint}.")
