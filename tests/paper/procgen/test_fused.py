"""The GPU's trunk against PyTorch's, by Triton's interpreter on the CPU."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from tests.paper.procgen import interpreted_trunk


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, interpreted_trunk.__file__],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def test_frames_have_a_border_of_zeros(found: dict[str, Any]) -> None:
    assert found["frames"] == 0
    assert found["border"] == 0


def test_frames_are_convolved_as_by_the_plain_augmentation(found: dict[str, Any]) -> None:
    assert found["convolved"] < 1e-5


def test_features_are_those_of_the_plain_trunk(found: dict[str, Any]) -> None:
    assert found["features"] < 1e-5


def test_every_gradient_is_that_of_the_plain_trunk(found: dict[str, Any]) -> None:
    assert len(found["gradients"]) == 30
    assert max(found["gradients"]) < 1e-4


def test_bfloat16_holds_every_pixel_exactly() -> None:
    pixels = torch.arange(256)
    assert torch.equal(pixels.bfloat16().long(), pixels)
