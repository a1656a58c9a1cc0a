"""One network with its optimizer, the rollout that it acts in, and the updates from it.

All data are in tensors that are allocated once. Hyperparameters are tensors too, and augmented frames pass through a
buffer, so changing either rebuilds nothing and captures no new graph.
"""

import platform
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from popbandits.basics.rules import whole
from popbandits.basics.typing import BoolArray, FloatArray
from popbandits_experiments.cuda_graphs import Replayed
from popbandits_experiments.paper.procgen import network
from popbandits_experiments.paper.procgen.augmentations import AUGMENTATIONS, Draws
from popbandits_experiments.paper.procgen.compiled import DriverError, HostNumber, NoCompiler
from popbandits_experiments.paper.procgen.environments import FRAME, Frames
from popbandits_experiments.paper.procgen.losses import Coefficients, lambda_returns, standardised, total_loss
from popbandits_experiments.paper.procgen.mailbox import Mailbox
from popbandits_experiments.paper.procgen.optimizer import Optimizer, TorchAdam
from popbandits_experiments.paper.procgen.rollout import Rollout
from popbandits_experiments.paper.procgen.streams import own_stream

CPU = torch.device("cpu")
AHEAD = 16
"""Steps that are launched on a GPU before their frames are there."""


class Network(Protocol):
    """The network in one precision and one layout of its input; `flat` has its parameters, laid out as in `network`."""

    turn: AbstractContextManager[Any]
    """Lock to hold during an update; see `lanes`."""

    def buffer(self, frames: int) -> Tensor:
        """Make an input buffer for this number of frames."""
        ...

    def put(self, buffer: Tensor, frames: Tensor, rows: Tensor) -> None:
        """Write the frames at these indices, (n, 3, 64, 64) of bytes, to a buffer of as many."""
        ...

    def put_augmented(self, buffer: Tensor, frames: Tensor, rows: Tensor, augmentation: str, draws: Draws) -> None:
        """Augment the frames at these indices and write them like `put`."""
        ...

    def load(self, flat: Tensor) -> None:
        """Prepare for parameters that have changed; `act` and `gradient` use them from then on."""
        ...

    def act(self, frames: Tensor, flat: Tensor, rollout: Rollout) -> Tensor:
        """Draw actions for frames, record the step in the next row and return the actions, int32."""
        ...

    def gradient(
        self, buffer: Tensor, flat: Tensor, rollout: Rollout, order: Tensor, coefficients: Coefficients, out: Tensor
    ) -> None:
        """Write the gradient of the loss of the steps in `order` to out; the buffer has their frames.

        With as many augmented frames after them, the loss is regularised.
        """
        ...

    def optimizer(self, flat: torch.nn.Parameter, gradient: Tensor, rate: Tensor) -> Optimizer:
        """Make an optimizer of the parameters by a gradient and a learning rate."""
        ...


class PlainTrunk(Network):
    """The network by PyTorch's own convolutions and derivatives.

    Channels come last in memory, which the libraries' convolutions are fastest with.
    """

    def __init__(self, device: torch.device = CPU, dtype: torch.dtype = torch.float32) -> None:
        self._device, self._dtype = device, dtype
        self.turn: AbstractContextManager[Any] = nullcontext()

    def buffer(self, frames: int) -> Tensor:
        """Make an input buffer for this number of frames."""
        shape = (frames, *FRAME)
        return torch.zeros(shape, dtype=self._dtype, device=self._device).to(memory_format=torch.channels_last)

    def put(self, buffer: Tensor, frames: Tensor, rows: Tensor) -> None:
        """Write the frames at these indices, (n, 3, 64, 64) of bytes, to a buffer of as many; bfloat16 is exact."""
        buffer.copy_(frames.index_select(0, rows))

    def put_augmented(self, buffer: Tensor, frames: Tensor, rows: Tensor, augmentation: str, draws: Draws) -> None:
        """Augment the frames at these indices and write them like `put`."""
        images = AUGMENTATIONS[augmentation].apply(frames.index_select(0, rows) / network.PIXEL_SCALE, *draws)
        buffer.copy_(images * network.PIXEL_SCALE)

    def __call__(self, buffer: Tensor, flat: Tensor) -> Tensor:
        """Compute the features of the frames in a buffer."""
        return network.trunk(buffer, flat.to(self._dtype))

    def load(self, flat: Tensor) -> None:
        """Prepare for parameters that have changed: they are always read anew."""
        return

    @torch.no_grad()
    def act(self, frames: Tensor, flat: Tensor, rollout: Rollout) -> Tensor:
        """Draw actions for frames, record the step in the next row and return the actions, int32."""
        buffer = self.buffer(len(frames)).copy_(frames)
        logits, values = network.heads(self(buffer, flat), flat)
        actions = (logits + rollout.noise.index_select(0, rollout.row)[0]).argmax(1)
        log_probabilities = logits.log_softmax(1).gather(1, actions[:, None])[:, 0]
        for storage, now in (
            (rollout.frames, frames),
            (rollout.actions, actions),
            (rollout.log_probabilities, log_probabilities),
            (rollout.values, values),
        ):
            storage.index_copy_(0, rollout.row, now[None])
        return actions.int()

    def gradient(
        self, buffer: Tensor, flat: Tensor, rollout: Rollout, order: Tensor, coefficients: Coefficients, out: Tensor
    ) -> None:
        """Write the gradient of the loss of the steps in `order` to out; the buffer has their frames."""
        logits, values = network.heads(self(buffer, flat), flat)
        out.copy_(torch.autograd.grad(total_loss(logits, values, rollout.batch(order), coefficients), flat)[0])

    def optimizer(self, flat: torch.nn.Parameter, gradient: Tensor, rate: Tensor) -> Optimizer:
        """Make an optimizer of the parameters by a gradient and a learning rate."""
        return TorchAdam(flat, gradient, rate)


@dataclass(frozen=True)
class Sizes:
    """Sizes of a rollout (environments, steps) and of its updates (epochs, minibatches per epoch)."""

    environments: int = 64
    steps: int = 256
    epochs: int = 3
    minibatches: int = 8

    def __post_init__(self) -> None:
        for name in ("environments", "steps", "epochs", "minibatches"):
            whole(1).check(name, getattr(self, name))

    @property
    def rollout(self) -> int:
        """Environment steps of a rollout."""
        return self.environments * self.steps

    @property
    def minibatch(self) -> int:
        """Environment steps of a minibatch."""
        return self.rollout // self.minibatches


class Learner:
    """Act with `act`, one step of all environments at a time, then learn from the rollout with `update`.

    Args:
        seed: Seed of the initial parameters.
        sizes: Sizes of a rollout and of its updates.
        network_: The network.
        device: Device of all tensors.
        regularised: Whether updates also use augmented frames, as in DrAC but not in PPO.
    """

    def __init__(self, seed: int, sizes: Sizes, network_: Network, device: torch.device, *, regularised: bool) -> None:
        self._sizes, self._network, self._device, self._regularised = sizes, network_, device, regularised
        self._flat = torch.nn.Parameter(network.initial_parameters(seed).to(device))
        self._gradient = torch.zeros_like(self._flat)
        self._rate = torch.zeros((), device=device)
        self._coefficients = Coefficients(*(torch.zeros((), device=device) for _ in range(3)))
        on_gpu = device.type == "cuda"
        self._optimizer = network_.optimizer(self._flat, self._gradient, self._rate)

        n = sizes.environments
        self._rollout = Rollout(sizes.steps, n, device)
        self.mailbox = Mailbox(n, sizes.steps)
        """Frames to act on, and actions, in memory that environments in another process may use."""
        self._frames_ready = _pinned_number(self.mailbox, device) if on_gpu else None
        self.ahead = 1 if self._frames_ready is None else AHEAD
        """Steps that `start_acting` may launch before the first of them has its actions."""
        mailbox = self.mailbox
        self._host_frames, self._host_row = torch.from_numpy(mailbox.frames), torch.from_numpy(mailbox.row)
        self._host_actions, self._host_acted = torch.from_numpy(mailbox.actions), torch.from_numpy(mailbox.acted)
        self._next_row = 0
        self._host_returns, self._host_advantages = torch.zeros(2, sizes.steps, n, pin_memory=on_gpu)
        self.advantages: FloatArray = np.zeros((sizes.steps, n))
        """Advantages of the rollout (steps, environments) from `look_back`, not standardised."""

        batch = sizes.minibatch
        self._order = torch.zeros(batch, dtype=torch.int64, device=device)
        self._recorded = self._rollout.frames[:-1].flatten(0, 1)
        self._inputs = network_.buffer(batch * (2 if regularised else 1))

        # Acting has priority on a shared GPU: it is short, and the environments wait for it.
        self._acting = own_stream(self, device, priority=-1)
        self._learning = own_stream(self, device, priority=0)
        self._act = Replayed(self._act_once, self._acting)
        self._learn = Replayed(self._learn_once, self._learning)
        network_.load(self._flat)
        self._finish(torch.cuda.current_stream(device) if on_gpu else None)
        if on_gpu:
            self._capture_acting()
        self.turn = network_.turn
        """Lock to hold during `update`."""

    @property
    def frames(self) -> Frames:
        """Buffer for the environments' frames; write to it before `act`."""
        return self.mailbox.frames

    def set(self, *, lr: float, clip: float, entropy: float, alpha: float = 0.0) -> None:
        """Set the hyperparameters of later updates."""
        with self._on(self._learning):
            self._rate.fill_(lr)
            self._coefficients.clip.fill_(clip)
            self._coefficients.entropy.fill_(entropy)
            self._coefficients.alpha.fill_(alpha)
        self._finish(self._learning)

    def hyperparameters(self) -> dict[str, float]:
        """Return the hyperparameters in use, read from the device."""
        values = {"lr": self._rate, "clip": self._coefficients.clip, "entropy": self._coefficients.entropy}
        if self._regularised:
            values["alpha"] = self._coefficients.alpha
        return {name: value.item() for name, value in values.items()}

    def begin(self, generator: Generator) -> None:
        """Start a rollout."""
        with self._on(self._acting):
            self._rollout.begin(generator)
        self._finish(self._acting)
        self._next_row = 0
        self.mailbox.begin()

    def start_acting(self) -> None:
        """Begin to act on the frames of the next row, and to record the step; a GPU waits for the frames.

        The actions are complete when `mailbox.acted` is the row.
        """
        with self._on(self._acting):
            if self._frames_ready is not None and self._acting is not None:
                self._frames_ready.wait(self._next_row, self._acting.cuda_stream)
            self._act()
        self._next_row += 1

    def act(self) -> npt.NDArray[np.int32]:
        """Return actions for the frames that were written to `frames`, and record the step."""
        self.mailbox.announce(self._next_row)
        self.start_acting()
        self._finish(self._acting)
        return self.mailbox.actions

    def look_back(self, rewards: FloatArray, ended: BoolArray) -> float:
        """Compute returns from the rewards and ends of a rollout (steps, environments); return the mean λ-return."""
        with self._on(self._learning):
            values = self._rollout.values.cpu().numpy().astype(float)
            with np.errstate(all="ignore"):  # Weights that diverged are found out later.
                returns = lambda_returns(rewards, values, ended)
                self.advantages = returns - values[:-1]
                scaled = standardised(self.advantages)
            self._host_returns.copy_(torch.from_numpy(returns))
            self._host_advantages.copy_(torch.from_numpy(scaled))
            self._rollout.returns.copy_(self._host_returns, non_blocking=True)
            self._rollout.advantages.copy_(self._host_advantages, non_blocking=True)
        return float(returns.mean())

    def update(self, augmentation: str | None, generator: Generator) -> None:
        """Learn from the rollout."""
        with self._on(self._learning):
            for _ in range(self._sizes.epochs):
                order = torch.randperm(self._sizes.rollout, generator=generator, device=self._device)
                for rows in torch.split(order, self._sizes.minibatch):
                    self._order.copy_(rows)
                    if augmentation is not None:
                        draws = AUGMENTATIONS[augmentation].draw(len(rows), generator)
                        self._network.put_augmented(
                            self._inputs[len(rows) :], self._recorded, rows, augmentation, draws
                        )
                    self._learn()
            if self._learning is not None:
                # An update is long: wait for it without keeping a core busy, which environments need.
                end = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
                end.record()
                end.synchronize()

    def is_finite(self) -> bool:
        """Return whether all parameters are finite."""
        return bool(self._flat.isfinite().all())

    def state(self) -> dict[str, Tensor]:
        """Return copies of the parameters and the optimizer's state on the CPU."""
        return {name: tensor.detach().to("cpu", copy=True) for name, tensor in self._tensors().items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        with torch.no_grad(), self._on(self._learning):
            for name, tensor in self._tensors().items():
                tensor.copy_(state[name])
            self._network.load(self._flat)
        self._finish(self._learning)

    def close(self) -> None:
        """Wait for the device and forget the graphs: memory and streams are free once nobody refers to this."""
        for stream, replayed in ((self._acting, self._act), (self._learning, self._learn)):
            self._finish(stream)
            replayed.close()

    def _tensors(self) -> dict[str, Tensor]:
        return {"parameters": self._flat, **self._optimizer.state()}

    def _act_once(self) -> None:
        frames = self._host_frames.to(self._device, non_blocking=True)
        self._rollout.row.copy_(self._host_row, non_blocking=True)
        actions = self._network.act(frames, self._flat, self._rollout)
        self._host_actions.copy_(actions, non_blocking=True)
        self._host_acted.copy_(self._rollout.row, non_blocking=True)

    def _capture_acting(self) -> None:
        """Capture the graph now: a capture waits for the whole device, and later streams may wait for frames."""
        for _ in range(2):
            self._next_row = 0
            self.act()
        self._next_row = 0
        self.mailbox.begin()

    def _learn_once(self) -> None:
        gradient = self._gradient
        self._network.put(self._inputs[: len(self._order)], self._recorded, self._order)
        self._network.gradient(self._inputs, self._flat, self._rollout, self._order, self._coefficients, out=gradient)
        self._optimizer.step()
        self._network.load(self._flat)

    def _on(self, stream: "torch.cuda.Stream | None") -> AbstractContextManager[Any]:
        return nullcontext() if stream is None else torch.cuda.stream(stream)

    def _finish(self, stream: "torch.cuda.Stream | None") -> None:
        if stream is not None:
            stream.synchronize()


def _pinned_number(mailbox: Mailbox, device: torch.device) -> HostNumber | None:
    """Pin a mailbox's memory; return its number of frames that are ready, if streams on the device can wait for it."""
    with torch.cuda.device(device):
        _pin(mailbox.memory)
    if platform.machine() != "x86_64":  # Others may show a number before the frames that were written before it.
        return None
    try:
        return HostNumber(mailbox.ready, device)
    except (NoCompiler, DriverError):
        return None


def _pin(memory: npt.NDArray[np.uint8]) -> None:
    """Pin memory as long as its array lives: a GPU copies to and from it without a detour."""
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    torch.cuda.check_error(runtime.cudaHostRegister(memory.ctypes.data, memory.nbytes, 0))
    # Not at exit, when other threads may still use it.
    weakref.finalize(memory, runtime.cudaHostUnregister, memory.ctypes.data).atexit = False
