"""This module makes the random projections of synthetic models in any type, rotated or not.

The weights are those that `random_weights.ternary` makes as I2_S. In a type with a scale for each group, every group
gets its own scale, up to 12 % from that of the tensor, so that a reader that uses one scale for all is found to be
wrong. Rotated weights (clause 3.8) are folded in float32, like a converter does with a checkpoint, and then quantized
with the type's own quantizer: unless the type is a float, they differ from the original weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec import native
from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_quantize import quantize as quantize_blocks
from i2s_spec.codec.blocks.block_shape import blocks_of
from i2s_spec.codec.quantization.hadamard import fold
from i2s_spec.codec.quantization.quantize import quantize
from i2s_spec.codec.weights import to_bfloat16
from i2s_spec.convert.synthetic.random_weights import quantiles, random_bytes, ternary
from i2s_spec.schema.architectures.rotation import Rotation
from i2s_spec.schema.block_layout import GROUP_LAYOUTS
from i2s_spec.schema.checks import ByteOrder, order_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray


def projection(
    seed: int, name: str, ne: tuple[int, ...], type: str, rotation: Rotation | None, byte_order: ByteOrder = "little"
) -> Iterator[bytes | memoryview]:
    """The bytes of a projection.

    :param ne: shape in ggml's order
    :param type: one of `weight_kinds.TYPES`
    :param rotation: the rotation that may be folded into the weights of this name
    """
    folded = rotation if rotation is not None and rotation.rotates(name) else None
    if type == "I2_S" and folded is None:
        yield from ternary(seed, name, ne, byte_order)
        return
    shape = ne[::-1]
    trits, scale = native.unpack(b"".join(ternary(seed, name, ne)), shape)
    if folded is None and type in GROUP_LAYOUTS:
        yield block_native.pack(trits, _scales(seed, name, shape, type, float(scale)), type, byte_order=byte_order)
        return
    weights = trits * np.float32(scale)
    if folded is not None:
        weights = fold(weights, folded.block, folded.signs_of(ne[0]))
    if type in GROUP_LAYOUTS:
        yield quantize_blocks(weights, type, byte_order=byte_order)
    elif type == "I2_S":
        yield quantize(weights, "embedding-mean", byte_order=byte_order)
    else:
        yield _floats(weights, type, byte_order)


def table(
    seed: int,
    name: str,
    ne: tuple[int, ...],
    type: str,
    rotation: Rotation | None,
    halvings: int = 0,
    byte_order: ByteOrder = "little",
) -> Iterator[bytes]:
    """The bytes of an embedding table or head, normally distributed, in F32 or F16, with rotated rows if requested.

    The deviation is 2**-halvings. A row h is stored as z = H (s h), so that s (H z) is h again; the rows of a head are
    folded in the same way.
    """
    bits = np.concatenate(list(random_bytes(seed, name, prod(ne))))
    rows = quantiles(halvings)[bits].astype(np.float32).reshape(ne[::-1])
    if rotation is not None and (rotation.rotates(name) or name in rotation.tables):
        rows = fold(rows, rotation.block, rotation.signs_of(ne[0]))
    yield _floats(rows, type, byte_order)


def _scales(seed: int, name: str, shape: tuple[int, ...], type: str, scale: float) -> NDArray[Any]:
    """The scale of each group, in the float type that the type uses."""
    tensor = blocks_of(shape, type)
    bits = np.concatenate(list(random_bytes(seed, f"{name} groups", tensor.groups)))
    each = np.float32(scale) * (1 + (bits.astype(np.float32) - 128) / 1024)
    return each.astype(np.float16 if tensor.layout.scale.type == "F16" else np.float32)


def _floats(weights: NDArray[np.float32], type: str, byte_order: ByteOrder) -> bytes:
    order = order_prefix(byte_order)
    if type == "BF16":
        return to_bfloat16(weights).astype(f"{order}u2").tobytes()
    return weights.astype(f"{order}{'f4' if type == 'F32' else 'f2'}").tobytes()
