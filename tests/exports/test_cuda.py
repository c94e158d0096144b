"""The kernels compile to PTX without an instruction that options change, and give what the definitions give, to the bit.

They run on the processor: g++ compiles the same text with coroutines for threads. On a GPU, `python tests/peers cuda` makes
the same checks.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from peers import cuda as command
from peers import cuda_device

from i2s_spec.exports import cuda, export

TEXT = export("cuda")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on the path")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> cuda_device.Kernels:
    return cuda_device.Kernels(cuda_device.Emulation(TEXT, tmp_path_factory.mktemp("cuda")))


@needs_compiler
@pytest.mark.parametrize("name", command.CHECKS)
def test_kernels_are_equal_to_the_definitions(kernels: cuda_device.Kernels, name: str) -> None:
    assert command.CHECKS[name](kernels, np.random.default_rng(7))


#: A change of the text, and the check that finds it.
BROKEN = {
    "other order of quarters": ("w.x >> shift", "w.x >> 6 - shift", "products: any type, dp4a, mma"),
    "threads do not wait for codes": (
        "matrix.codes[i];\n  }\n  __syncthreads();", "matrix.codes[i];\n  }", "products: any type, dp4a, mma",
    ),
    "threads do not wait for the tile": (
        "step.weights[3]};\n    __syncthreads();", "step.weights[3]};", "products: any type, dp4a, mma",
    ),
    "columns of registers": ("{q[0], q[4]}", "{q[4], q[0]}", "products: any type, dp4a, mma"),
    "writes behind the output": ("if (at < tokens && row < rows)", "if (row < rows)", "products: any type, dp4a, mma"),
    "first block of a matrix": ("blockIdx.x - matrix.first_block", "blockIdx.x", "products: any type, dp4a, mma"),
    "NaN lost in the largest": ("& 0x7fffffffu);", "& 0x7f7fffffu);", "codes of activations"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("name", BROKEN)
def test_broken_kernels_are_found(name: str, tmp_path: Path) -> None:
    old, new, check = BROKEN[name]
    assert TEXT.count(old) == 1
    broken = cuda_device.Kernels(cuda_device.Emulation(TEXT.replace(old, new), tmp_path))
    if name == "writes behind the output":
        with pytest.raises(RuntimeError, match="wrote behind its output"):
            command.CHECKS[check](broken, np.random.default_rng(7))
    else:
        assert not command.CHECKS[check](broken, np.random.default_rng(7))


@pytest.mark.parametrize("options", [(), ("-use_fast_math",), ("-G",)], ids=["plain", "fast-math", "debug"])
def test_ptx(options: tuple[str, ...]) -> None:
    """Every kernel is there, no function is missing, and options change no operation on floats that could round."""
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    found = cuda_device.compiled(TEXT, options).decode()
    assert set(re.findall(r"\.entry (\w+)\(", found)) == set(cuda.KERNELS)
    assert ".extern .func" not in found
    assert ".version 8.0" in found  # what drivers from CUDA 12.0 on read
    assert ".approx" not in found
    assert not re.findall(r"fma\S*\.f(?:32|64)", found)
    operations = set(re.findall(r"\b((?:mul|div|add|sub|sqrt|rcp)\.\S*f(?:32|64))", found))
    assert operations == {"mul.rn.f32", "div.rn.f32", "div.rn.f64"}
    assert "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" in found
    assert "dp4a.s32.s32" in found


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_machine_code(architecture: str) -> None:
    """The assembler takes the PTX, as that of the driver has to."""
    pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC is not installed")
    assert cuda_device.compiled(TEXT, architecture=architecture).startswith(b"\x7fELF")
    with pytest.raises(ValueError, match="Unresolved extern function"):  # why the text has the instruction
        cuda_device.compiled(
            'extern "C" __global__ void f(int *x) { *x = __dp4a(x[0], x[1], x[2]); }', architecture=architecture
        )
