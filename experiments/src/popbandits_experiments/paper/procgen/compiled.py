"""Launches the package's CUDA kernels on PyTorch's tensors and streams."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from threading import RLock
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from popbandits.errors import ArgumentError, PopbanditsError
from popbandits_experiments.paper.procgen.nvrtc import CompileError, NoCompiler, compile_cubin

__all__ = [
    "CompileError",
    "DriverError",
    "Function",
    "HostNumber",
    "Kernels",
    "NoCompiler",
    "make_stream",
    "pack_arguments",
]

Argument: TypeAlias = Tensor | int | float | None
Value: TypeAlias = c_void_p | c_int | c_float

PLAIN_SHARED_BYTES = 48 * 1024  # A function that wants more dynamic shared memory must be given leave.
INT_BOUND = 2**31
INVALID_VALUE = 1
WAIT_UNTIL_AT_LEAST = 0
NON_BLOCKING = 1  # A stream that does not wait for the default stream, nor it for this one.

# Attributes of a function, by the driver's numbers.
SHARED_SIZE_BYTES = 1
LOCAL_SIZE_BYTES = 3
NUM_REGS = 4
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

SIGNATURES: dict[str, tuple[type, ...]] = {
    "cuInit": (c_uint,),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (
        c_void_p,
        *(c_uint, c_uint, c_uint),  # Grid.
        *(c_uint, c_uint, c_uint),  # Block.
        *(c_uint, c_void_p),  # Shared bytes, stream.
        *(POINTER(c_void_p), POINTER(c_void_p)),  # Arguments, and another form of them.
    ),
}
WAIT_SIGNATURES: dict[str, tuple[type, ...]] = {
    "cuMemHostGetDevicePointer_v2": (POINTER(c_uint64), c_void_p, c_uint),
    "cuStreamWaitValue32_v2": (c_void_p, c_uint64, c_uint, c_uint),
}
STREAM_SIGNATURES: dict[str, tuple[type, ...]] = {"cuStreamCreateWithPriority": (POINTER(c_void_p), c_uint, c_int)}
PARAMETER_SIGNATURE = (c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t))

# Members are threads, and a program is compiled and loaded once for all of them.
_LOADING = RLock()


class DriverError(PopbanditsError, RuntimeError):
    """The CUDA driver refused a call."""


class Kernels:
    """The kernels of one source file, compiled for a device.

    Kernels are `extern "C"`. Make this object, and launch each kernel once, outside of graph captures: loading may not
    be allowed while a stream captures. All objects with the same arguments share what was compiled and loaded.

    Args:
        source: Name of a file in `cuda/`.
        defines: Macros, as "NAME" or "NAME=VALUE".
        device: A CUDA device.
    """

    def __init__(self, source: str, defines: tuple[str, ...] = (), device: torch.device | str = "cuda") -> None:
        if torch.device(device).type != "cuda":
            raise ArgumentError(f"device must be a CUDA device, got {str(device)!r}")
        self.device = torch.empty(0, device=device).device  # With its index; and PyTorch has set itself up.
        with _LOADING:
            self._module = _load(source, tuple(defines), self.device.index)

    def launch(self, name: str, grid: int, threads: int, shared_bytes: int, *arguments: Argument) -> None:
        """Launch a kernel on the device's current stream.

        Args:
            name: The kernel's name.
            grid: Blocks.
            threads: Threads per block.
            shared_bytes: Dynamic shared memory per block.
            arguments: Tensors are passed as pointers, None as a null pointer, integers as `int`, other numbers as
                `float`.
        """
        function = self.function(name)
        values = pack_arguments(arguments, self.device)
        function.check_sizes(values)
        stream = torch.cuda.current_stream(self.device).cuda_stream
        function.launch(grid, threads, shared_bytes, stream, values)

    def function(self, name: str) -> "Function":
        """Return a kernel by name."""
        return self._module.function(name)


class Function:
    """A loaded kernel."""

    def __init__(self, driver: "Driver", context: c_void_p, handle: c_void_p, name: str) -> None:
        self.name = name
        self._driver = driver
        self._context = context
        self._handle = handle
        self._allowed = PLAIN_SHARED_BYTES
        with driver.pushed(context):
            self._sizes = driver.parameter_sizes(handle)

    @property
    def registers(self) -> int:
        """Registers per thread."""
        return self._attribute(NUM_REGS)

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory per thread; more than 0 usually means that registers are spilled."""
        return self._attribute(LOCAL_SIZE_BYTES)

    @property
    def shared_bytes(self) -> int:
        """Bytes of static shared memory per block."""
        return self._attribute(SHARED_SIZE_BYTES)

    def _attribute(self, number: int) -> int:
        value = c_int()
        with self._driver.pushed(self._context):
            self._driver.call("cuFuncGetAttribute", value, number, self._handle)
        return value.value

    def check_sizes(self, values: list[Value]) -> None:
        """Compare arguments with the kernel's parameters: a launch would read beyond too few without a word."""
        sizes = [ctypes.sizeof(value) for value in values]
        if self._sizes is not None and sizes != self._sizes:
            raise ArgumentError(f"arguments of {self.name} must have these sizes in bytes: {self._sizes}, got {sizes}")

    def launch(self, grid: int, threads: int, shared_bytes: int, stream: int, values: list[Value]) -> None:
        """Launch the kernel with packed arguments, which the driver copies before it returns."""
        pointers = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        with self._driver.pushed(self._context):
            if shared_bytes > self._allowed:
                self._allow(shared_bytes)
            self._driver.call(
                "cuLaunchKernel",
                self._handle,
                *(grid, 1, 1),
                *(threads, 1, 1),
                *(shared_bytes, stream, pointers, None),
                about=f" ({self.name}, {grid} blocks of {threads} threads, {shared_bytes} bytes of shared memory)",
            )

    def _allow(self, shared_bytes: int) -> None:
        """Raise the limit of dynamic shared memory; another thread never lowers it."""
        with _LOADING:
            if shared_bytes > self._allowed:
                about = f" ({self.name}, {shared_bytes} bytes of shared memory)"
                self._driver.call(
                    "cuFuncSetAttribute", self._handle, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes, about=about
                )
                self._allowed = shared_bytes


def pack_arguments(arguments: tuple[Argument, ...], device: torch.device) -> list[Value]:
    """Convert a kernel's arguments to C values.

    >>> pack_arguments((3, 0.5, None), torch.device("cpu"))
    [c_int(3), c_float(0.5), c_void_p(None)]
    """
    return [_pack(index, argument, device) for index, argument in enumerate(arguments)]


def _pack(index: int, argument: Argument, device: torch.device) -> Value:
    if argument is None:
        return c_void_p(None)
    if isinstance(argument, Tensor):
        if argument.device != device:
            raise ArgumentError(f"argument {index} must be a tensor on {device}, got one on {argument.device}")
        return c_void_p(argument.data_ptr())
    if isinstance(argument, int):
        if not -INT_BOUND <= argument < INT_BOUND:
            raise ArgumentError(f"argument {index} must be an integer of 32 bits with a sign, got {argument}")
        return c_int(argument)
    if isinstance(argument, float):
        return c_float(argument)
    raise ArgumentError(f"argument {index} must be a tensor, an int, a float or None, got {argument!r}")


class Driver:
    """The CUDA driver; of its functions, those with `_v2` have older namesakes with other types."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.declare(SIGNATURES)
        self._knows_parameters = hasattr(library, "cuFuncGetParamInfo")  # Since CUDA 12.4.
        if self._knows_parameters:
            library.cuFuncGetParamInfo.argtypes = PARAMETER_SIGNATURE
        self.call("cuInit", 0)

    def declare(self, signatures: dict[str, tuple[type, ...]]) -> None:
        """Set the parameters of functions, which this driver must have."""
        for name, types in signatures.items():
            if not hasattr(self._library, name):
                raise DriverError(f"This driver is too old: it has no {name}")
            getattr(self._library, name).argtypes = types

    def call(self, name: str, *arguments: object, about: str = "") -> None:
        """Call a function; raise an error, with what it is about, unless it succeeds."""
        self._check(getattr(self._library, name)(*arguments), name, about)

    def _check(self, code: int, name: str, about: str = "") -> None:
        if code != 0:
            text = c_char_p()
            self._library.cuGetErrorString(code, text)
            reason = "unknown error" if text.value is None else text.value.decode()
            raise DriverError(f"{name} failed with code {code}: {reason}{about}")

    @contextmanager
    def pushed(self, context: c_void_p) -> Iterator[None]:
        """Make a context current in this thread for a while: one that has not used CUDA has none."""
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", c_void_p())

    def primary_context(self, index: int) -> c_void_p:
        """Return the context that PyTorch uses on a device; it is never released."""
        device, context = c_int(), c_void_p()
        self.call("cuDeviceGet", device, index)
        self.call("cuDevicePrimaryCtxRetain", context, device)
        return context

    def parameter_sizes(self, function: c_void_p) -> list[int] | None:
        """Return the bytes of each parameter of a function; None if this driver cannot tell."""
        if not self._knows_parameters:
            return None
        sizes: list[int] = []
        while True:
            offset, size = c_size_t(), c_size_t()
            code = self._library.cuFuncGetParamInfo(function, len(sizes), offset, size)
            if code == INVALID_VALUE:  # An index after the last.
                return sizes
            self._check(code, "cuFuncGetParamInfo")
            sizes.append(size.value)


class Module:
    """Machine code loaded on a device. It is never unloaded, since graphs may hold its kernels."""

    def __init__(self, driver: Driver, context: c_void_p, cubin: bytes) -> None:
        self._driver = driver
        self._context = context
        self._handle = c_void_p()
        self._functions: dict[str, Function] = {}
        with driver.pushed(context):
            driver.call("cuModuleLoadData", self._handle, cubin)

    def function(self, name: str) -> Function:
        """Return a kernel by name."""
        found = self._functions.get(name)
        if found is None:
            with _LOADING:
                found = self._functions.get(name)
                if found is None:
                    found = self._functions[name] = self._get(name)
        return found

    def _get(self, name: str) -> Function:
        handle = c_void_p()
        with self._driver.pushed(self._context):
            self._driver.call("cuModuleGetFunction", handle, self._handle, name.encode(), about=f" ({name})")
        return Function(self._driver, self._context, handle, name)


class HostNumber:
    """A number in pinned memory that streams can wait for, and any process may write.

    Other streams go on meanwhile, unless they share its queue, and no multiprocessor is kept busy.
    """

    def __init__(self, number: npt.NDArray[np.int32], device: torch.device) -> None:
        self._driver = _driver()
        self._driver.declare(WAIT_SIGNATURES)
        self._context = self._driver.primary_context(torch.empty(0, device=device).device.index)
        self._address = c_uint64()
        with self._driver.pushed(self._context):
            self._driver.call("cuMemHostGetDevicePointer_v2", self._address, number.ctypes.data, 0)

    def wait(self, at_least: int, stream: int) -> None:
        """Let a stream, given by its handle, wait until the number is at least this."""
        with self._driver.pushed(self._context):
            self._driver.call("cuStreamWaitValue32_v2", stream, self._address, at_least, WAIT_UNTIL_AT_LEAST)


def make_stream(index: int, priority: int) -> int:
    """Make a stream like PyTorch's on a device and return its handle; lower numbers are higher priorities."""
    driver, handle = _driver(), c_void_p()
    driver.declare(STREAM_SIGNATURES)
    with driver.pushed(driver.primary_context(index)):
        driver.call("cuStreamCreateWithPriority", handle, NON_BLOCKING, priority)
    assert handle.value is not None
    return handle.value


@cache
def _load(source: str, defines: tuple[str, ...], index: int) -> Module:
    major, minor = torch.cuda.get_device_capability(index)
    cubin = compile_cubin(source, defines, f"sm_{major}{minor}")
    driver = _driver()
    return Module(driver, driver.primary_context(index), cubin)


@cache
def _driver() -> Driver:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoCompiler(f"Launching CUDA kernels needs NVIDIA's driver, got: {error}") from error
    return Driver(library)
