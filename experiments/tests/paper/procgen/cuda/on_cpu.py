"""Compiles CUDA kernels for the CPU and runs them on CPU tensors; fibers.h says how and which mistakes it finds."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest
import torch
from torch import Tensor

HEADER = Path(__file__).with_name("on_cpu.h")
KERNELS = Path(__file__).parents[4] / "src/popbandits_experiments/paper/procgen/cuda"
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-w")
KERNEL = re.compile(r'(?P<template>>\s*)?__attribute__\(\(visibility\("default"\)\)\)\s+void\s+(?P<name>\w+)\s*\(')
MAX_THREADS, MAX_SHARED_BYTES = 1024, 227 * 1024  # Of a block, on compute capability 9.0.

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler: install g++ or set CXX")


class KernelError(Exception):
    """What a kernel did wrong, or what is wrong with its source or its launch."""


class Argument(ctypes.Structure):
    """The C++ `on_cpu::Argument`."""

    class Value(ctypes.Union):
        _fields_ = (("pointer", ctypes.c_void_p), ("integer", ctypes.c_longlong), ("number", ctypes.c_double))

    _anonymous_ = ("value",)
    _fields_ = (("kind", ctypes.c_longlong), ("value", Value), ("bytes", ctypes.c_longlong))

    @classmethod
    def of(cls, value: Tensor | int | float | bytes | None) -> "Argument":
        if isinstance(value, Tensor):
            if value.device.type != "cpu":
                raise KernelError(f"A tensor must be on the CPU, got {value.device}.")
            return cls(kind=ord("p"), pointer=value.data_ptr())
        if value is None:
            return cls(kind=ord("p"), pointer=None)
        if isinstance(value, int):
            return cls(kind=ord("i"), integer=value)
        if isinstance(value, float):
            return cls(kind=ord("f"), number=value)
        if isinstance(value, bytes):
            return cls(kind=ord("s"), pointer=ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p), bytes=len(value))
        raise KernelError(f"An argument must be a tensor, None, an int, a float or a struct's bytes, got {value!r}.")


class Library:
    """Kernels compiled for the CPU."""

    def __init__(self, path: Path, kernels: Sequence[str]) -> None:
        self.kernels = tuple(kernels)
        self._library = ctypes.CDLL(str(path))

    def launch(
        self,
        kernel: str,
        grid: int,
        threads: int,
        shared_bytes: int,
        *arguments: Tensor | int | float | bytes | None,
        backwards: bool = False,
    ) -> None:
        """Run a kernel to its end, or raise `KernelError`. With `backwards`, the last thread of a block runs first."""
        if kernel not in self.kernels:
            raise KernelError(f"There is no kernel {kernel!r}; there are {', '.join(self.kernels)}.")
        if grid < 1:
            raise KernelError(f"grid must be at least 1, got {grid}.")
        if threads % 32 or not 32 <= threads <= MAX_THREADS:
            raise KernelError(f"threads must be a multiple of 32 from 32 to {MAX_THREADS}, got {threads}.")
        if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
            raise KernelError(f"shared_bytes must be from 0 to {MAX_SHARED_BYTES}, got {shared_bytes}.")
        entry = getattr(self._library, f"on_cpu_{kernel}")
        entry.restype = ctypes.c_char_p
        values = (Argument * len(arguments))(*map(Argument.of, arguments))
        error = entry(values, len(arguments), grid, threads, shared_bytes, int(backwards))
        if error is not None:
            raise KernelError(f"{kernel}: {error.decode()}")


def compile_kernels(*sources: Path | str, folder: Path | None = None, defines: Sequence[str] = ()) -> Library:
    """Compile CUDA source, files or text, as one unit.

    Args:
        sources: paths, or the source itself. They can include what is beside them and beside units.cuh.
        folder: keeps the library. By default a folder for temporary files, where the same source is compiled once.
        defines: macros, as in "SIDE=64".
    """
    assert COMPILER is not None, "mark the test with needs_compiler"
    folder = folder or Path(tempfile.gettempdir()) / f"kernels_on_cpu_{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [source.resolve() for source in sources if isinstance(source, Path)]
    unit = "".join(
        f'#include "{source.resolve()}"\n' if isinstance(source, Path) else source + "\n" for source in sources
    )
    options = [f"-I{path}" for path in dict.fromkeys([*(path.parent for path in paths), KERNELS])]
    options += ["-DON_CPU", *(f"-D{define}" for define in defines), "-include", str(HEADER)]
    expanded = _run([COMPILER, *FLAGS, *options, "-E", "-x", "c++", "-"], unit)
    names = [match["name"] for match in KERNEL.finditer(expanded) if not match["template"]]
    names = list(dict.fromkeys(names))
    unit += "".join(f"ON_CPU_KERNEL({name})\n" for name in names)
    key = hashlib.sha256("\0".join((COMPILER, *FLAGS, expanded, unit)).encode()).hexdigest()[:16]
    library = folder / f"kernels_{key}.so"
    with library.with_suffix(".lock").open("w") as lock:
        flock(lock, LOCK_EX)  # Of several processes that need it one compiles, which takes seconds.
        if not library.exists():
            unfinished = folder / f"kernels_{key}_{os.getpid()}.so"
            _run([COMPILER, *FLAGS, *options, "-o", str(unfinished), "-x", "c++", "-"], unit)
            unfinished.replace(library)
    return Library(library, names)


def _run(command: list[str], text: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise KernelError(f"The kernels do not compile.\n{done.stderr}")
    return done.stdout


def poison(*shape: int, dtype: torch.dtype) -> Tensor:
    """Return a tensor of bytes 0xff, to see what a kernel has not written."""
    size = torch.Size(shape).numel() * dtype.itemsize
    return torch.full((size,), 255, dtype=torch.uint8).view(dtype).view(shape)
