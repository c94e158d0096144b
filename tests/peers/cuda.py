"""Check the exported kernels in CUDA C on a GPU, one line each, and measure them: `python tests/peers cuda`, in a checkout.

    python tests/peers cuda              checks, test vectors and figures on the first GPU; needs libcuda and NVRTC
    python tests/peers cuda --emulate    checks and test vectors on the processor, by g++

Without libcuda or NVRTC it says so and ends with status 0. Every check compares with the definitions, bit for bit.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from peers.cuda_device import Gpu, Kernels

#: Bytes of weights that no cache of a GPU holds.
_CACHE: Final = 1 << 28

ADAPTER: Final = Path(__file__).with_name("adapters") / "cuda.py"

#: Rows and columns of the products of a layer of BitNet-b1.58-2B-4T, and the threads of a row.
LAYER: Final = ((3840, 2560, 32), (2560, 2560, 32), (13824, 2560, 8), (2560, 6912, 16))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--emulate", action="store_true", help="run on the processor")


def run(options: argparse.Namespace) -> int:
    """Run checks, vectors and figures; the exit status is 1 if a check failed."""
    from i2s_spec.exports import export
    from peers import cuda_device

    started, text = time.monotonic(), export("cuda")
    with tempfile.TemporaryDirectory(prefix="i2s-cuda-") as folder:
        device: Any
        try:
            emulation = options.emulate and cuda_device.Emulation(text, Path(folder))
            device = emulation or cuda_device.Gpu(cuda_device.compiled(text))
        except (ImportError, OSError) as reason:
            print(f"skipped: {reason}")
            return 0
        print(device.name)
        sound = True
        for name, check in CHECKS.items():
            sound &= _line(name, lambda check=check: check(cuda_device.Kernels(device), _random()))
        sound &= _line("test vectors", lambda: vectors(options.emulate))
        if not options.emulate:
            for line in figures(device):
                print(line, flush=True)
    print(f"{time.monotonic() - started:.0f} s")
    return int(not sound)


def _random() -> Any:
    import numpy as np

    return np.random.default_rng(time.time_ns())


def _line(name: str, check: Callable[[], bool]) -> bool:
    try:
        found = "ok" if check() else "wrong"
    except RuntimeError as error:
        found = f"error: {error}"
    print(f"{name}: {found}", flush=True)
    return found == "ok"


def vectors(emulate: bool) -> bool:
    """Whether the adapter passes every test vector that it takes."""
    from i2s_spec.conformance.protocol import read_cases
    from i2s_spec.conformance.report import summary
    from i2s_spec.conformance.vectors.all_vectors import write_suite
    from peers.decoders import run_on

    with tempfile.TemporaryDirectory(prefix="i2s-vectors-") as place:
        write_suite(Path(place) / "vectors")
        found = run_on(
            [sys.executable, str(ADAPTER), *["--emulate"][: int(emulate)]], read_cases(Path(place) / "vectors")
        )
    print(summary(found))
    return all(each.status.value not in ("fail", "errored") for each in found.results)


def packed(trits: Any) -> bytes:
    """A payload of I2_S in the canonical layout, without a tail; elements: a multiple of 128."""
    codes = (trits.reshape(-1, 4, 32) + 1).astype("u1")
    return bytes((codes[:, 0] << 6 | codes[:, 1] << 4 | codes[:, 2] << 2 | codes[:, 3]).tobytes())


def decode_check(kernels: Kernels, random: Any) -> bool:
    """Every layout with every code map."""
    import numpy as np

    from i2s_spec.exports import wgsl
    from i2s_spec.exports.c_header import NO_TRIT
    from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

    rows, cols, equal = 12, 160, True
    k = np.arange(rows * cols)
    for order, layout in enumerate(LAYOUTS.values()):
        payload = random.integers(0, 256, rows * cols // 4, np.uint8)
        codes = payload[layout.byte_of(k, rows, cols)] >> layout.shift_of(k, rows, cols).astype(np.uint8) & 3
        for code_map, each in enumerate(CODE_MAPS.values()):
            trits = np.array([NO_TRIT if trit is None else trit for trit in each.trits])
            found = kernels.decode(payload.tobytes() + bytes(32), (rows, cols), (wgsl.I2S, order, code_map, 0))
            equal &= np.array_equal(found.reshape(-1), trits[codes])
    return equal


def dequantise_check(kernels: Kernels, random: Any) -> bool:
    """The scale of a tensor, subnormal and not finite too, in both byte orders."""
    import numpy as np

    trits, equal = random.integers(-1, 2, (4, 256), np.int8), True
    for scale in (0.37, 1e-45, -1e-40, 3e38, np.inf, np.nan, 0.0, -0.0):
        for big_endian in (0, 1):
            tail = np.array([scale], ">f4" if big_endian else "<f4").tobytes() + bytes(28)
            found = kernels.dequantise(packed(trits) + tail, trits.shape, (0, 0, 0, big_endian))
            with np.errstate(all="ignore"):
                equal &= same_bits(found, trits.astype(np.float32) * np.float32(scale))
    return equal


def same_bits(found: Any, wanted: Any) -> bool:
    """Whether floats are equal to the bit; every NaN is like every other."""
    import numpy as np

    return bool(np.all((found.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(found) & np.isnan(wanted))))


def group_check(kernels: Kernels, random: Any) -> bool:
    """Every type with a scale for each group, in both byte orders: weights, values with subnormal halves, products."""
    import numpy as np

    from i2s_spec.codec import blocks
    from i2s_spec.exports import wgsl
    from i2s_spec.schema.blocks import GROUP_LAYOUTS

    equal = True
    for name, layout in GROUP_LAYOUTS.items():
        shape = (7, 3 * layout.block)
        values = random.integers(-1, 3 if layout.fourth == "weight" else 2, shape, np.int8)
        scales = random.uniform(-2, 2, blocks.blocks_of(shape, name).groups).astype(np.float32)
        scales[:5] = [2.0**-24, -(2.0**-14) * 1023 / 1024, 65504.0, 0.0, 2.0**-14]
        codes = random.integers(-128, 128, (2, shape[1]), np.int8)
        for order in ("little", "big"):
            tensor = blocks.pack(values, scales, name, byte_order=order)
            settings = (wgsl.block_number(layout), 0, 0, int(order == "big"))
            _, rounded = blocks.unpack(tensor, shape, name, byte_order=order)
            wanted = values.reshape(rounded.size, -1).astype(np.float32) * rounded[:, None]
            equal &= np.array_equal(kernels.decode(tensor, shape, settings), values)
            equal &= same_bits(kernels.dequantise(tensor, shape, settings), wanted.reshape(shape))
            sums = codes.astype(np.int32) @ values.T.astype(np.int32)
            equal &= np.array_equal(kernels.product(tensor, shape, settings, codes), sums)
    return equal


def codes_check(kernels: Kernels, random: Any) -> bool:
    """Codes, factors and sums of tokens of every size, on a grid of bfloat16, with ties, zeros, infinities and NaN."""
    import numpy as np

    from i2s_spec.model.reference import bitlinear

    floats = random.normal(0, [[1], [1e-3], [50], [1e38], [1e-6], [1], [1], [1], [0]], (9, 300)).astype(np.float32)
    floats[1] = (floats[1].view(np.uint32) & 0xFFFF0000).view(np.float32)
    floats[2] = np.clip(np.round(floats[2] * 2) / 2, -127, 127)  # ties
    floats[2, :9] = [0.5, 1.5, 2.5, -0.5, -2.5, 127, 3.5, 0.0, -0.0]
    floats[5, 7], floats[6, 9], floats[7, 3], floats[7, 5] = np.nan, np.inf, -np.inf, np.nan
    floats[8, 1] = 1e-45
    wanted, found = bitlinear.quantize_activations(floats), kernels.codes(floats)
    return (
        np.array_equal(found.codes, wanted.codes)
        and same_bits(found.factors, wanted.scale)
        and np.array_equal(found.sums, wanted.sums)
    )


def product_check(kernels: Kernels, random: Any) -> bool:
    """Three forms of a product are equal to the definition, code 3 included; several matrices in one launch."""
    import numpy as np

    from i2s_spec.model.reference import bitlinear

    equal, several = True, []
    for rows, cols, threads in ((16, 128, 4), (48, 256, 8), (144, 640, 16), (10, 2176, 32), (272, 384, 8)):
        payload = random.integers(0, 256, rows * cols // 4, np.uint8).tobytes()
        codes = random.integers(-128, 128, (70, cols), np.int8)
        wanted = bitlinear.accumulate(payload, rows, cols, codes)
        equal &= np.array_equal(kernels.product(payload, (rows, cols), (0, 0, 0, 0), codes[:2]), wanted[:2])
        several.append(((payload, (rows, cols), threads, codes[0]), wanted[0]))
        if rows % 16 == 0:
            for tokens in (1, 7, 70):
                found = kernels.product_mma(payload, (rows, cols), codes[:tokens])
                equal &= np.array_equal(found, wanted[:tokens])
    matrices = [matrix for matrix, _ in several]
    for found, (_, wanted) in zip(kernels.product_dp4a(matrices), several, strict=True):
        equal &= np.array_equal(found, wanted)
    return equal


def epilogue_check(kernels: Kernels, random: Any) -> bool:
    """Sums as floats, with scales that are subnormal, zero, infinite and NaN."""
    import numpy as np

    from i2s_spec.model.reference import bitlinear

    sums = random.integers(-(2**31), 2**31, (5, 300), np.int64).astype(np.int32)
    factors = np.array([127 / 3, 1e7, 3e-37, 0, np.nan], np.float32)
    return all(
        same_bits(kernels.epilogue(sums, factors, scale), bitlinear.epilogue(sums, factors, np.float32(scale)))
        for scale in (0.02, 1e-39, 1e-45, np.inf)
    )


#: What is checked, by the name in the line.
CHECKS: Final[dict[str, Callable[[Kernels, Any], bool]]] = {
    "decode, every dialect": decode_check,
    "dequantise": dequantise_check,
    "types with a scale for each group": group_check,
    "codes of activations": codes_check,
    "products: any type, dp4a, mma": product_check,
    "epilogue": epilogue_check,
}


def figures(gpu: Gpu) -> Iterator[str]:
    """A line for each product: microseconds, and bytes of weights a second. Weights come from memory, not from a cache."""
    import numpy as np

    from i2s_spec.errors import counted

    random = np.random.default_rng(1)
    codes, sums, products = random.bytes(1 << 24), bytes(1 << 16), bytes(1 << 27)
    activations = [gpu.put(data) for data in (codes, sums, products)]
    for shapes in (*((each,) for each in LAYER), ((128256, 2560, 8),), LAYER):
        size = sum(rows * cols // 4 for rows, cols, _ in shapes)
        copies = max(8, -(-_CACHE // size))
        weights = gpu.put(random.bytes(size * copies))
        name = " + ".join(f"{rows}x{cols}" for rows, cols, _ in shapes)
        for together in (False, True):
            calls = _calls(gpu, shapes * copies, weights, activations, together)
            spent = gpu.microseconds(partial(_launch, gpu, calls))
            how = counted(len(calls), "launch", "launches")
            yield f"one token, {copies} times {name}, {how}: {spent:.1f} us, {size * copies / spent / 1000:.0f} GB/s"
    for rows, cols, _ in LAYER:
        pointers = [ctypes.c_uint64(each) for each in (gpu.put(random.bytes(rows * cols // 4)), *activations)]
        for tokens in (16, 64, 512, 2048):
            arguments = [*pointers, *(ctypes.c_int(each) for each in (rows, cols, tokens))]
            grid = (-(-rows // 128), -(-tokens // 64))
            spent = gpu.microseconds(partial(gpu.launch, "i2s_product_mma", grid, 256, arguments))
            yield f"{tokens} tokens, {rows}x{cols}: {spent:.1f} us, {2e-6 * rows * cols * tokens / spent:.0f} TOP/s"


def _calls(
    gpu: Gpu, shapes: Sequence[tuple[int, int, int]], weights: int, activations: list[int], together: bool
) -> list[tuple[int, list[Any], int]]:
    """Launches of matrices that follow each other in memory: blocks, arguments, shared memory."""
    from peers.cuda_device import Product

    made, first = [], 0
    for rows, cols, threads in shapes:
        made.append(Product(weights, *activations, rows, cols, threads, first))
        weights += rows * cols // 4
        first += -(-rows * threads // 128) if together else 0
    calls = []
    for part in [made] if together else [[each] for each in made]:
        last = part[-1]
        blocks = last.first_block - (-last.rows * last.threads // 128)
        array = gpu.put(b"".join(bytes(each) for each in part))
        arguments = [ctypes.c_uint64(array), ctypes.c_int(len(part))]
        calls.append((blocks, arguments, max(each.cols for each in part)))
    return calls


def _launch(gpu: Gpu, calls: list[tuple[int, list[Any], int]]) -> None:
    for blocks, arguments, shared in calls:
        gpu.launch("i2s_product_dp4a", (blocks, 1), 128, arguments, shared)
