"""A module of PyTorch Lightning as an agent."""

import logging
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from popbandits.adapters import optimizers
from popbandits.adapters.seeding import ResumingAgent
from popbandits.agent import Outcome
from popbandits.basics.extras import library
from popbandits.basics.rules import whole
from popbandits.errors import AgentError, ArgumentError

CHECKPOINT = "model.ckpt"

QUIET_SETTINGS: dict[str, Any] = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)
"""Settings of a trainer, unless others are given: a run has its own record, checkpoints and progress."""


class LightningAgent(ResumingAgent):
    """An agent that fits a LightningModule for some epochs in every interval.

        def make_agent(seed):
            return LightningAgent(Classifier, Digits, seed=seed, score="val_accuracy", epochs=1)

    In every interval the module is built with the hyperparameters as keyword arguments, as usual in Lightning:
    `Classifier(lr=..., dropout=...)`. Then a new trainer resumes from the checkpoint: weights, the optimizers' state,
    schedules, counters. Optimizers keep the options that `configure_optimizers` set; a schedule continues from the
    factor it had reached. An optimizer of a new class starts with fresh state.

    Args:
        module: Class or function that builds the module from hyperparameters.
        data: Function that builds the data for `Trainer.fit`: a LightningDataModule, a loader for training, or a pair
            of loaders for training and validation.
        seed: Seed of the agent.
        score: Name of the logged metric that is the score, as in `self.log`.
        epochs: Epochs of an interval. Default 1.
        trainer: Further arguments of `lightning.Trainer`, such as accelerator. Default {}.
        weights_only: Whether a checkpoint may hold plain values and tensors only. Default True. False unpickles any
            object, and so runs the code of whoever wrote the checkpoint.
    """

    def __init__(
        self,
        module: Callable[..., Any],
        data: Callable[[], Any],
        *,
        seed: int,
        score: str,
        epochs: int = 1,
        trainer: Mapping[str, Any] | None = None,
        weights_only: bool = True,
    ) -> None:
        if not callable(data):
            raise ArgumentError(f"data must be a function that builds loaders or a data module, got {data!r}")
        whole(1).check("epochs", epochs)
        super().__init__(seed, epochs=0)
        self._weights_only = weights_only
        self._module, self._data, self._score, self._epochs = module, data, score, epochs
        self._settings = QUIET_SETTINGS | dict(trainer or {})
        if taken := sorted({"max_epochs", "max_steps"} & self._settings.keys()):
            raise ArgumentError(
                f"an interval's length is set by epochs, got {', '.join(taken)} for the trainer; drop it"
            )

    def train(self, config: dict[str, Any]) -> Outcome:
        """Build the module with the hyperparameters, resume, and fit for some epochs."""
        lightning = library("lightning.pytorch", "lightning")
        last, done = self._last / CHECKPOINT, self._progress["epochs"]
        with self._new_numbers(), _quiet():
            restoring = _restore_options(lightning.Callback)(config)
            given = self._settings.get("callbacks") or []
            callbacks = [*([given] if isinstance(given, lightning.Callback) else given), restoring]
            total = done + self._epochs
            trainer = lightning.Trainer(**self._settings | {"max_epochs": total, "callbacks": callbacks})
            module, data = self._module(**config), self._data()
            loaders = data if isinstance(data, tuple) else (data,)
            ckpt_path = str(last) if done else None
            try:
                trainer.fit(module, *loaders, ckpt_path=ckpt_path, weights_only=self._weights_only)
            except pickle.UnpicklingError as error:
                raise AgentError(
                    "a checkpoint of Lightning must hold plain values and tensors, got an object, perhaps among what "
                    f"save_hyperparameters saved; leave it out there, or give weights_only=False: {error}"
                ) from error
            trainer.save_checkpoint(last)
        self._progress, self._applied = {"epochs": total}, restoring.applied
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        if self._score not in metrics:
            raise AgentError(f"score must name a logged metric, got {self._score!r} where there are {sorted(metrics)}")
        return Outcome(metrics[self._score], self._epochs, metrics)


def _restore_options(base: type[Any]) -> Callable[[dict[str, Any]], Any]:
    """Define the callback that sets hyperparameters again after a resume; its base is Lightning's."""

    class RestoreOptions(base):  # type: ignore[misc]
        def __init__(self, config: dict[str, Any]) -> None:
            self.config = config
            self.applied: dict[str, Any] = {}
            self._classes: list[str] | None = None

        def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
            checkpoint["optimizer_classes"] = [type(each).__name__ for each in trainer.optimizers]

        def on_load_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
            self._classes = checkpoint["optimizer_classes"]

        def on_fit_start(self, trainer: Any, module: Any) -> None:
            self._built = [optimizers.options(each) for each in trainer.optimizers]
            self._told = self._read(trainer, module)

        def on_train_start(self, trainer: Any, module: Any) -> None:
            classes = self._classes or [type(each).__name__ for each in trainer.optimizers]
            for optimizer, built, name in zip(trainer.optimizers, self._built, classes, strict=True):
                if name != type(optimizer).__name__:
                    optimizer.state.clear()
                optimizers.put_back(optimizer, built)
            for schedule in trainer.lr_scheduler_configs:
                optimizers.put_back_rates(schedule.scheduler)
            self.applied = optimizers.confirmed(self._told, self._read(trainer, module), self.config)

        def _read(self, trainer: Any, module: Any) -> dict[str, Any]:
            hyperparameters = {name: module.hparams[name] for name in self.config if name in module.hparams}
            named = {str(number): each for number, each in enumerate(trainer.optimizers)}
            return hyperparameters | optimizers.read_options(named, self.config)

    return RestoreOptions


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what Lightning prints for every trainer: devices, tips, and warnings about short fits and small data."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning\.pytorch")
            yield
    finally:
        logger.setLevel(level)
