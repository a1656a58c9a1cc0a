"""Run the tests that need a GPU, then put mistakes into every kernel and check that the kernel's own case notices.

    python -m tools.gpu_tests             # also writes experiments/results/gpu_tests.json
    python -m tools.gpu_tests --on-cpu    # the mistakes alone, by the CPU's emulation

A mutated source is compiled once, by as many processes as there are cores.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from popbandits_experiments.paper.procgen.kernel_table import Launcher

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "experiments" / "results" / "gpu_tests.json"


def main() -> None:
    """Run tests and mutations; exit with 1 if a test fails or a mutation goes unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on-cpu", action="store_true", help="try the mutations by emulation; no tests, no file")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file for the results (default: %(default)s)")
    arguments = parser.parse_args()
    start = time.perf_counter()
    if arguments.on_cpu:
        os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it on import.
    tests = {} if arguments.on_cpu else run_tests()
    rows = try_mutations("cpu" if arguments.on_cpu else "cuda")
    print_table(rows)
    missed = [row for row in rows if not row["caught"]]
    seconds = time.perf_counter() - start
    print(f"{len(rows) - len(missed)} of {len(rows)} noticed, in {seconds:.0f} s")
    if not arguments.on_cpu:
        found = {**versions(), "seconds": round(seconds), "tests": tests, "mutations": rows}
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        print(f"Wrote {arguments.out}")
    sys.exit(1 if missed or tests.get("failed") else 0)


def run_tests() -> dict[str, int]:
    """Run the tests marked gpu; return how many passed, failed and were skipped."""
    import torch

    if not torch.cuda.is_available():
        sys.exit(
            "These tests need an NVIDIA GPU, and PyTorch sees none; use --on-cpu to try the mutations by emulation"
        )
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:xdist",
            "-m",
            "gpu",
            "experiments/tests/gpu",
            f"--junitxml={report}",
        ]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if not report.exists():
            sys.exit(f"The tests could not be run: pytest ended with status {status}")
        suite = ElementTree.parse(report).getroot().find("testsuite")
        assert suite is not None
        count = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    return {"passed": count["tests"] - failed - count["skipped"], "failed": failed, "skipped": count["skipped"]}


def try_mutations(kind: str) -> list[dict[str, Any]]:
    """Try every mutation on every kernel that must notice it; return a row for each."""
    import torch

    from experiments.tests.paper.procgen import mutations

    torch.set_num_threads(1)
    device = torch.device(kind, 0) if kind == "cuda" else torch.device(kind)
    architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(device)) if kind == "cuda" else None
    rows: list[dict[str, Any]] = []

    def add(mutation: mutations.Mutation, name: str, caught: bool) -> None:
        rows.append({"kernel": name, "file": mutation.file, "mistake": mutation.mistake, "caught": caught})

    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        os.environ["XDG_CACHE_HOME"] = str(base)  # What is compiled here is of no use to anybody.
        folders = [mutations.copy_sources(base / f"cuda_{at}", each) for at, each in enumerate(mutations.CUDA)]
        jobs = [(mutations.SOURCES, source) for source in {kernel.source for kernel in mutations.KERNELS.values()}]
        for mutation, folder in zip(mutations.CUDA, folders, strict=True):
            jobs += [(folder, source) for source in mutations.sources(mutation)]
        workers = min(len(jobs), len(os.sched_getaffinity(0)))
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            compiling = [pool.submit(compile_source, *job, architecture) for job in jobs]
            for index, mutation in enumerate(mutations.TRITON):
                folder = base / f"triton_{index}"
                folder.mkdir()
                for name in mutation.kernels:
                    if mutations.triton_fails(name, device):
                        sys.exit(f"The case of {name} fails without any mutation")
                    with mutations.mutated_triton(mutation, folder):
                        add(mutation, f"{Path(mutation.file).stem}.{name}", mutations.triton_fails(name, device))
            for future in compiling:
                future.result()
        kernels = {job: load(*job, architecture) for job in jobs}
        for mutation, folder in zip(mutations.CUDA, folders, strict=True):
            for name in mutation.kernels:
                source = mutations.KERNELS[name].source
                if mutations.cuda_fails(name, device, kernels[mutations.SOURCES, source]):
                    sys.exit(f"The case of {name} fails without any mutation")
                add(mutation, name, mutations.cuda_fails(name, device, kernels[folder, source]))
    untried = {*mutations.KERNELS, *mutations.TRITON_KERNELS} - {row["kernel"] for row in rows}
    assert not untried, f"no mutation of {', '.join(sorted(untried))}"
    return rows


def compile_source(folder: Path, source: str, architecture: str | None) -> None:
    """Compile a source for a GPU, or without an architecture for the CPU; who compiles it again finds it compiled."""
    from experiments.tests.paper.procgen.cuda.on_cpu import compile_kernels
    from popbandits_experiments.paper.procgen.nvrtc import compile_cubin

    if architecture is None:
        compile_kernels(folder / source)
    else:
        compile_cubin(source, (), architecture, folder)


def load(folder: Path, source: str, architecture: str | None) -> "Launcher":
    """Load a compiled source."""
    import torch

    from experiments.tests.paper.procgen.cuda.on_cpu import compile_kernels
    from popbandits_experiments.paper.procgen.compiled import Kernels, Module, _driver
    from popbandits_experiments.paper.procgen.nvrtc import compile_cubin

    if architecture is None:
        return compile_kernels(folder / source)

    class Mutant(Kernels):
        def __init__(self) -> None:
            self.device = torch.device("cuda", 0)
            driver = _driver()
            cubin = compile_cubin(source, (), architecture, folder)
            self._module = Module(driver, driver.primary_context(0), cubin)

    return Mutant()


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the mutations of every kernel."""
    for row in sorted(rows, key=lambda row: str(row["kernel"])):
        print(f"{row['kernel']:<32}{row['file']:<18}{row['mistake']:<46}{'noticed' if row['caught'] else 'MISSED'}")


def versions() -> dict[str, str]:
    """Return the device, and the versions of what runs on it."""
    import torch
    import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]

    from popbandits_experiments.paper.procgen.nvrtc import compiler_version, find_compiler

    return {
        "device": torch.cuda.get_device_name(0),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "nvrtc": ".".join(map(str, compiler_version(find_compiler()))),
        "triton": triton.__version__,
    }


if __name__ == "__main__":
    main()
