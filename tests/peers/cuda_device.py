"""Runs the exported kernels: on a GPU through libcuda, or on the processor, where g++ compiles the same text.

`Gpu` and `Emulation` have the same methods; `Kernels` calls the kernels of one of them with arrays. NVRTC, from PyPI, makes
the PTX that a driver loads; no toolkit is needed.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from i2s_spec.exports import cuda

#: What outputs hold before a kernel writes them, and behind them.
_POISON: Final = 0x77
#: Bytes behind an output: a broken kernel writes a whole tile of tokens there (68,544 bytes in the tests), and would damage
#: this process behind fewer.
_GUARD: Final = 1 << 18


class Tensor(ctypes.Structure):
    """`I2sTensor` of the text."""

    _fields_ = [
        ("bytes", ctypes.c_uint64), ("rows", ctypes.c_uint64), ("cols", ctypes.c_uint64), ("kind", ctypes.c_int),
        ("order", ctypes.c_int), ("code_map", ctypes.c_int), ("big_endian", ctypes.c_int),
    ]  # fmt: skip


class Product(ctypes.Structure):
    """`I2sProduct` of the text."""

    _fields_ = [
        ("weights", ctypes.c_uint64), ("codes", ctypes.c_uint64), ("sum", ctypes.c_uint64), ("products", ctypes.c_uint64),
        ("rows", ctypes.c_int), ("cols", ctypes.c_int), ("threads", ctypes.c_int), ("first_block", ctypes.c_int),
    ]  # fmt: skip


class Device(Protocol):
    """Memory and launches; pointers are integers."""

    name: str

    def put(self, data: bytes) -> int:
        """Memory with these bytes, at a multiple of 256."""

    def get(self, pointer: int, size: int) -> bytes:
        """Bytes of memory, after all launches."""

    def launch(self, kernel: str, grid: tuple[int, int], block: int, arguments: Sequence[Any], shared: int = 0) -> None:
        """Start a kernel; arguments are ctypes values."""


def _pointers(arguments: Sequence[Any]) -> Any:
    return (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))


def compiled(text: str, options: Sequence[str] = (), architecture: str = "compute_80") -> bytes:
    """The text in PTX, which drivers compile for this architecture and later ones; for `sm_80` the code of that one.

    :raises ImportError: without NVRTC
    :raises ValueError: for a text that it does not compile
    """
    import nvidia.cuda_nvrtc

    folder = Path(next(iter(nvidia.cuda_nvrtc.__path__)))
    nvrtc = ctypes.CDLL(str(next(folder.glob("lib/libnvrtc.so*"))))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    words = [each.encode() for each in (f"-arch={architecture}", *options)]
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"i2s.cu", 0, None, None)
    status = nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    what = "ProgramLog" if status else "PTX" if architecture.startswith("compute") else "CUBIN"
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, found)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if status:
        raise ValueError(found.value.decode())
    return found.raw


class Gpu:
    """The first GPU of the machine.

    :raises OSError: without libcuda
    :raises RuntimeError: for an error of the driver
    """

    def __init__(self, module: bytes) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context, name = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(100)
        self._module, self._stream, version = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        self._kernels: dict[str, ctypes.c_void_p] = {}
        self._do("cuInit", 0)
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._do("cuCtxSetCurrent", context)
        self._do("cuDeviceGetName", name, 100, device)
        self._do("cuDriverGetVersion", ctypes.byref(version))
        self._do("cuStreamCreate", ctypes.byref(self._stream), 1)  # not ordered with the default stream
        self._do("cuModuleLoadData", ctypes.byref(self._module), module)
        self.name = f"{name.value.decode()}, driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}"

    def _do(self, function: str, *arguments: Any) -> None:
        status = getattr(self._cuda, function)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{function}: {(text.value or b'').decode() or status}")

    def put(self, data: bytes) -> int:
        pointer = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(len(data), 1)))
        self._do("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))
        return pointer.value

    def get(self, pointer: int, size: int) -> bytes:
        found = ctypes.create_string_buffer(size)
        self._do("cuStreamSynchronize", self._stream)
        self._do("cuMemcpyDtoH_v2", found, ctypes.c_uint64(pointer), ctypes.c_size_t(size))
        return found.raw

    def launch(self, kernel: str, grid: tuple[int, int], block: int, arguments: Sequence[Any], shared: int = 0) -> None:
        if kernel not in self._kernels:
            self._kernels[kernel] = ctypes.c_void_p()
            self._do("cuModuleGetFunction", ctypes.byref(self._kernels[kernel]), self._module, kernel.encode())
        sizes = [ctypes.c_uint(each) for each in (*grid, 1, block, 1, 1, shared)]
        self._do("cuLaunchKernel", self._kernels[kernel], *sizes, self._stream, _pointers(arguments), None)

    def microseconds(self, launches: Callable[[], None], times: int = 7) -> float:
        """The median time of some launches, as a graph."""
        graph, made, events = ctypes.c_void_p(), ctypes.c_void_p(), [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in events:
            self._do("cuEventCreate", ctypes.byref(event), 0)
        self._do("cuStreamBeginCapture_v2", self._stream, 2)  # relaxed
        launches()
        self._do("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        self._do("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_uint64(0))
        found = []
        for _ in range(times + 1):  # the first is not counted
            self._do("cuEventRecord", events[0], self._stream)
            self._do("cuGraphLaunch", made, self._stream)
            self._do("cuEventRecord", events[1], self._stream)
            self._do("cuEventSynchronize", events[1])
            milliseconds = ctypes.c_float()
            self._do("cuEventElapsedTime", ctypes.byref(milliseconds), *events)
            found.append(1000 * milliseconds.value)
        return sorted(found[1:])[times // 2]


class Emulation:
    """The same text compiled by g++, and coroutines for threads (`cuda_emulation.hpp`).

    :raises OSError: without g++
    """

    def __init__(self, text: str, folder: Path) -> None:
        if shutil.which("g++") is None:
            raise OSError("g++ is not installed")
        emulation = Path(__file__).with_name("cuda_emulation.hpp")
        text = re.sub(r"extern __shared__ (\w+) (\w+)\[\];", r"static \1 \2[1 << 16];", text)
        kernels = "\n".join(f'  if (!strcmp(name, "{name}")) found = typed({name});' for name in cuda.KERNELS)
        source = folder / "kernels.cpp"
        source.write_text(
            f'#include "{emulation}"\n{text}\n'
            'extern "C" int emulated(const char *name, unsigned x, unsigned y, unsigned block, void **arguments) {\n'
            f"  std::unique_ptr<Kernel> found;\n{kernels}\n  return found && launch(*found, x, y, block, arguments);\n}}\n"
        )
        library = folder / "kernels.so"
        words = ["g++", "-std=c++17", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC", source, "-o", library]
        subprocess.run(words, check=True)
        self._library = ctypes.CDLL(str(library))
        self._memory: list[Any] = []
        self.name = (
            "g++ "
            + subprocess.run(
                ["g++", "-dumpfullversion"], capture_output=True, encoding="utf-8", check=True
            ).stdout.strip()
        )

    def put(self, data: bytes) -> int:
        memory = ctypes.create_string_buffer(len(data) + 256)
        self._memory.append(memory)
        pointer = (ctypes.addressof(memory) + 255) // 256 * 256
        ctypes.memmove(pointer, data, len(data))
        return pointer

    def get(self, pointer: int, size: int) -> bytes:
        return ctypes.string_at(pointer, size)

    def launch(self, kernel: str, grid: tuple[int, int], block: int, arguments: Sequence[Any], shared: int = 0) -> None:
        if not self._library.emulated(kernel.encode(), *grid, block, _pointers(arguments)):
            raise RuntimeError(f"{kernel}: threads wait for one that has ended")


class Activations(NamedTuple):
    """Codes int8 [T, K], factors float32 [T], sums int32 [T]."""

    codes: Any
    factors: Any
    sums: Any


class Kernels:
    """The kernels with arrays of NumPy; every output is poisoned before, and bytes behind it must not change."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def _run(
        self, kernel: str, grid: tuple[int, int], block: int, arguments: Sequence[Any], wanted: Sequence[Any],
        shared: int = 0,
    ) -> list[Any]:  # fmt: skip
        """Launch with an output for each array type and shape of `wanted`, in the places of None."""
        sizes = [int(np.prod(shape)) * np.dtype(kind).itemsize for kind, shape in wanted]
        outputs = [self.device.put(bytes([_POISON]) * (size + _GUARD)) for size in sizes]
        places = iter(outputs)
        values = [ctypes.c_uint64(next(places)) if each is None else each for each in arguments]
        self.device.launch(kernel, grid, block, values, shared)
        return [self._output(pointer, size, *of) for pointer, size, of in zip(outputs, sizes, wanted, strict=True)]

    def _output(self, pointer: int, size: int, kind: Any, shape: Any) -> Any:
        data = self.device.get(pointer, size + _GUARD)
        if data[size:] != bytes([_POISON]) * _GUARD:
            raise RuntimeError("a kernel wrote behind its output")
        return np.frombuffer(data[:size], kind).reshape(shape)

    def _in(self, array: Any) -> ctypes.c_uint64:
        return ctypes.c_uint64(self.device.put(np.ascontiguousarray(array).tobytes()))

    def _elements(self, kernel: str, kind: Any, data: bytes, shape: tuple[int, int], settings: Sequence[int]) -> Any:
        count = shape[0] * shape[1]
        tensor = Tensor(self.device.put(data), *shape, *settings)
        return self._run(kernel, (-(-count // 256), 1), 256, [tensor, None], [(kind, shape)])[0]

    def decode(self, data: bytes, shape: tuple[int, int], settings: Sequence[int]) -> Any:
        """Weights int8; settings are kind, order, code map, and whether big-endian."""
        return self._elements("i2s_decode", np.int8, data, shape, settings)

    def dequantise(self, data: bytes, shape: tuple[int, int], settings: Sequence[int]) -> Any:
        """Values float32."""
        return self._elements("i2s_dequantise", np.float32, data, shape, settings)

    def codes(self, x: Any) -> Activations:
        """The codes of tokens, float32 [T, K]."""
        tokens, cols = x.shape
        wanted = [(np.int8, x.shape), (np.float32, tokens), (np.int32, tokens)]
        arguments = [self._in(x), None, None, None, ctypes.c_uint64(cols)]
        return Activations(*self._run("i2s_codes", (tokens, 1), 128, arguments, wanted))

    def product(self, data: bytes, shape: tuple[int, int], settings: Sequence[int], codes: Any) -> Any:
        """Sums int32 [T, N], of any type."""
        tensor = Tensor(self.device.put(data), *shape, *settings)
        wanted = [(np.int32, (len(codes), shape[0]))]
        grid = (-(-shape[0] // 4), len(codes))
        return self._run("i2s_product", grid, 128, [tensor, self._in(codes), None], wanted)[0]

    def product_dp4a(self, matrices: Sequence[tuple[bytes, tuple[int, int], int, Any]]) -> list[Any]:
        """Sums int32 [N] of several matrices in one launch, each a payload, its shape, threads of a row and codes [K]."""
        made, outputs, first, block = [], [], 0, 128
        for data, (rows, cols), threads, codes in matrices:
            size = 4 * rows
            outputs.append((self.device.put(bytes([_POISON]) * (size + _GUARD)), size, np.int32, rows))
            total = self._in(codes.sum(keepdims=True, dtype=np.int32))
            pointers = (self.device.put(data), self._in(codes).value, total.value, outputs[-1][0])
            made.append(Product(*pointers, rows, cols, threads, first))
            first += -(-rows * threads // block)
        array = self.device.put(b"".join(bytes(each) for each in made))
        arguments = [ctypes.c_uint64(array), ctypes.c_int(len(made))]
        widest = max(cols for _, (_, cols), _, _ in matrices)
        self.device.launch("i2s_product_dp4a", (first, 1), block, arguments, widest)
        return [self._output(*each) for each in outputs]

    def product_mma(self, data: bytes, shape: tuple[int, int], codes: Any) -> Any:
        """Sums int32 [T, N]."""
        rows, cols = shape
        numbers = [ctypes.c_int(each) for each in (rows, cols, len(codes))]
        arguments = [
            self._in(np.frombuffer(data, np.uint8)),
            self._in(codes),
            self._in(codes.sum(1, dtype=np.int32)),
            None,
        ]
        grid = (-(-rows // 128), -(-len(codes) // 64))
        return self._run("i2s_product_mma", grid, 256, [*arguments, *numbers], [(np.int32, (len(codes), rows))])[0]

    def epilogue(self, products: Any, factors: Any, scale: Any) -> Any:
        """Values float32 [T, N]."""
        tokens, rows = products.shape
        arguments = [self._in(products), self._in(factors), ctypes.c_float(scale), None]
        numbers = [ctypes.c_uint64(rows), ctypes.c_uint64(tokens)]
        grid = (-(-products.size // 256), 1)
        return self._run("i2s_epilogue", grid, 256, [*arguments, *numbers], [(np.float32, products.shape)])[0]
