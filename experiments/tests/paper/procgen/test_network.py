import pytest
import torch
from torch import Tensor, nn

from popbandits_experiments.paper.procgen.network import heads, initial_parameters, split, trunk


class Block(nn.Module):
    """The published residual block: it rectifies its input in place, so that relu(x) is what is added back."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.relu(self.first(self.relu(x)))) + x


def reference() -> nn.Sequential:
    sections = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 32)):
        pooled = nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(3, 2, 1))
        sections += [pooled, Block(outputs), Block(outputs)]
    return nn.Sequential(*sections, nn.ReLU(), nn.Flatten(), nn.Linear(2048, 256), nn.ReLU())


def test_the_network_is_impalas() -> None:
    flat = initial_parameters(0)
    flat += 0.05 * torch.randn(flat.shape, generator=torch.Generator().manual_seed(1))  # Biases, too.
    network, policy, value = reference(), nn.Linear(256, 15), nn.Linear(256, 1)
    parameters = [*network.parameters(), *policy.parameters(), *value.parameters()]
    assert sum(parameter.numel() for parameter in parameters) == len(flat) == 626_256
    with torch.no_grad():
        for parameter, part in zip(parameters, split(flat), strict=True):
            parameter.copy_(part)
    frames = torch.randint(256, (3, 3, 64, 64), generator=torch.Generator().manual_seed(2)).float()
    hidden = network(frames / 255)
    logits, values = heads(trunk(frames, flat), flat)
    assert torch.allclose(logits, policy(hidden), atol=1e-5)
    assert torch.allclose(values, value(hidden)[:, 0], atol=1e-5)


def test_a_new_network_is_undecided_and_depends_on_its_seed_alone() -> None:
    flat = initial_parameters(0)
    logits, _ = heads(trunk(torch.full((1, 3, 64, 64), 128.0), flat), flat)
    assert logits.softmax(1).flatten().tolist() == pytest.approx([1 / 15] * 15, rel=0.05)
    assert torch.equal(flat, initial_parameters(0))
    assert not torch.equal(flat, initial_parameters(1))


def test_initial_weights_are_as_published() -> None:
    parts = split(initial_parameters(0))
    for weight, bias in zip(parts[:30:2], parts[1:30:2], strict=True):
        outputs, inputs = weight.shape[:2]
        assert weight.abs().max() <= (6 / (9 * (inputs + outputs))) ** 0.5
        assert weight.std() == pytest.approx((2 / (9 * (inputs + outputs))) ** 0.5, rel=0.1)
        assert not bias.any()
    for weight, gain in zip(parts[30::2], (2**0.5, 0.01, 1.0), strict=True):
        gram = weight @ weight.T
        assert torch.allclose(gram, gain**2 * torch.eye(len(weight)), atol=1e-4)
