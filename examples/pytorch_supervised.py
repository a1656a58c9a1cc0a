"""Tune a PyTorch classifier while it trains, augmentation included.

    python examples/pytorch_supervised.py [--rounds 12]

Two hundred noisy pictures of discs, squares and crosses are few, so what is done against overfitting matters, and what
is best at first is not best at last. Two things are worth copying: `load` restores the optimizer's moments but `train`
sets its hyperparameters, and `applied` says which are really in it, so that a run can check.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, max_pool2d, relu

from popbandits import Outcome, log, tune

SIZE = 16
SPACE = {
    "lr": log(1e-5, 1e-1),
    "weight_decay": log(1e-4, 10.0),
    "dropout": (0.0, 0.8),
    "augmentation": ["none", "flip", "shift", "noise"],
}


def pictures(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures, (count, 1, SIZE, SIZE), and what is on them: 0 a disc, 1 a square, 2 a cross."""
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.randint(3, (count,), generator=generator)
    radius = 2.5 + 2 * torch.rand(count, 1, 1, generator=generator)
    centre = 5 + (SIZE - 10) * torch.rand(2, count, 1, 1, generator=generator)
    x = (torch.arange(SIZE) - centre[0]).abs()
    y = (torch.arange(SIZE)[:, None] - centre[1]).abs()
    disc, square = x**2 + y**2 < radius**2, torch.maximum(x, y) < radius
    cross = square & (torch.minimum(x, y) < 1)
    shapes = torch.stack([disc, square, cross])[kinds, torch.arange(count)]
    return (shapes + 0.3 * torch.randn(shapes.shape, generator=generator))[:, None], kinds


TRAINING, TESTING = pictures(200, seed=1), pictures(500, seed=2)


class Network(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.last = nn.Linear(16 * (SIZE // 4) ** 2, 3)

    def features(self, x: Tensor) -> Tensor:
        """What the linear layer sees."""
        return max_pool2d(relu(self.second(max_pool2d(relu(self.first(x)), 2))), 2).flatten(1)


class PictureAgent:
    """What a population trains."""

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng():  # PyTorch draws the first weights from its global generator.
            torch.manual_seed(seed)
            self.network = Network()
        self.optimizer = torch.optim.AdamW(self.network.parameters())

    def train(self, config: dict[str, Any]) -> Outcome:
        """Five epochs; the accuracy on pictures it has not seen."""
        for group in self.optimizer.param_groups:
            group.update(lr=config["lr"], weight_decay=config["weight_decay"])
        for _ in range(5):
            for chosen in torch.randperm(len(TRAINING[0]), generator=self.generator).split(20):
                inputs = augmented(TRAINING[0][chosen], config["augmentation"], self.generator)
                features = self.network.features(inputs)
                kept = torch.rand(features.shape, generator=self.generator) >= config["dropout"]
                scores = self.network.last(features * kept / (1 - config["dropout"]))
                loss = cross_entropy(scores, TRAINING[1][chosen])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        with torch.no_grad():
            scores = self.network.last(self.network.features(TESTING[0]))
        right = (scores.argmax(-1) == TESTING[1]).float().mean()
        return Outcome(score=float(right), steps=5, metrics={"loss": float(loss.detach())})

    def save(self, directory: Path) -> None:
        """The generator too: a loaded agent goes on as this one would."""
        state = {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }
        torch.save(state, directory / "agent.pt")

    def load(self, directory: Path) -> None:
        """The inverse."""
        state = torch.load(directory / "agent.pt", weights_only=True)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])

    def applied(self) -> dict[str, Any]:
        """The hyperparameters in the optimizer."""
        group = self.optimizer.param_groups[0]
        return {"lr": group["lr"], "weight_decay": group["weight_decay"]}


def augmented(inputs: Tensor, kind: str, generator: torch.Generator) -> Tensor:
    """Pictures changed at random, but not in what is on them."""
    match kind:
        case "flip":
            return inputs.flip(-1) if torch.rand((), generator=generator) < 0.5 else inputs.transpose(-1, -2)
        case "shift":
            return inputs.roll(torch.randint(-2, 3, (2,), generator=generator).tolist(), (-1, -2))
        case "noise":
            return inputs + 0.3 * torch.randn(inputs.shape, generator=generator)
    return inputs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    torch.set_num_threads(1)
    result = tune(PictureAgent, SPACE, population=4, rounds=parser.parse_args().rounds, seed=0)
    print(f"The best agent gets {result.best.score:.1%} right. What it trained with:")
    for number, config in enumerate(result.schedule):
        print(f"{number:>5}  lr {config['lr']:.1e}  dropout {config['dropout']:.2f}  {config['augmentation']}")
    print(f"Everything is in {result.directory}, the best agent in {result.checkpoint}.")
