"""A module of Lightning, small enough for tests, and an agent of it."""

import os
import signal
from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from popbandits.adapters.lightning import LightningAgent

STEPS = 0
"""Training steps of this process."""


class Net(LightningModule):
    """A perceptron whose optimizer and dropout are tuned, with a learning rate that decays."""

    def __init__(self, lr: float, dropout: float = 0.0, optimizer: str = "Adam", weight_decay: float = 0.0) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 1))

    def training_step(self, batch: list[Tensor], index: int) -> Tensor:
        global STEPS
        STEPS += 1
        if str(STEPS) == os.environ.get("KILL_AT_STEP"):
            os.kill(os.getpid(), signal.SIGKILL)
        return mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch: list[Tensor], index: int) -> None:
        self.log("val_loss", mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        kind = getattr(torch.optim, self.hparams["optimizer"])
        made = kind(self.parameters(), lr=self.hparams["lr"], weight_decay=self.hparams["weight_decay"])
        return {"optimizer": made, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(made, 0.5)}


def data() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 8, generator=generator)
    pairs = TensorDataset(x, x.sum(1, keepdim=True))
    return DataLoader(pairs, 16, shuffle=True), DataLoader(pairs, 64)


def make_agent(seed: int) -> LightningAgent:
    return LightningAgent(Net, data, seed=seed, score="val_loss", trainer={"accelerator": "cpu"})
