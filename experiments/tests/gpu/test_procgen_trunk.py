"""The trunk's kernels on a GPU; the same cases as by the CPU's emulation."""

import pytest
import torch

from experiments.tests.paper.procgen.cuda.kernel_cases import Cases
from experiments.tests.paper.procgen.cuda.trunk_errors import check_acting, check_trunk
from popbandits_experiments.paper.procgen.compiled import Kernels
from popbandits_experiments.paper.procgen.fused import FusedTrunk
from popbandits_experiments.paper.procgen.kernel_table import KERNELS, AllKernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

GPU = torch.device("cuda", 0)


@pytest.fixture(scope="module")
def launcher() -> AllKernels:
    return AllKernels(lambda source: Kernels(source, (), GPU))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_computes_what_pytorch_does(name: str, launcher: AllKernels) -> None:
    (case,) = (case for case in Cases(GPU) if case.name == name)
    case.run(launcher)


def test_features_and_every_gradient_are_those_of_the_plain_trunk(launcher: AllKernels) -> None:
    check_trunk(FusedTrunk(GPU, launcher), GPU)


def test_acting_has_the_features_of_updates(launcher: AllKernels) -> None:
    check_acting(FusedTrunk(GPU, launcher), GPU)
