"""The kernels that write frames to the GPU's trunk, by Triton's interpreter on the CPU."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from tests.paper.procgen import interpreted_frames


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, interpreted_frames.__file__],
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


def test_bfloat16_holds_every_pixel_exactly() -> None:
    pixels = torch.arange(256)
    assert torch.equal(pixels.bfloat16().long(), pixels)
