"""Post-training of a language model with TRL as an agent: a low-rank adapter (LoRA) of a base that members share."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import fields
from typing import Any

import torch

from popbandits.adapters.huggingface import TrainerAgent
from popbandits.adapters.seeding import seeded
from popbandits.basics.extras import library
from popbandits.errors import AgentError

PLACES: dict[str, tuple[str, ...]] = {
    "learning_rate": (),  # an option of the optimizer
    "weight_decay": (),  # the same
    "max_grad_norm": ("args.max_grad_norm",),
    "beta": ("beta",),
    "temperature": ("temperature", "generation_config.temperature"),
    "top_p": ("top_p", "generation_config.top_p"),
    "epsilon": ("epsilon_low",),
    "epsilon_high": ("epsilon_high",),
    "num_generations": ("num_generations",),
    "num_iterations": ("num_iterations",),
}
"""Hyperparameters that can be changed while it trains, and the attributes of the trainer that training reads."""

_bases: dict[Callable[[], Any], Any] = {}


class TRLAgent(TrainerAgent):
    """An agent that trains a low-rank adapter of a frozen language model with a trainer of TRL.

        def make_trainer(base, arguments):
            return GRPOTrainer(base, reward, arguments, train_dataset=..., peft_config=LoraConfig(r=8))

        def make_agent(seed):
            return TRLAgent(make_trainer, load_base, GRPOConfig, seed=seed, steps=20, score="eval_reward")

    A process loads the base once. Every trainer gets modules of its own whose parameters and buffers are the base's
    tensors, so that members share its memory and TRL's changes to a model stay with one member. A checkpoint holds the
    low-rank adapter, the optimizer's state, the position in the data and the seeds; not the base.

    Args:
        make_trainer: Function that builds the trainer from the base and the training arguments. It must train an
            adapter of PEFT.
        load_base: Function that returns the base. The same function for all agents of a process, such as one of a
            module: it is called for the first only.
        arguments_type: Class of the training arguments: `GRPOConfig`, `SFTConfig`, ...
        seed: Seed of the agent.
        steps: Optimizer steps of an interval.
        arguments: Further training arguments. Default {}.
        settings: Further arguments of `TrainerAgent`: total_steps, score.
    """

    _places = PLACES

    def __init__(
        self,
        make_trainer: Callable[[Any, Any], Any],
        load_base: Callable[[], Any],
        arguments_type: type[Any],
        *,
        seed: int,
        steps: int,
        arguments: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        precision = {} if torch.cuda.is_available() else {"bf16": False}  # TRL's default needs a GPU.
        super().__init__(make_trainer, seed=seed, steps=steps, arguments=precision | dict(arguments or {}), **settings)
        self._load_base, self._type = load_base, arguments_type

    def _training_arguments(self, kind: Any, config: Mapping[str, Any], number: int, done: int) -> Any:
        known = PLACES.keys() & {field.name for field in fields(kind)}
        if unknown := sorted(config.keys() - known):
            raise AgentError(
                f"{', '.join(map(repr, unknown))}: with a {kind.__name__} this cannot be changed while it trains; "
                f"leave it out of the space. What can be tuned: {', '.join(sorted(known))}"
            )
        # TRL shuffles prompts by this seed: they are in the order of one long run.
        return super()._training_arguments(kind, config, self._seed % 2**31, done)

    def _build(self, config: dict[str, Any], arguments: Any, number: int) -> Any:
        trainer = self._make_trainer(share_base(self._load_base), arguments)
        if not hasattr(trainer.model, "peft_config") or any(
            weights.requires_grad for weights in _bases[self._load_base].parameters()
        ):
            raise AgentError(
                "make_trainer must train an adapter and leave the base as it is, which members share; give the trainer "
                "peft_config=LoraConfig(...), with bias='none'"
            )
        library("transformers", "trl").set_seed(number)  # The trainer has seeded by its arguments.
        return trainer


def share_base(load_base: Callable[[], Any]) -> Any:
    """Copy the modules of a base model, but not its parameters and buffers, which all copies in a process share.

    Args:
        load_base: Function that returns the base; called once in a process.
    """
    if load_base not in _bases:
        with seeded(0):  # The interval that loads it draws no other numbers than those that find it loaded.
            _bases[load_base] = load_base().requires_grad_(False)
    base = _bases[load_base]
    return deepcopy(base, {id(tensor): tensor for tensor in (*base.parameters(), *base.buffers())})
