"""Every kernel of the trunk against PyTorch, by the CPU's emulation."""

from functools import cache

import pytest
import torch

from experiments.tests.paper.procgen.cuda.kernel_cases import Case, Cases
from experiments.tests.paper.procgen.cuda.on_cpu import KERNELS as SOURCES
from experiments.tests.paper.procgen.cuda.on_cpu import Library, compile_kernels, needs_compiler
from popbandits_experiments.paper.procgen.kernel_table import KERNELS

pytestmark = needs_compiler

CASES = list(Cases(torch.device("cpu")))


@cache
def library(source: str) -> Library:
    return compile_kernels(SOURCES / source)


def marks(case: Case) -> tuple[pytest.MarkDecorator, ...]:
    """Leave the kernels of acting, which take long to compile, to the slow tests; those of updates are like them."""
    return (pytest.mark.slow,) if KERNELS[case.name].source == "act.cu" else ()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name, marks=marks(case)) for case in CASES])
def test_a_kernel_computes_what_pytorch_does(case: Case) -> None:
    case.run(library(KERNELS[case.name].source))


def test_there_is_a_case_for_every_kernel() -> None:
    assert {case.name for case in CASES} == set(KERNELS)
