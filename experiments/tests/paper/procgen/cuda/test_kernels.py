"""Every kernel of the trunk against PyTorch, by the CPU's emulation."""

import pytest
import torch

from experiments.tests.paper.procgen.cuda.kernel_cases import Case, Cases
from experiments.tests.paper.procgen.cuda.on_cpu import KERNELS as SOURCES
from experiments.tests.paper.procgen.cuda.on_cpu import compile_kernels, needs_compiler
from popbandits_experiments.paper.procgen.kernel_table import KERNELS, AllKernels

pytestmark = needs_compiler

CASES = list(Cases(torch.device("cpu")))


@pytest.fixture(scope="module")
def launcher() -> AllKernels:
    return AllKernels(lambda source: compile_kernels(SOURCES / source))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_kernel_computes_what_pytorch_does(case: Case, launcher: AllKernels) -> None:
    case.run(launcher)


def test_there_is_a_case_for_every_kernel() -> None:
    assert {case.name for case in CASES} == set(KERNELS)
