"""The Trainer of Hugging Face's transformers as an agent."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from popbandits.adapters import optimizers
from popbandits.adapters.seeding import ResumingAgent
from popbandits.agent import Outcome
from popbandits.basics.extras import library
from popbandits.basics.rules import whole
from popbandits.errors import AgentError, ArgumentError

QUIET_ARGUMENTS: dict[str, Any] = {"report_to": "none", "disable_tqdm": True, "logging_strategy": "no"}
"""Training arguments, unless others are given: a run has its own record and progress."""

ADAPTER_ARGUMENTS = ("output_dir", "max_steps", "num_train_epochs", "seed", "data_seed", "save_strategy", "save_steps")
"""Training arguments that the adapter sets."""

_UNSAVED_FILES = ("rng_state.pth", "training_args.bin")
"""Files of a checkpoint that hold random states, which every interval seeds itself, and hyperparameters."""


_TIMING_SUFFIXES = ("_runtime", "_per_second")
"""Metrics that differ at every measurement; the record has the seconds of an interval anyway."""

_turns = Lock()
"""Held by the agent that trains: Accelerate has one state in a process, which a new trainer resets for all."""


class TrainerAgent(ResumingAgent):
    """An agent that trains a transformers.Trainer for some optimizer steps in every interval.

        def make_trainer(config, arguments):
            return Trainer(make_model(), arguments, train_dataset=..., eval_dataset=...)

        def make_agent(seed):
            return TrainerAgent(make_trainer, seed=seed, steps=100)

    Hyperparameters with the name of a training argument (learning_rate, weight_decay, per_device_train_batch_size,
    label_smoothing_factor, optim, ...) are in `arguments`; `make_trainer` puts others, such as a dropout, into the
    model. In every interval a new trainer resumes from the checkpoint: weights, the optimizer's state, the schedule,
    the position in the data. Options of the optimizer are the new ones, and a schedule continues from the factor it
    had reached. `from_pretrained` reads a checkpoint, too.

    Args:
        make_trainer: Function that builds the trainer from the hyperparameters and a `TrainingArguments`.
        seed: Seed of the agent.
        steps: Optimizer steps of an interval.
        total_steps: Steps of the whole run, for a learning-rate schedule. None (default) for a constant learning rate.
        score: Name of the metric of `Trainer.evaluate` that is the score, or a function of the trainer that returns it.
            Default "eval_loss", for `mode="min"`.
        arguments: Further training arguments. Default {}.
    """

    _places: Mapping[str, tuple[str, ...]] | None = None
    """Attributes of the trainer that have each hyperparameter, if no others can be tuned."""
    _type: Any = None
    """Class of the training arguments; None for `TrainingArguments`."""

    def __init__(
        self,
        make_trainer: Callable[..., Any],
        *,
        seed: int,
        steps: int,
        total_steps: int | None = None,
        score: str | Callable[[Any], float] = "eval_loss",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        whole(1).check("steps", steps)
        whole(1).or_none().check("total_steps", total_steps)
        pinned = {"dataloader_pin_memory": torch.cuda.is_available()}  # PyTorch warns about it without a GPU.
        self._arguments = QUIET_ARGUMENTS | pinned | dict(arguments or {})
        if taken := sorted(set(ADAPTER_ARGUMENTS) & self._arguments.keys()):
            raise ArgumentError(
                f"the adapter sets {', '.join(ADAPTER_ARGUMENTS)} itself, got {', '.join(taken)}; leave it out"
            )
        if total_steps is None and self._arguments.setdefault("lr_scheduler_type", "constant") != "constant":
            schedule = self._arguments["lr_scheduler_type"]
            raise ArgumentError(f"a schedule needs the length of the run, got {schedule!r} without total_steps")
        super().__init__(seed, steps=0, optimizer="")  # the name of its class
        self._make_trainer, self._steps, self._total, self._score = make_trainer, steps, total_steps, score

    def train(self, config: dict[str, Any]) -> Outcome:
        """Build a trainer with the hyperparameters, resume, and train for some steps."""
        transformers = library("transformers", "huggingface")
        begun = self._progress["steps"]
        done = begun + self._steps
        if self._total is not None and done > self._total:
            raise AgentError(f"total_steps must cover every interval, got {self._total} where {done} are trained")
        with _turns, self._new_numbers() as number, _quiet(transformers):
            arguments = self._training_arguments(self._type or transformers.TrainingArguments, config, number, done)
            trainer = self._build(config, arguments, number)
            restoring = _restore_trainer(transformers.TrainerCallback)(self, trainer, config, done)
            trainer.add_callback(restoring)
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train(resume_from_checkpoint=str(self._last) if begun else None)
            outcome = self._measure(trainer)
        shutil.rmtree(self._last, ignore_errors=True)
        (Path(arguments.output_dir) / f"checkpoint-{done}").rename(self._last)
        for name in _UNSAVED_FILES:
            (self._last / name).unlink(missing_ok=True)
        self._progress, self._applied = {"steps": done, "optimizer": restoring.optimizer}, restoring.applied
        return outcome

    def _build(self, config: dict[str, Any], arguments: Any, number: int) -> Any:
        """Build the trainer of an interval, whose random numbers follow from a seed."""
        return self._make_trainer(config, arguments)

    def _measure(self, trainer: Any) -> Outcome:
        if callable(self._score):
            return Outcome(self._score(trainer), self._steps)
        metrics = {name: value for name, value in trainer.evaluate().items() if not name.endswith(_TIMING_SUFFIXES)}
        if self._score not in metrics:
            raise AgentError(f"score must name a metric of evaluate, got {self._score!r} where are {sorted(metrics)}")
        return Outcome(metrics[self._score], self._steps, metrics)

    def _training_arguments(self, kind: Any, config: Mapping[str, Any], number: int, done: int) -> Any:
        known = {field.name for field in fields(kind)}
        return kind(
            **self._arguments
            | {name: value for name, value in config.items() if name in known}
            | {
                "output_dir": str(self._folder / "output"),
                "max_steps": self._total or done,
                "save_strategy": "no",  # except at the end of an interval
                "seed": number,
                "data_seed": self._seed % 2**31,  # The data are in the order of one long run.
            }
        )


def _restore_trainer(base: type[Any]) -> Callable[..., Any]:
    """Define the callback that ends an interval, and sets hyperparameters again after a resume."""

    class RestoreTrainer(base):  # type: ignore[misc]
        def __init__(self, agent: TrainerAgent, trainer: Any, config: dict[str, Any], stop: int) -> None:
            self.trainer, self.config, self.stop, self.places = trainer, config, stop, agent._places
            self.optimizer, self.applied = agent._progress["optimizer"], dict[str, Any]()
            self._create, trainer.create_scheduler = trainer.create_scheduler, self._create_and_note

        def _create_and_note(self, *args: Any, **kwargs: Any) -> Any:
            """Make the schedule, and note the options: the optimizer is complete, and its state is not loaded yet."""
            schedule = self._create(*args, **kwargs)
            self._built, self._told = optimizers.options(self.trainer.optimizer), self._read()
            return schedule

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            live, schedule = self.trainer.optimizer, self.trainer.lr_scheduler
            name = type(getattr(live, "optimizer", live)).__name__  # Accelerate may have wrapped it.
            if name != self.optimizer:
                live.state.clear()
            self.optimizer = name
            optimizers.put_back(live, self._built)
            optimizers.put_back_rates(schedule)
            read = self._read()
            self.applied = optimizers.confirmed(self._told, read, self.config) if self.places is None else read

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step >= self.stop:
                control.should_training_stop = control.should_save = True

        def _read(self) -> dict[str, Any]:
            groups, read = self.trainer.optimizer.param_groups, {}
            for name, asked in self.config.items():
                option = optimizers.ALIASES.get(name, name)
                if option in groups[0]:
                    found = [optimizers.option(group, option) for group in groups]
                    read[name] = asked if asked in found else found[0]  # Biases have no weight decay.
                elif self.places is not None:
                    places = [each for each in self.places[name] if hasattr(self.trainer, each.partition(".")[0])]
                    found = [attrgetter(place)(self.trainer) for place in places]
                    read[name] = next((value for value in found if value != asked), asked)
                elif hasattr(owner := self.trainer.args, name) or hasattr(owner := self.trainer.model.config, name):
                    read[name] = getattr(owner, name)
            return read

    return RestoreTrainer


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence warnings of transformers about arguments that differ from a checkpoint's: they differ on purpose."""
    logs = transformers.logging
    level, bars = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(level)
        if bars:
            logs.enable_progress_bar()
