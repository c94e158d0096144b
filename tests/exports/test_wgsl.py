"""The shaders compile and give what the definitions give, to the bit, on the adapter that wgpu finds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from peers import wgsl_device

from i2s_spec.codec import blocks
from i2s_spec.exports import export, wgsl
from i2s_spec.exports.c_header import NO_TRIT
from i2s_spec.model.reference import bitlinear
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS
from i2s_spec.testing.sample import ByteOrder

TEXT = export("wgsl")
RANDOM = np.random.default_rng(3)


#: Drivers may end the process that releases a device: the shaders run in another one.
CHILD = ProcessPoolExecutor(1, get_context("spawn"))


@pytest.fixture(scope="module", autouse=True)
def adapter() -> Iterator[None]:
    if find_spec("wgpu") is None:
        pytest.skip("wgpu is not installed")
    try:
        CHILD.submit(wgsl_device.require).result()
    except RuntimeError as error:
        pytest.skip(f"no adapter for wgpu: {error}")
    yield
    CHILD.shutdown()


def run(entry: str, tensor: bytes, shape: tuple[int, int], count: int, *, activations: bytes = b"", **more: int) -> Any:
    sizes = (*shape, *(more.get(name, 0) for name in ("tokens", "kind", "order", "code_map", "big_endian")))
    return CHILD.submit(wgsl_device.run, TEXT, entry, sizes, tensor, activations, count).result()


@pytest.mark.parametrize("order", range(len(LAYOUTS)), ids=list(LAYOUTS))
def test_decode_in_every_dialect(order: int) -> None:
    rows, cols = 12, 160
    layout, k = list(LAYOUTS.values())[order], np.arange(rows * cols)
    payload = RANDOM.integers(0, 256, rows * cols // 4, np.uint8)
    codes = payload[layout.byte_of(k, rows, cols)] >> layout.shift_of(k, rows, cols).astype(np.uint8) & 3
    for code_map, each in enumerate(CODE_MAPS.values()):
        trits = np.array([NO_TRIT if trit is None else trit for trit in each.trits])
        found = run("decode", payload.tobytes() + bytes(32), (rows, cols), k.size, order=order, code_map=code_map)
        assert np.array_equal(found, trits[codes]), each


@pytest.mark.parametrize("big_endian", [0, 1])
def test_scale_of_a_tensor(big_endian: int) -> None:
    scale = np.array([0.37], ">f4" if big_endian else "<f4")
    tensor = bytes(range(64)) + scale.tobytes() + bytes(28)
    trits = run("decode", tensor, (2, 128), 256)
    found = run("dequantise", tensor, (2, 128), 256, big_endian=big_endian).view(np.float32)
    sound = trits != NO_TRIT
    assert np.array_equal(found[sound], (trits.astype(np.float32) * scale.astype(np.float32))[sound])


@pytest.mark.parametrize("name", GROUP_LAYOUTS)
@pytest.mark.parametrize("order", ["little", "big"])
def test_types_with_a_scale_for_each_group(name: str, order: ByteOrder) -> None:
    layout = GROUP_LAYOUTS[name]
    shape = (7, 3 * layout.block)
    most = 3 if layout.fourth == "weight" else 2
    values = RANDOM.integers(-1, most, shape, np.int8)
    scales = RANDOM.uniform(-2, 2, blocks.blocks_of(shape, name).groups).astype(np.float32)
    scales[:5] = [2.0**-24, -(2.0**-14) * 1023 / 1024, 65504.0, 0.0, 2.0**-14]
    tensor = blocks.pack(values, scales, name, byte_order=order)
    settings = {"kind": wgsl.block_number(layout), "big_endian": int(order == "big")}
    assert np.array_equal(run("decode", tensor, shape, values.size, **settings), values.reshape(-1))
    _, scales = blocks.unpack(tensor, shape, name, byte_order=order)
    weights = values.reshape(scales.size, -1).astype(np.float32) * scales[:, None]
    found = run("dequantise", tensor, shape, values.size, **settings).view(np.float32)
    assert np.array_equal(found, weights.reshape(-1))


@pytest.mark.parametrize("name", ["I2_S", "TQ2_0", "PTQ1_0"])
def test_product_is_exact(name: str) -> None:
    rows, cols, tokens = 5, 256, 3
    activations = RANDOM.integers(-128, 128, (tokens, cols), np.int8)
    values = RANDOM.integers(-1, 2, (rows, cols), np.int8)
    if name == "I2_S":
        tensor = bytearray(rows * cols // 4 + 32)
        for k, value in enumerate(values.reshape(-1).tolist()):
            tensor[k // 128 * 32 + k % 32] |= (value + 1) << 6 - k % 128 // 32 * 2
        kind = wgsl.I2S
    else:
        tensor = bytearray(blocks.pack(values, np.ones(rows * cols // GROUP_LAYOUTS[name].block, np.float32), name))
        kind = wgsl.block_number(GROUP_LAYOUTS[name])
    found = run(
        "product",
        bytes(tensor),
        (rows, cols),
        tokens * rows,
        kind=kind,
        tokens=tokens,
        activations=activations.tobytes(),
    )
    assert np.array_equal(found.reshape(tokens, rows), activations.astype(np.int32) @ values.T.astype(np.int32))


def test_codes_of_activations() -> None:
    tokens, cols = 4, 300
    floats = RANDOM.normal(0, [[1], [1e-3], [50], [1e4]], (tokens, cols)).astype(np.float32)
    floats[0, :9] = [0.5, 1.5, 2.5, -0.5, -2.5, 127, 3.5, 0.0, -0.0]
    floats[0, 9:] = np.round(floats[0, 9:] * 2) / 2  # ties
    floats[0] = np.clip(floats[0], -127, 127)
    wanted = bitlinear.quantize_activations(floats)
    data = floats.tobytes() + wanted.scale.tobytes()
    found = run("codes", b"", (1, cols), tokens * cols, tokens=tokens, activations=data)
    assert np.array_equal(found.reshape(tokens, cols), wanted.codes)
