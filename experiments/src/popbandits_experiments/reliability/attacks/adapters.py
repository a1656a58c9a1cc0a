"""Checkpoints of Lightning and Hugging Face, damaged or made by an attacker, loaded through the adapters.

In a run, the manifest finds damage first. Here every file is replaced behind its back: nothing may be executed, and
what cannot be read must not be trained on.
"""

import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from popbandits_experiments.reliability.attacks.trials import Tally, attempt


class Payload:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, mark: Path):
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


def _payload_in_torch(content: bytes, mark: Path) -> bytes:
    import io

    import torch

    torch.save({"state_dict": Payload(mark)}, file := io.BytesIO())
    return file.getvalue()


DAMAGES: dict[str, Callable[[bytes, Path], bytes]] = {
    "empty": lambda content, mark: b"",
    "truncated": lambda content, mark: content[: len(content) // 2],
    "zeros": lambda content, mark: bytes(len(content)),
    "pickle": lambda content, mark: pickle.dumps(Payload(mark)),
    "PyTorch file": _payload_in_torch,
}


def adapters_on_hostile_checkpoints(trials: int, folder: Path) -> list[Tally]:
    """Load and train from checkpoints of which one file was replaced; `trials` is not used."""
    warnings.simplefilter("ignore")
    makers = {
        "Lightning": (_lightning_agent, {"lr": 0.1, "weight_decay": 0.01}),
        "Hugging Face": (_trainer_agent, {"learning_rate": 0.01, "weight_decay": 0.01}),
    }
    return [_replace_files(name, make, config, folder / name) for name, (make, config) in makers.items()]


def _lightning_agent(seed: int) -> Any:
    """Return a perceptron of Lightning as an agent."""
    import torch
    from lightning import LightningModule
    from torch.nn.functional import mse_loss
    from torch.utils.data import DataLoader, TensorDataset

    from popbandits.adapters.lightning import LightningAgent

    class Net(LightningModule):
        def __init__(self, lr: float, weight_decay: float) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

        def training_step(self, batch: list[Any], index: int) -> Any:
            return mse_loss(self.net(batch[0]), batch[1])

        def validation_step(self, batch: list[Any], index: int) -> None:
            self.log("val_loss", mse_loss(self.net(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            settings = {name: self.hparams[name] for name in ("lr", "weight_decay")}
            made = torch.optim.Adam(self.parameters(), **settings)
            return {"optimizer": made, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(made, 0.5)}

    def data() -> tuple[Any, Any]:
        x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
        pairs = TensorDataset(x, x.sum(1, keepdim=True))
        return DataLoader(pairs, 16, shuffle=True), DataLoader(pairs, 64)

    return LightningAgent(Net, data, seed=seed, score="val_loss", trainer={"accelerator": "cpu"})


def _trainer_agent(seed: int) -> Any:
    """Return a tiny transformer with Hugging Face's Trainer as an agent."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer

    from popbandits.adapters.huggingface import TrainerAgent

    def sentences(seed: int) -> list[dict[str, Any]]:
        words = torch.randint(0, 20, (64, 6), generator=torch.Generator().manual_seed(seed))
        return [{"input_ids": row, "labels": int(row[0] > 9)} for row in words]

    def make_trainer(config: dict[str, Any], arguments: Any) -> Any:
        sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        model = BertForSequenceClassification(BertConfig(vocab_size=20, max_position_embeddings=8, **sizes))
        return Trainer(model, arguments, train_dataset=sentences(1), eval_dataset=sentences(2))

    return TrainerAgent(make_trainer, seed=seed, steps=3, arguments={"use_cpu": True})


def _replace_files(name: str, make: Callable[[int], Any], config: dict[str, Any], folder: Path) -> Tally:
    tally, saved, hostile, mark = (
        Tally(f"a hostile checkpoint: {name}"),
        *(folder / each for each in ("a", "b", "mark")),
    )
    saved.mkdir(parents=True)
    agent = make(0)
    agent.train(dict(config))
    agent.save(saved)
    for path in sorted(path for path in saved.rglob("*") if path.is_file()):
        for damage, change in DAMAGES.items():
            where = f"{path.name}, {damage}"
            shutil.copytree(saved, hostile)
            changed = hostile / path.relative_to(saved)
            changed.write_bytes(change(path.read_bytes(), mark))
            outcome = attempt(partial(_go_on, make, config, hostile), folder)
            tally.trials += 1
            tally.refused += outcome.result != "trained"
            tally.check(outcome.ended not in ("hang", "died"), "hangs", where)
            tally.check(not mark.exists(), "files outside", f"{where}: the pickle was executed")
            shutil.rmtree(mark, ignore_errors=True)
            shutil.rmtree(hostile)
    return tally


def _go_on(make: Callable[[int], Any], config: dict[str, Any], checkpoint: Path) -> str:
    try:
        agent = make(1)
        agent.load(checkpoint)
        agent.train(dict(config))
    except Exception as error:  # A run records it as the failure of an interval.
        return f"{type(error).__name__}"
    return "trained"
