"""The list of mutations fits the kernels; `python -m tools.gpu_tests --on-cpu` tries them."""

import pytest

from experiments.tests.paper.procgen.mutations import CUDA, TRITON, TRITON_KERNELS, Mutation
from popbandits_experiments.paper.procgen.kernel_table import KERNELS
from popbandits_experiments.paper.procgen.nvrtc import SOURCES


@pytest.mark.parametrize("mutation", [*CUDA, *TRITON], ids=lambda mutation: f"{mutation.file}: {mutation.mistake}")
def test_a_mutation_changes_its_file(mutation: Mutation) -> None:
    folder = SOURCES.parent if mutation.file.endswith(".py") else SOURCES
    text = (folder / mutation.file).read_text("utf-8")
    assert mutation.apply(text) != text


def test_every_kernel_is_mutated() -> None:
    assert {name for mutation in CUDA for name in mutation.kernels} == set(KERNELS)
    mutated = {f"{mutation.file.removesuffix('.py')}.{name}" for mutation in TRITON for name in mutation.kernels}
    assert mutated == set(TRITON_KERNELS)


def test_a_mutation_that_does_not_fit_any_more_is_reported() -> None:
    with pytest.raises(LookupError, match=r"forward\.cu has no 'before' for the mutation 'a mistake'"):
        Mutation("a mistake", "forward.cu", "before", "after", ()).apply("text")
