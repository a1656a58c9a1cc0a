"""Policies, critics, and the running scales of observations and rewards."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from popbandits_experiments.batched.networks import FlatWeights, Perceptron
from popbandits_experiments.batched.random import Streams
from popbandits_experiments.batched.scales import RunningScale

LOG_ROOT_2PI = math.log(2 * math.pi) / 2


class Brains:
    """Policies and critics of A members.

    | symbol | meaning |
    |---|---|
    | A | members |
    | B | rows of a member, such as the steps of its environments |
    | D | size of an observation |

    A policy over K discrete actions outputs K logits. A policy over K continuous actions outputs the means of K
    independent normal distributions; their log-deviations do not depend on the observation.
    """

    def __init__(
        self,
        members: int,
        inputs: int,
        actions: int,
        discrete: bool,
        hidden: int,
        device: torch.device,
        normalise: bool = True,
    ):
        self.inputs, self.actions, self.discrete, self.normalise = inputs, actions, discrete, normalise
        self.hidden = hidden
        self._policy = Perceptron((inputs, hidden, hidden, actions), 0.01)
        self._critic = Perceptron((inputs, hidden, hidden, 1), 1.0)
        spread: list[tuple[int, ...]] = [] if discrete else [(1, actions)]
        self.layout = FlatWeights([*self._policy.shapes, *self._critic.shapes, *spread])
        self.flat = torch.zeros(members, self.layout.size, device=device)
        self.weights = [view.requires_grad_() for view in self.layout.views(self.flat)]
        """Views of `flat`; gradients are taken with respect to these."""
        self.spread = self.weights[len(self.weights) - len(spread) :]
        """Log-deviations of continuous actions, (A, 1, K); none if actions are discrete."""
        self.observed = RunningScale(members, inputs, device)
        self.rewarded = RunningScale(members, 1, device)

    def empty(self, members: int) -> "Brains":
        """Allocate brains like these for another number of members."""
        shape = (self.inputs, self.actions, self.discrete, self.hidden, self.flat.device, self.normalise)
        return Brains(members, *shape)

    @property
    def state(self) -> dict[str, Tensor]:
        """Tensors of a checkpoint by name, a row for each member."""
        scales = {"observed": self.observed, "rewarded": self.rewarded}
        named = {f"{name}.{part}": tensor for name, scale in scales.items() for part, tensor in scale.state.items()}
        return {"weights": self.flat, **named}

    def draw(self, streams: Streams) -> Tensor:
        """Draw initial weights for as many members as there are streams, (members, P)."""
        drawn = [*self._policy.draw(streams), *self._critic.draw(streams)]
        if not self.discrete:
            drawn.append(torch.zeros(len(drawn[0]), 1, self.actions, device=self.flat.device))
        return self.layout.flatten(drawn)

    @torch.no_grad()
    def fix_outputs(self, outputs: Sequence[float]) -> None:
        """Set the weights so that every policy outputs these numbers, whatever it sees."""
        self.flat.zero_()
        self.weights[len(self._policy.shapes) - 1].copy_(torch.tensor(outputs))

    def see(self, observations: Tensor) -> Tensor:
        """Normalise observations, (A, B, D), if the world asks for it."""
        return self.observed.normalise(observations) if self.normalise else observations

    def policy(self, seen: Tensor) -> Tensor:
        """Compute logits or means, (A, B, K)."""
        return self._policy(self.weights[: len(self._policy.shapes)], seen)

    def value(self, seen: Tensor) -> Tensor:
        """Compute values, (A, B)."""
        first = len(self._policy.shapes)
        return self._critic(self.weights[first : first + len(self._critic.shapes)], seen).squeeze(-1)

    def act(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """Draw actions: discrete ones, (A, B), from one uniform each; continuous ones, (A, B, K), from K normals."""
        if self.discrete:
            below = outputs.softmax(-1).cumsum(-1) <= noise
            return below.sum(-1).clamp(max=self.actions - 1)
        return outputs + self.weights[-1].exp() * noise

    def noise(self, streams: Streams, *shape: int) -> Tensor:
        """Draw the noise for `act`, (A, *shape, 1 or K)."""
        return streams.uniform(*shape, 1) if self.discrete else streams.normal(*shape, self.actions)

    def log_probabilities(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Compute log-probabilities of actions, (A, B)."""
        if self.discrete:
            return log_softmax(outputs, -1).gather(-1, actions[..., None]).squeeze(-1)
        spread = self.weights[-1]
        distance = (actions - outputs) * (-spread).exp()
        return (-0.5 * distance.square() - spread - LOG_ROOT_2PI).sum(-1)
