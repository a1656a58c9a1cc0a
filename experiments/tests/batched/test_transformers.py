"""Batched transformers, beside PyTorch's own layers."""

import torch
from torch import Tensor, nn

from popbandits_experiments.batched.networks import FlatWeights
from popbandits_experiments.batched.random import Streams, keys_of
from popbandits_experiments.batched.transformers import LAYER, Transformer

SYMBOLS, OUTPUTS, LENGTH, WIDTH, HEADS, LAYERS = 6, 4, 5, 8, 2, 2
NETWORK = Transformer(SYMBOLS, OUTPUTS, LENGTH, WIDTH, HEADS, LAYERS)


def weights(members: int) -> list[Tensor]:
    drawn = NETWORK.draw(Streams(keys_of(range(members), torch.device("cpu"))))
    return [
        each + 0.1 * torch.randn(each.shape, generator=torch.Generator().manual_seed(i)) for i, each in enumerate(drawn)
    ]


def plain(own: list[Tensor], symbols: Tensor) -> Tensor:
    """Apply one member's weights, in PyTorch's layers, to symbols (B, T, S)."""
    x = sum(
        (own[0][symbols[..., s].clamp(min=0)] * (symbols[..., s, None] >= 0) for s in range(symbols.shape[-1])), own[1]
    )
    causal = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    for number in range(LAYERS):
        part = own[2 + LAYER * number : 2 + LAYER * (number + 1)]
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, batch_first=True, norm_first=True)
        order = (2, 3, 4, 5, 8, 9, 10, 11, 0, 1, 6, 7)  # attention in and out, two linear layers, two normalisations
        with torch.no_grad():
            for parameter, index in zip(layer.parameters(), order, strict=True):
                parameter.copy_(part[index].T if parameter.ndim == 2 else part[index][0])
        x = layer(x, src_mask=causal)
    x = nn.functional.layer_norm(x, (WIDTH,)) * own[-4] + own[-3]
    return x @ own[-2] + own[-1]


def test_every_member_computes_what_pytorchs_layers_do() -> None:
    own = weights(3)
    symbols = torch.randint(-1, SYMBOLS, (3, 4, LENGTH, 2), generator=torch.Generator().manual_seed(1))
    found = NETWORK(own, symbols)
    assert found.shape == (3, 4, LENGTH, OUTPUTS)
    for member in range(3):
        expected = plain([each[member] for each in own], symbols[member])
        torch.testing.assert_close(found[member], expected, rtol=1e-4, atol=1e-5)


def test_nothing_is_known_of_what_comes_later() -> None:
    own, symbols = weights(1), torch.zeros(1, 1, LENGTH, 1, dtype=torch.int64)
    changed = symbols.clone()
    changed[..., -1, :] = 3
    before, after = NETWORK(own, symbols), NETWORK(own, changed)
    torch.testing.assert_close(before[:, :, :-1], after[:, :, :-1])
    assert (before[:, :, -1] != after[:, :, -1]).all()


def test_a_layer_that_is_masked_adds_nothing() -> None:
    own, symbols = weights(2), torch.zeros(2, 1, LENGTH, 1, dtype=torch.int64)
    masks = torch.zeros(2, 1, LAYERS, WIDTH)
    masks[1] = 1
    found = NETWORK(own, symbols, masks)
    torch.testing.assert_close(found[1], NETWORK(own, symbols)[1])
    bare = own[0][:, :1] + own[1]
    bare = nn.functional.layer_norm(bare, (WIDTH,)) * own[-4] + own[-3]
    torch.testing.assert_close(found[0, 0], (bare @ own[-2] + own[-1])[0])


def test_initial_weights_have_gains_of_one_and_biases_of_zero() -> None:
    drawn = NETWORK.draw(Streams(keys_of([0, 1], torch.device("cpu"))))
    assert [tuple(each.shape[1:]) for each in drawn] == NETWORK.shapes
    gains = [i for i, each in enumerate(drawn) if (each == 1).all()]
    assert gains == [2, 8, 2 + LAYER, 8 + LAYER, len(drawn) - 4]
    flat = FlatWeights([*NETWORK.shapes]).flatten(drawn)
    assert flat.isfinite().all()
    assert (flat[0] != flat[1]).any()
