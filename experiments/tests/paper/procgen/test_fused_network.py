"""The fused network's gradients, and convolved frames, against PyTorch's, by Triton's interpreter on the CPU."""

import json
import os
import subprocess
import sys
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.tests.paper.procgen import interpreted_network


def interpret(*names: str) -> dict[str, Any]:
    """Compute some of the errors in a process of their own, or all."""
    run = subprocess.run(
        [sys.executable, interpreted_network.__file__, *names],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(run.stdout)
    return result


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All that the interpreter prints; it is slow, so that workers of the same test run share one result."""
    name = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    path = tmp_path_factory.getbasetemp().parent / f"interpreted-{name}.json"
    with path.open("a+") as file:
        flock(file, LOCK_EX)
        file.seek(0)
        if not (text := file.read()):
            text = json.dumps(interpret())
            file.write(text)
    result: dict[str, Any] = json.loads(text)
    return result


def test_every_gradient_is_that_of_the_loss() -> None:
    found = interpret("sides", "regularised")
    assert min(found["sides"]) > 3  # Advantages of both signs, ratios and values on all sides of the clipping.
    assert len(found["regularised"]) == 7
    assert max(found["regularised"]) < 1e-5


def test_adam_in_kernels_is_pytorchs() -> None:
    program = (
        "import torch; from experiments.tests.paper.procgen import triton_cases; triton_cases.adam(torch.device('cpu'))"
    )
    root = Path(__file__).parents[4]
    subprocess.run([sys.executable, "-c", program], cwd=root, env=os.environ | {"TRITON_INTERPRET": "1"}, check=True)


@pytest.mark.slow  # The one above has both terms.
@pytest.mark.parametrize("case", ["clean", "regularisation alone"])
def test_every_gradient_is_that_of_a_part_of_the_loss(found: dict[str, Any], case: str) -> None:
    assert len(found[case]) == 7
    assert max(found[case]) < 1e-5


@pytest.mark.slow
def test_in_bfloat16_only_the_hidden_layer_is_rounded(found: dict[str, Any]) -> None:
    *hidden, policy, policy_bias, value, value_bias, features = found["bfloat16"]
    assert max(policy, policy_bias, value, value_bias) < 0.02
    assert max(*hidden, features) < 0.1  # Units near 0 change sides.


@pytest.mark.slow
def test_the_gradient_passes_at_the_bounds_of_the_clipping(found: dict[str, Any]) -> None:
    assert max(found["at the bounds"]) < 1e-5


@pytest.mark.slow
def test_equal_errors_share_the_gradient(found: dict[str, Any]) -> None:
    error, to_value = found["between equal errors"]
    assert error < 1e-5
    assert to_value == pytest.approx(0.5 * (1 - 0.75) / 2)


@pytest.mark.slow
def test_a_diverged_network_is_found_out(found: dict[str, Any]) -> None:
    assert found["diverged"]


@pytest.mark.slow
def test_a_learner_learns_as_with_autograd(found: dict[str, Any]) -> None:
    assert found["learning"]["same actions"]
    assert found["learning"]["parameters"] < 0.01


@pytest.mark.slow
def test_frames_are_convolved_as_by_the_plain_augmentation(found: dict[str, Any]) -> None:
    assert found["frames"] < 1e-5


def test_bfloat16_holds_every_pixel_exactly() -> None:
    pixels = torch.arange(256)
    assert torch.equal(pixels.bfloat16().long(), pixels)
