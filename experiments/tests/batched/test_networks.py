"""Batched networks: gradients against autograd and finite differences, orthogonal starts, flat weights."""

import math

import pytest
import torch
from torch import Tensor

from popbandits_experiments.batched.networks import Affine, FlatWeights, Perceptron, affine, orthogonal
from popbandits_experiments.batched.random import Streams, keys_of

CPU = torch.device("cpu")


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def test_affine_and_its_gradients_are_those_of_pytorch() -> None:
    rows, matrices, biases, weight = draw(3, 5, 4), draw(3, 4, 2), draw(3, 1, 2), draw(3, 5, 2)
    ours, theirs = affine(rows, matrices, biases), torch.baddbmm(biases, rows, matrices)
    assert torch.equal(ours, theirs)
    given = (rows, matrices, biases)
    for found, expected in zip(
        torch.autograd.grad((ours * weight).sum(), given),
        torch.autograd.grad((theirs * weight).sum(), given),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_gradients_of_affine_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(Affine.apply, (draw(2, 3, 4), draw(2, 4, 2), draw(2, 1, 2)))
    # Observations need no gradient, so that of the first layer's input is never computed.
    assert torch.autograd.gradcheck(Affine.apply, (draw(2, 3, 4).detach(), draw(2, 4, 2), draw(2, 1, 2)))


def test_a_perceptron_is_that_of_torch_nn_for_each_member() -> None:
    shape = Perceptron((4, 6, 5, 2), 0.01)
    weights = [draw(3, *shape) for shape in shape.shapes]
    rows = draw(3, 7, 4)
    found = shape(weights, rows)
    for member in range(3):
        layers: list[torch.nn.Module] = []
        for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
            layer = torch.nn.Linear(*matrix.shape[1:], dtype=torch.float64)
            layer.weight.data, layer.bias.data = matrix[member].T.detach(), bias[member, 0].detach()
            layers += [layer, torch.nn.Tanh()]
        torch.testing.assert_close(found[member], torch.nn.Sequential(*layers[:-1])(rows[member]))


def test_masks_multiply_the_units_of_the_hidden_layers() -> None:
    shape = Perceptron((4, 6, 2), 1.0)
    weights, rows, mask = [draw(3, *shape) for shape in shape.shapes], draw(3, 7, 4), draw(3, 7, 6)
    hidden = (rows @ weights[0] + weights[1]).tanh() * mask
    torch.testing.assert_close(shape(weights, rows, [mask]), hidden @ weights[2] + weights[3])


@pytest.mark.parametrize("size", [(8, 3), (3, 8), (5, 5), (1, 4), (4, 1)])
def test_orthogonal_matrices_are_so_along_their_shorter_side(size: tuple[int, int]) -> None:
    found = orthogonal(Streams(keys_of(range(50), CPU)).normal(*size))
    assert found.shape == (50, *size)
    product = found.mT @ found if size[0] >= size[1] else found @ found.mT
    torch.testing.assert_close(product, torch.eye(min(size)).expand_as(product), rtol=0, atol=1e-5)


def test_orthogonal_matrices_are_uniform() -> None:
    """Under the Haar measure every entry of an n x n matrix has mean 0 and variance 1 / n, and signs are symmetric."""
    found = orthogonal(Streams(keys_of(range(4000), CPU)).normal(3, 3)).double()
    error = 1 / math.sqrt(4000)
    assert (found.mean(0).abs() < 5 * error).all()
    assert ((found.square().mean(0) - 1 / 3).abs() < 5 * error * math.sqrt(4 / 45)).all()
    assert (((found > 0).double().mean(0) - 0.5).abs() < 5 * error / 2).all()
    assert abs(float(torch.linalg.det(found).mean())) < 5 * error


def test_first_weights_have_the_gains_of_their_layers_and_no_bias() -> None:
    shape = Perceptron((8, 6, 5, 2), 0.01)
    drawn = shape.draw(Streams(keys_of(range(3), CPU)))
    assert [tuple(tensor.shape[1:]) for tensor in drawn] == shape.shapes
    for matrices, gain in zip(drawn[::2], (math.sqrt(2), math.sqrt(2), 0.01), strict=True):
        singular = torch.linalg.svdvals(matrices)
        torch.testing.assert_close(singular, torch.full_like(singular, gain), rtol=1e-4, atol=0)
    assert all(not biases.any() for biases in drawn[1::2])
    assert not torch.equal(drawn[0][0], drawn[0][1])


def test_flat_weights_come_back_as_they_were_and_views_share_their_memory() -> None:
    layout = FlatWeights([(2, 3), (1, 3), (3, 1)])
    flat = torch.arange(24.0).view(2, 12)
    views = layout.views(flat)
    assert layout.size == 12
    assert [tuple(view.shape) for view in views] == [(2, 2, 3), (2, 1, 3), (2, 3, 1)]
    assert torch.equal(layout.flatten(views), flat)
    assert views[0][1].tolist() == [[12, 13, 14], [15, 16, 17]]
    flat[1, 0] = 99
    assert views[0][1, 0, 0] == 99
    views[2][0, 2, 0] = -1
    assert flat[0, 11] == -1
