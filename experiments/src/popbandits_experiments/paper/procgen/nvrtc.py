"""Compiles the package's CUDA sources with NVRTC, CUDA's compiler as a library, and keeps what it compiled on disk.

Compiling needs neither a GPU nor CUDA's headers.
"""

import ctypes
import hashlib
import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path

import torch

from popbandits.errors import PopbanditsError

SOURCES = Path(__file__).parent / "cuda"
MAJOR_VERSIONS = (13, 12)  # Of CUDA, in the order of preference where PyTorch has none itself.
OPTIONS = ("--std=c++17", "--device-as-default-execution-space")  # The latter allows plain constexpr functions.
DIGEST_BYTES = hashlib.sha256().digest_size

SIGNATURES: dict[str, tuple[type, ...]] = {
    "nvrtcVersion": (POINTER(c_int), POINTER(c_int)),
    "nvrtcCreateProgram": (
        *(POINTER(c_void_p), c_char_p, c_char_p),
        *(c_int, POINTER(c_char_p), POINTER(c_char_p)),
    ),
    "nvrtcCompileProgram": (c_void_p, c_int, POINTER(c_char_p)),
    "nvrtcGetProgramLogSize": (c_void_p, POINTER(c_size_t)),
    "nvrtcGetProgramLog": (c_void_p, c_char_p),
    "nvrtcGetCUBINSize": (c_void_p, POINTER(c_size_t)),
    "nvrtcGetCUBIN": (c_void_p, c_char_p),
    "nvrtcDestroyProgram": (POINTER(c_void_p),),
}


class NoCompiler(PopbanditsError, RuntimeError):
    """CUDA's run-time compiler, or the driver that loads what it compiles, is not installed."""


class CompileError(PopbanditsError, RuntimeError):
    """NVRTC refused a source; the message holds its log."""


def compile_cubin(source: str, defines: tuple[str, ...], architecture: str, folder: Path = SOURCES) -> bytes:
    """Compile a file of a folder to machine code, or read it from the cache of earlier compilations.

    Args:
        source: The file's name. It can include the folder's headers (`*.cuh`) by name.
        defines: Macros, as "NAME" or "NAME=VALUE".
        architecture: What to compile for, such as "sm_90".
        folder: Where the source and its headers are.
    """
    library = find_compiler()
    text = (folder / source).read_text("utf-8")
    headers = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("*.cuh"))}
    options = (f"--gpu-architecture={architecture}", *OPTIONS, *(f"-D{define}" for define in defines))
    path = _cache_path(source, cache_key(text, headers, options, compiler_version(library)))
    cubin = None if path is None else _read(path)
    if cubin is None:
        cubin = _compile(library, source, text, headers, options)
        if path is not None:
            _write(path, cubin)
    return cubin


@cache
def find_compiler() -> ctypes.CDLL:
    """Load the NVRTC of PyTorch's CUDA version; of any supported version if PyTorch has no CUDA."""
    version = torch.version.cuda
    majors = MAJOR_VERSIONS if version is None else (int(version.partition(".")[0]),)
    for major in majors:
        for candidate in _candidates(major):
            with suppress(OSError):
                library = ctypes.CDLL(candidate)
                for name, types in SIGNATURES.items():
                    getattr(library, name).argtypes = types
                return library
    names = " or ".join(f"libnvrtc.so.{major}" for major in majors)
    packages = " or ".join("nvidia-cuda-nvrtc" + ("-cu12" if major == 12 else "") for major in majors)
    raise NoCompiler(
        f"Compiling CUDA kernels needs NVRTC, and {names} was found neither among Python's packages, nor by the "
        f"dynamic loader, nor in a CUDA toolkit; pip install {packages}"
    )


def _candidates(major: int) -> Iterator[str]:
    """Yield where NVRTC can be: first what PyTorch uses, which the driver surely supports."""
    name = f"libnvrtc.so.{major}"
    nvidia = importlib.util.find_spec("nvidia")
    packages = [] if nvidia is None else [Path(each) for each in nvidia.submodule_search_locations or ()]
    folders = [package / folder / "lib" for package in packages for folder in (f"cu{major}", "cuda_nvrtc")]
    yield from (str(folder / name) for folder in (*folders, Path(torch.__file__).parent / "lib"))
    yield name  # Loaded already, or on the loader's path.
    toolkits = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", f"/usr/local/cuda-{major}")
    yield from (str(Path(toolkit) / "lib64" / name) for toolkit in toolkits if toolkit)
    yield str(Path(sys.prefix) / "lib" / name)  # Conda.


def compiler_version(library: ctypes.CDLL) -> tuple[int, int]:
    """Return the version of an NVRTC, such as (13, 0)."""
    major, minor = c_int(), c_int()
    _check(library.nvrtcVersion(major, minor), "nvrtcVersion")
    return major.value, minor.value


def cache_key(text: str, headers: Mapping[str, str], options: tuple[str, ...], version: tuple[int, int]) -> str:
    """Hash everything that the machine code depends on."""
    content = json.dumps([text, sorted(headers.items()), options, version])
    return hashlib.sha256(content.encode()).hexdigest()


def _compile(
    library: ctypes.CDLL, source: str, text: str, headers: Mapping[str, str], options: tuple[str, ...]
) -> bytes:
    program = c_void_p()
    code = library.nvrtcCreateProgram(
        program, text.encode(), source.encode(), len(headers), _strings(headers.values()), _strings(headers)
    )
    _check(code, "nvrtcCreateProgram")
    try:
        if library.nvrtcCompileProgram(program, len(options), _strings(options)) != 0:
            log = _read_back(library, "nvrtcGetProgramLog", program).rstrip(b"\0").decode("utf-8", "replace")
            raise CompileError(f"Could not compile {source} with {' '.join(options)}:\n{log}")
        return _read_back(library, "nvrtcGetCUBIN", program)
    finally:
        library.nvrtcDestroyProgram(program)


def _strings(texts: Iterable[str]) -> "ctypes.Array[c_char_p]":
    encoded = [text.encode() for text in texts]
    return (c_char_p * len(encoded))(*encoded)


def _read_back(library: ctypes.CDLL, getter: str, program: c_void_p) -> bytes:
    size = c_size_t()
    _check(getattr(library, f"{getter}Size")(program, size), f"{getter}Size")
    content = ctypes.create_string_buffer(size.value)
    _check(getattr(library, getter)(program, content), getter)
    return content.raw


def _check(code: int, called: str) -> None:
    if code != 0:
        raise CompileError(f"{called} of NVRTC failed with code {code}")


def _cache_path(source: str, key: str) -> Path | None:
    try:
        given = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # A relative one is ignored: it could be in a folder that somebody else sent.
        folder = given if given.is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # An account without a home folder.
        return None
    return folder / "popbandits" / f"{Path(source).stem}-{key}.cubin"


def _read(path: Path) -> bytes | None:
    """Read a cached cubin; return None if there is none, or if a crash left less than was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, cubin = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    return cubin if hashlib.sha256(cubin).digest() == digest else None


def _write(path: Path, cubin: bytes) -> None:
    """Cache a cubin after its digest, complete or not at all; a cache that cannot be written to stays as it is."""
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_bytes(hashlib.sha256(cubin).digest() + cubin)
            os.replace(draft, path)
        except OSError:
            draft.unlink(missing_ok=True)
