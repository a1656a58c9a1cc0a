"""Compiling and launching CUDA kernels, with the driver replaced: this needs no GPU."""

import ctypes
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from ctypes import c_float, c_int, c_void_p
from pathlib import Path
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from popbandits.errors import ArgumentError
from popbandits_experiments.paper.procgen import compiled, nvrtc, streams
from popbandits_experiments.paper.procgen.compiled import CompileError, Driver, DriverError, Kernels, Module, NoCompiler
from popbandits_experiments.paper.procgen.compiled import pack_arguments as pack

CPU = torch.device("cpu")

SOURCE = """
#include "units.cuh"
extern "C" __global__ void scale(float* out, const float* in, int n, float factor) {
    SHARED_MEMORY(memory);
    u32 matrices[4];
    load_matrices(matrices, shared_address(memory) + Bordered<8>::bytes(CHANNELS));
    float total[4] = {0, 0, 0, 0};
    multiply(total, matrices, matrices[0], matrices[1]);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor + total[0] + high(matrices[2]);
}
"""


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "popbandits"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "scale.cu").write_text(SOURCE)
    (folder / "units.cuh").write_text((nvrtc.SOURCES / "units.cuh").read_text("utf-8"))
    return folder


@pytest.fixture
def forgotten_compiler() -> Iterator[None]:
    nvrtc.find_compiler.cache_clear()
    yield
    nvrtc.find_compiler.cache_clear()


class CountingCompiler:
    """Stands for NVRTC: machine code is the source with its headers and options."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compilations = 0
        monkeypatch.setattr(nvrtc, "find_compiler", lambda: None)
        monkeypatch.setattr(nvrtc, "compiler_version", lambda library: (13, 0))
        monkeypatch.setattr(nvrtc, "_compile", self.compile)

    def compile(
        self, library: None, source: str, text: str, headers: dict[str, str], options: tuple[str, ...]
    ) -> bytes:
        self.compilations += 1
        return repr((source, text, headers, options)).encode()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> CountingCompiler:
    return CountingCompiler(monkeypatch)


@pytest.mark.usefixtures("forgotten_compiler")
@pytest.mark.parametrize(
    ("version", "names", "packages"),
    [
        ("13.0", "libnvrtc.so.13", "nvidia-cuda-nvrtc"),
        ("12.4", "libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12"),
        (None, "libnvrtc.so.13 or libnvrtc.so.12", "nvidia-cuda-nvrtc or nvidia-cuda-nvrtc-cu12"),
    ],
)
def test_without_nvrtc_the_error_says_what_to_install(
    version: str | None, names: str, packages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(ctypes, "CDLL", fail)
    with pytest.raises(NoCompiler, match=rf"needs NVRTC, and {re.escape(names)} was .*; pip install {packages}$"):
        nvrtc.compile_cubin("any.cu", (), "sm_90")


def test_without_a_driver_there_is_no_compiler_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    compiled._driver.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", fail)
    with pytest.raises(NoCompiler, match=re.escape("needs NVIDIA's driver, got: libcuda.so.1: cannot open")):
        compiled._driver()


@pytest.mark.parametrize(("folder", "major"), [("cu13", 13), ("cuda_nvrtc", 12)])
def test_the_compiler_that_pytorch_installs_is_tried_first(
    folder: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    monkeypatch.setenv("CUDA_HOME", "/opt/toolkit")
    found = list(nvrtc._candidates(major))
    name = f"libnvrtc.so.{major}"
    assert str(tmp_path / "nvidia" / folder / "lib" / name) in found[:2]
    assert found.index(name) < found.index(f"/opt/toolkit/lib64/{name}") < found.index(f"/usr/local/cuda/lib64/{name}")


def test_the_key_of_the_cache_depends_on_all_that_is_compiled() -> None:
    keys = {
        nvrtc.cache_key("text", {"a.cuh": "a"}, ("-DN=1",), (13, 0)),
        nvrtc.cache_key("other", {"a.cuh": "a"}, ("-DN=1",), (13, 0)),
        nvrtc.cache_key("text", {"a.cuh": "b"}, ("-DN=1",), (13, 0)),
        nvrtc.cache_key("text", {"b.cuh": "a"}, ("-DN=1",), (13, 0)),
        nvrtc.cache_key("text", {"a.cuh": "a"}, ("-DN=2",), (13, 0)),
        nvrtc.cache_key("text", {"a.cuh": "a"}, ("-DN=1",), (13, 1)),
    }
    assert len(keys) == 6
    assert nvrtc.cache_key("text", {"a.cuh": "a", "b.cuh": ""}, (), (13, 0)) == nvrtc.cache_key(
        "text", {"b.cuh": "", "a.cuh": "a"}, (), (13, 0)
    )


def test_a_source_is_compiled_again_only_after_a_change(
    compiler: CountingCompiler, sources: Path, cache_folder: Path
) -> None:
    first = nvrtc.compile_cubin("scale.cu", ("CHANNELS=8",), "sm_90", sources)
    assert nvrtc.compile_cubin("scale.cu", ("CHANNELS=8",), "sm_90", sources) == first
    assert compiler.compilations == 1
    assert b"'--gpu-architecture=sm_90', '--std=c++17'" in first
    assert b"'-DCHANNELS=8'" in first
    with open(sources / "units.cuh", "a") as file:
        file.write("// More.\n")
    second = nvrtc.compile_cubin("scale.cu", ("CHANNELS=8",), "sm_90", sources)
    assert b"// More." in second
    assert compiler.compilations == 2
    assert len(list(cache_folder.iterdir())) == 2, "drafts stay behind"


def test_a_damaged_file_in_the_cache_is_replaced(compiler: CountingCompiler, sources: Path, cache_folder: Path) -> None:
    first = nvrtc.compile_cubin("scale.cu", (), "sm_90", sources)
    (path,) = cache_folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert nvrtc.compile_cubin("scale.cu", (), "sm_90", sources) == first
    assert compiler.compilations == 2
    assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_to_is_no_error(
    compiler: CountingCompiler, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    nvrtc.compile_cubin("scale.cu", (), "sm_90", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "full"))
    monkeypatch.setattr(os, "replace", raise_full_disk)
    nvrtc.compile_cubin("scale.cu", (), "sm_90", sources)
    assert compiler.compilations == 2
    assert not list((tmp_path / "full" / "popbandits").iterdir())


def raise_full_disk(*arguments: object) -> None:
    raise OSError("No space left on device")


def has_compiler() -> bool:
    try:
        nvrtc.find_compiler()
    except NoCompiler:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not has_compiler(), reason="NVRTC is not installed: pip install nvidia-cuda-nvrtc")


@needs_nvrtc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_nvrtc_compiles_a_kernel_that_includes_our_headers(
    architecture: str, sources: Path, cache_folder: Path
) -> None:
    cubin = nvrtc.compile_cubin("scale.cu", ("CHANNELS=8",), architecture, sources)
    assert cubin.startswith(b"\x7fELF")
    assert b".text.scale\0" in cubin
    (path,) = cache_folder.iterdir()
    assert path.read_bytes().endswith(cubin)


@needs_nvrtc
@pytest.mark.usefixtures("cache_folder")
def test_an_error_in_a_source_comes_with_the_log_of_nvrtc(sources: Path) -> None:
    with pytest.raises(CompileError, match=r'^Could not compile scale\.cu with .*\n.*identifier "CHANNELS" is undef'):
        nvrtc.compile_cubin("scale.cu", (), "sm_90", sources)


def test_arguments_are_packed_as_pointers_ints_and_floats() -> None:
    tensor = torch.arange(8.0)
    values = pack((tensor, tensor[3:], None, -5, True, 0.1), CPU)
    assert [type(value) for value in values] == [c_void_p, c_void_p, c_void_p, c_int, c_int, c_float]
    start = tensor.data_ptr()
    assert [value.value for value in values] == [start, start + 12, None, -5, 1, pytest.approx(0.1)]


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_an_integer_of_more_than_32_bits_is_refused(number: int) -> None:
    assert pack((2**31 - 1, -(2**31)), CPU)[0].value == 2**31 - 1
    with pytest.raises(ArgumentError, match=f"argument 1 must be an integer of 32 bits with a sign, got {number}"):
        pack((0, number), CPU)


def test_other_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="argument 0 must be a tensor on cpu, got one on meta"):
        pack((torch.empty(1, device="meta"),), CPU)
    with pytest.raises(ArgumentError, match="argument 0 must be a tensor, an int, a float or None, got 'three'"):
        pack(("three",), CPU)  # type: ignore[arg-type]


def test_kernels_run_on_cuda_devices_only() -> None:
    with pytest.raises(ArgumentError, match="device must be a CUDA device, got 'cpu'"):
        Kernels("any.cu", device="cpu")


class FakeLibrary:
    """Stands for libcuda with one kernel, `scale(pointer, int, float)`: keeps what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.stack: list[Any] = []
        self.failing: str | None = None
        for name in compiled.SIGNATURES | compiled.WAIT_SIGNATURES | compiled.STREAM_SIGNATURES:
            setattr(self, name, self.recorded(name))
        self.cuFuncGetParamInfo = self.recorded("cuFuncGetParamInfo")

    def recorded(self, name: str) -> Callable[..., int]:
        answer = getattr(self, f"answer_{name}", lambda *arguments: 0)

        def call(*arguments: Any) -> int:
            self.calls.append((name, arguments))
            return 700 if name == self.failing else answer(*arguments)

        return call

    def count(self, name: str) -> int:
        return sum(called == name for called, _ in self.calls)

    def answer_cuDevicePrimaryCtxRetain(self, context: c_void_p, device: c_int) -> int:
        context.value = 5
        return 0

    def answer_cuCtxPushCurrent_v2(self, context: c_void_p) -> int:
        self.stack.append(context.value)
        return 0

    def answer_cuCtxPopCurrent_v2(self, context: c_void_p) -> int:
        self.stack.pop()
        return 0

    def answer_cuModuleGetFunction(self, handle: c_void_p, module: c_void_p, name: bytes) -> int:
        handle.value = 77
        return 0 if name == b"scale" else 500

    def answer_cuGetErrorString(self, code: int, text: ctypes.c_char_p) -> int:
        text.value = f"error {code}".encode()
        return 0

    def answer_cuFuncGetAttribute(self, value: c_int, number: int, handle: c_void_p) -> int:
        value.value = {1: 16, 3: 0, 4: 168}[number]
        return 0

    def answer_cuFuncGetParamInfo(self, handle: c_void_p, index: int, offset: Any, size: Any) -> int:
        if index == 3:
            return compiled.INVALID_VALUE
        size.value = (8, 4, 4)[index]
        return 0

    def answer_cuMemHostGetDevicePointer_v2(self, address: Any, pointer: int, flags: int) -> int:
        address.value = pointer + 1000
        return self.answer_cuLaunchKernel()

    def answer_cuStreamWaitValue32_v2(self, *arguments: Any) -> int:
        return self.answer_cuLaunchKernel()

    def answer_cuStreamCreateWithPriority(self, handle: c_void_p, flags: int, priority: int) -> int:
        handle.value = 1000 + self.count("cuStreamCreateWithPriority")
        return self.answer_cuLaunchKernel()

    def answer_cuLaunchKernel(self, *arguments: Any) -> int:
        assert self.stack == [5], "no context is current"
        return 0


def make_module(library: FakeLibrary) -> Module:
    return Module(Driver(library), c_void_p(5), b"cubin")  # type: ignore[arg-type]


def test_a_launch_hands_over_addresses_of_its_arguments() -> None:
    library = FakeLibrary()
    function = make_module(library).function("scale")
    values = pack((torch.zeros(1), 3, 0.5), CPU)
    function.check_sizes(values)
    function.launch(6, 128, 1024, 99, values)
    name, arguments = library.calls[-2]
    assert name == "cuLaunchKernel"
    assert (arguments[0].value, *arguments[1:9], arguments[10]) == (77, 6, 1, 1, 128, 1, 1, 1024, 99, None)
    assert c_int.from_address(arguments[9][1]).value == 3
    assert c_float.from_address(arguments[9][2]).value == 0.5
    assert not library.stack, "a context stays current"
    assert library.count("cuFuncSetAttribute") == 0


def test_arguments_that_do_not_fit_the_parameters_are_refused() -> None:
    function = make_module(FakeLibrary()).function("scale")
    with pytest.raises(ArgumentError, match=re.escape("scale must have these sizes in bytes: [8, 4, 4], got [8, 4]")):
        function.check_sizes(pack((None, 3), CPU))


def test_drivers_that_do_not_know_parameters_launch_too() -> None:
    library = FakeLibrary()
    del library.cuFuncGetParamInfo
    function = make_module(library).function("scale")
    values = pack((None,), CPU)
    function.check_sizes(values)
    function.launch(1, 32, 0, 0, values)
    assert library.count("cuLaunchKernel") == 1


def test_the_limit_of_shared_memory_is_raised_when_needed_and_never_lowered() -> None:
    library = FakeLibrary()
    function = make_module(library).function("scale")
    for kibibytes in (48, 100, 100, 64, 200):
        function.launch(1, 32, kibibytes * 1024, 0, pack((None, 3, 0.5), CPU))
    raised = [arguments[1:] for name, arguments in library.calls if name == "cuFuncSetAttribute"]
    assert raised == [(8, 100 * 1024), (8, 200 * 1024)]


def test_a_function_tells_what_it_uses() -> None:
    function = make_module(FakeLibrary()).function("scale")
    assert (function.registers, function.local_bytes, function.shared_bytes) == (168, 0, 16)


def test_threads_share_a_function() -> None:
    library = FakeLibrary()
    module = make_module(library)
    barrier = Barrier(8)
    found: list[Any] = []

    def get() -> None:
        barrier.wait()
        found.append(module.function("scale"))

    threads = [Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    assert library.count("cuModuleGetFunction") == 1


def test_an_error_of_the_driver_names_the_call_and_the_kernel() -> None:
    library = FakeLibrary()
    module = make_module(library)
    with pytest.raises(DriverError, match=re.escape("cuModuleGetFunction failed with code 500: error 500 (missing)")):
        module.function("missing")
    library.failing = "cuLaunchKernel"
    wanted = "code 700: error 700 (scale, 6 blocks of 128 threads, 0 bytes of shared memory)"
    with pytest.raises(DriverError, match=re.escape(wanted)):
        module.function("scale").launch(6, 128, 0, 0, [])
    assert not library.stack, "a context stays current"


def test_a_stream_waits_for_a_number_at_its_address_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    library, number = FakeLibrary(), np.zeros(1, np.int32)
    monkeypatch.setattr(compiled, "_driver", lambda: Driver(library))  # type: ignore[arg-type]
    host_number = compiled.HostNumber(number, CPU)
    host_number.wait(7, 99)
    (asked,) = (arguments for name, arguments in library.calls if name == "cuMemHostGetDevicePointer_v2")
    assert asked[1] == number.ctypes.data
    (waited,) = (arguments for name, arguments in library.calls if name == "cuStreamWaitValue32_v2")
    assert (waited[0], waited[1].value, *waited[2:]) == (99, number.ctypes.data + 1000, 7, 0)
    assert not library.stack, "a context stays current"


class Stream:
    """Stands for PyTorch's streams, those that it makes and those that it is given."""

    def __init__(self, given: Any = None, *, device: Any = None, priority: int = 0) -> None:
        self.cuda_stream = given if isinstance(given, int) else 0


class Owner:
    """Owns streams."""


def test_a_stream_is_one_members_alone_until_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    library, place = FakeLibrary(), torch.device("cuda", 2)
    monkeypatch.setattr(compiled, "_driver", lambda: Driver(library))  # type: ignore[arg-type]
    monkeypatch.setattr(torch, "empty", lambda size, device: SimpleNamespace(device=place))
    monkeypatch.setattr(torch.cuda, "ExternalStream", Stream)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(streams, "_FREE", defaultdict(list))

    def take(owner: Owner, priority: int = -1) -> int:
        found = streams.own_stream(owner, place, priority)
        assert found is not None
        return int(found.cuda_stream)

    first, second = Owner(), Owner()
    taken = [take(first), take(second), take(second, 0)]
    assert taken == [1001, 1002, 1003]
    asked = [arguments[1:] for name, arguments in library.calls if name == "cuStreamCreateWithPriority"]
    assert asked == [(1, -1), (1, -1), (1, 0)]
    assert not library.stack, "a context stays current"
    del first
    third = Owner()
    assert [take(third), take(third), take(third, 0)] == [1001, 1004, 1005]
    delattr(library, "cuStreamCreateWithPriority")
    assert take(third) == 0  # One of PyTorch's.
    assert streams.own_stream(third, CPU, 0) is None


def test_a_driver_that_cannot_wait_is_named_as_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary()
    delattr(library, "cuStreamWaitValue32_v2")
    monkeypatch.setattr(compiled, "_driver", lambda: Driver(library))  # type: ignore[arg-type]
    with pytest.raises(DriverError, match="This driver is too old: it has no cuStreamWaitValue32_v2"):
        compiled.HostNumber(np.zeros(1, np.int32), CPU)


def test_a_cache_in_the_folder_that_somebody_works_in_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    path = nvrtc._cache_path("scale.cu", "key")
    assert path == Path.home() / ".cache" / "popbandits" / "scale-key.cubin"
