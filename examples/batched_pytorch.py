"""Tune sixteen networks that train as one PyTorch program: `python examples/batched_pytorch.py`.

They learn to tell two spirals apart. Every tensor has a row for each member, hyperparameters included, so that one
batched product computes a layer of all of them. Two things are worth copying: all that belongs to a member is its rows,
its seed among them, so that copying, saving and loading are one line each; and losses are summed over members, so that
the gradient of each is that of its own loss, whatever becomes of the others.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from popbandits import Outcome, log, tune

LAYERS, STEPS, POINTS = (2, 32, 32, 2), 100, 32
ACTIVATIONS = ["relu", "tanh"]
SPACE = {
    "lr": log(1e-3, 3.0),
    "momentum": (0.0, 0.99),
    "weight_decay": log(1e-6, 1e-1),
    "activation": ACTIVATIONS,
}


def spirals(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw points of two spirals that are wound into one another, and to which they belong."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=generator)
    way = torch.rand(count, generator=generator).sqrt()
    angles = 9 * way + torch.pi * labels
    points = torch.stack([angles.cos(), angles.sin()], 1) * way[:, None]
    return points + 0.04 * torch.randn(count, 2, generator=generator), labels


TRAINING, TESTING = spirals(300, seed=1), spirals(1000, seed=2)


class Networks:
    """What a population trains: all members at once."""

    def __init__(self, seeds: list[int]):
        rows = [new(seed) for seed in seeds]
        self.state = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}

    def train(self, configs: list[dict[str, Any]]) -> list[Outcome]:
        """Train for a hundred steps; the accuracy on points they have not seen."""
        names = ("lr", "momentum", "weight_decay")
        lr, momentum, decay = (torch.tensor([config[name] for config in configs])[:, None, None] for name in names)
        kinds = torch.tensor([ACTIVATIONS.index(config["activation"]) for config in configs])[:, None, None]
        weights = [name for name in self.state if name.startswith(("weights", "biases"))]
        for chosen in self.draw():
            leaves = [self.state[name].requires_grad_() for name in weights]
            slopes = torch.autograd.grad(self.losses(TRAINING[0][chosen], TRAINING[1][chosen], kinds).sum(), leaves)
            for name, slope in zip(weights, slopes, strict=True):
                now, velocity = self.state[name].detach(), self.state[f"velocity of {name}"]
                velocity = momentum * velocity + slope + decay * now
                self.state[name], self.state[f"velocity of {name}"] = now - lr * velocity, velocity
        points, labels = TESTING[0].expand(len(configs), -1, -1), TESTING[1].expand(len(configs), -1)
        losses = self.losses(points, labels, kinds)
        right = (self.outputs(points, kinds).argmax(-1) == labels).double().mean(1)
        scores = right.where(losses.isfinite(), torch.nan)  # NaN: this member diverged.
        return [Outcome(s, STEPS, {"loss": x}) for s, x in zip(scores.tolist(), losses.tolist(), strict=True)]

    def draw(self) -> Tensor:
        """Draw the points that each member sees in each step, and its next seed, from its own seed."""
        generators = [torch.Generator().manual_seed(seed) for seed in self.state["seed"].tolist()]
        self.state["seed"] = torch.stack([torch.randint(2**62, (), generator=each) for each in generators])
        size = (STEPS, POINTS)
        return torch.stack([torch.randint(len(TRAINING[0]), size, generator=each) for each in generators], dim=1)

    def losses(self, points: Tensor, labels: Tensor, kinds: Tensor) -> Tensor:
        """Compute the loss of each member."""
        return -self.outputs(points, kinds).log_softmax(-1).gather(-1, labels[..., None]).mean((1, 2))

    def outputs(self, values: Tensor, kinds: Tensor) -> Tensor:
        """Compute what the networks say, (members, points, 2)."""
        for layer in range(len(LAYERS) - 1):
            if layer > 0:
                values = torch.where(kinds == 0, values.relu(), values.tanh())
            values = torch.baddbmm(self.state[f"biases {layer}"], values, self.state[f"weights {layer}"])
        return values

    def copy(self, sources: list[int]) -> None:
        """Let member i become what member sources[i] is."""
        self.state = {name: rows[sources] for name, rows in self.state.items()}

    def reset(self, member: int, seed: int) -> None:
        """Let a member start afresh."""
        self.become(member, new(seed))

    def save(self, member: int, directory: Path) -> None:
        """Write all of a member."""
        torch.save({name: rows[member].clone() for name, rows in self.state.items()}, directory / "member.pt")

    def load(self, member: int, directory: Path) -> None:
        """Read it."""
        self.become(member, torch.load(directory / "member.pt", weights_only=True))

    def become(self, member: int, rows: dict[str, Tensor]) -> None:
        """Overwrite the rows of a member."""
        for name, row in rows.items():
            self.state[name][member] = row


def new(seed: int) -> dict[str, Tensor]:
    """Make a member that has not been trained."""
    generator = torch.Generator().manual_seed(seed)
    made = {}
    for layer, (inputs, outputs) in enumerate(pairwise(LAYERS)):
        made[f"weights {layer}"] = torch.randn(inputs, outputs, generator=generator) / inputs**0.5
        made[f"biases {layer}"] = torch.zeros(1, outputs)
    return made | {f"velocity of {name}": 0 * value for name, value in made.items()} | {"seed": torch.tensor(seed)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    result = tune(Networks, SPACE, population=16, rounds=6, seed=0, engine="batched")
    print(f"The best agent gets {result.best.score:.1%} right. What it trained with:")
    for number, config in enumerate(result.schedule):
        print(f"{number:>5}  lr {config['lr']:.1e}  momentum {config['momentum']:.2f}  {config['activation']}")
    print(f"Everything is in {result.directory}, the best agent in {result.checkpoint}.")
