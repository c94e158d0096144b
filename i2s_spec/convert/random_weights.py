"""The random tensor data of synthetic models: the same bytes for the same seed, on every machine.

It uses only the raw output of PCG64, whose stream NumPy guarantees, with integer arithmetic or tables; each tensor has
its own stream, derived from the seed and its name, so its bytes do not depend on the rest of the model. Data comes in
chunks of at most a MiB, each made on demand. `projection` and `table` make tensors of any type.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np

from i2s_spec.codec import blocks_native, native
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.codec.blocks_native import quantize as quantize_blocks
from i2s_spec.codec.float_passes import fold
from i2s_spec.codec.observation import write_tail
from i2s_spec.codec.quantize import quantize
from i2s_spec.codec.shape import to_bfloat16
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE
from i2s_spec.schema.faults import ByteOrder, order_prefix
from i2s_spec.schema.rotation import Rotation

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: Bytes of a chunk.
CHUNK: Final = 1 << 20

#: The upper half of 256 quantiles of the normal distribution, at (i + 0.5) / 256, as float16 bits.
_QUANTILES: Final = bytes.fromhex(
    "1d03 2385 2644 2863 29a4 2ae6 2c13 2cb4 2d55 2df6 2e97 2f39 2fda 303e 308f 30e0 3131 3183 31d4 3226 3278 "
    "32c9 331c 336e 33c0 340a 3433 345d 3486 34b0 34da 3504 352e 3559 3583 35ae 35d9 3603 362f 365a 3685 36b1 "
    "36dd 3709 3735 3762 378f 37bb 37e9 380b 3822 3839 3850 3867 387f 3896 38ae 38c6 38de 38f6 390e 3927 3940 "
    "3959 3972 398b 39a5 39bf 39d9 39f3 3a0e 3a29 3a44 3a5f 3a7b 3a97 3ab3 3ad0 3aed 3b0a 3b28 3b46 3b64 3b83 "
    "3ba3 3bc3 3be3 3c02 3c13 3c24 3c35 3c46 3c58 3c6b 3c7d 3c90 3ca4 3cb8 3ccc 3ce1 3cf6 3d0c 3d23 3d3a 3d52 "
    "3d6a 3d84 3d9e 3dba 3dd6 3df4 3e13 3e33 3e56 3e7a 3ea0 3ec9 3ef5 3f24 3f58 3f91 3fd0 400c 4037 406a 40ac "
    "410a 41c5"
)

_POSITIVE: Final = np.frombuffer(_QUANTILES, dtype=">u2").astype(np.uint16)
#: All 256 quantiles, indexed by a random byte. The highest bit is the sign.
NORMAL: Final = np.concatenate([_POSITIVE[::-1] | np.uint16(0x8000), _POSITIVE])

#: The low bit of each of the 32 two-bit fields of a word.
_LOW_BITS: Final = np.uint64(0x5555555555555555)


def random_bytes(seed: int, stream: str, count: int) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Yield `count` random bytes in chunks.

    :param seed: any number from 0 on
    :param stream: the name of the stream; another name gives other bytes
    """
    source = np.random.PCG64([seed, crc32(stream.encode())])
    while count > 0:
        size = min(count, CHUNK)
        words = source.random_raw(-(-size // 8)).astype("<u8", copy=False)
        yield words.view(np.uint8)[:size]
        count -= size


def ternary(
    seed: int, name: str, ne: tuple[int, ...], byte_order: ByteOrder = "little"
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a canonical I2_S tensor with a quarter of its weights -1, a half 0 and a quarter +1.

    The scale is sqrt(2 / ne0), which keeps the magnitude of activations, changed by up to 6 % so that tensors have
    different scales.

    :param ne: shape in ggml's order; ne0 is a multiple of 128
    """
    for chunk in random_bytes(seed, name, math.prod(ne) // CODES_PER_BYTE):
        # A field of two random bits becomes the number of ones in it: 0, 1, 1 or 2, which is -1, 0, 0 or +1.
        words = chunk.view(np.uint64)
        yield ((words & _LOW_BITS) + (words >> np.uint64(1) & _LOW_BITS)).view(np.uint8).data
    (byte,) = next(random_bytes(seed, f"{name} scale", 1)).tolist()
    scale = math.sqrt(2 / ne[0]) * (1 + (byte - 128) / 2048)
    yield write_tail(scale, CANONICAL.tail, byte_order)


def halvings_of(width: int) -> int:
    """Return how often the numbers of a table are halved, so that logits have a realistic spread.

    A logit is the product of two rows of this width, one of them with unit variance, so its deviation is that of the
    table times sqrt(width): 1/2 to 1 with 2**-halvings, the next power of two below 1 / sqrt(width). The embedding is
    then small compared with the output of layers, and a tied head does not repeat each token.
    """
    return (max(width - 1, 0).bit_length() + 1) // 2


def quantiles(halvings: int = 0) -> np.ndarray[Any, np.dtype[np.float16]]:
    """Return `NORMAL` as numbers, halved this often; rounded where they are too small for float16."""
    return (NORMAL.view(np.float16).astype(np.float32) * np.float32(2.0**-halvings)).astype(np.float16)


def normal_halves(
    seed: int, name: str, count: int, halvings: int = 0, byte_order: ByteOrder = "little"
) -> Iterator[memoryview]:
    """Yield the bytes of `count` normally distributed float16 numbers with a deviation of 2**-halvings."""
    table = quantiles(halvings).astype(order_prefix(byte_order) + "f2")
    for chunk in random_bytes(seed, name, count):
        yield table[chunk].view(np.uint8).data


def near_one(
    seed: int, name: str, count: int, type: str, doublings: int = 0, byte_order: ByteOrder = "little", sign: int = 1
) -> Iterator[memoryview]:
    """Yield the bytes of `count` numbers between 7/8 and 9/8, doubled this often, in F32 or F16, which hold them
    exactly; with `sign` -1 they are negative."""
    dtype = np.dtype({"F32": "f4", "F16": "f2"}[type]).newbyteorder(order_prefix(byte_order))
    for chunk in random_bytes(seed, name, count):
        gains = 1 + (chunk.astype(np.int16) - 128) / np.float32(1024)
        yield (gains * np.float32(sign * 2**doublings)).astype(dtype).view(np.uint8).data


# --- typed weights ---------------------------------------------------------------------------------------------------
# The random projections in any type, rotated or not.
#
# The weights are those that `ternary` makes as I2_S. In a type with a scale for each group, every group gets its own
# scale, up to 12 % from that of the tensor, so that a reader that uses one scale for all is found to be wrong. Rotated
# weights (clause 3.8) are folded in float32, like a converter does with a checkpoint, and then quantized with the
# type's own quantizer: unless the type is a float, they differ from the original weights.


def projection(
    seed: int, name: str, ne: tuple[int, ...], type: str, rotation: Rotation | None, byte_order: ByteOrder = "little"
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a projection.

    :param ne: shape in ggml's order
    :param type: one of `recipes.TYPES`
    :param rotation: the rotation that may be folded into the weights of this name
    """
    folded = rotation if rotation is not None and rotation.rotates(name) else None
    if type == "I2_S" and folded is None:
        yield from ternary(seed, name, ne, byte_order)
        return
    shape = ne[::-1]
    trits, scale = native.unpack(b"".join(ternary(seed, name, ne)), shape)
    if folded is None and type in GROUP_LAYOUTS:
        yield blocks_native.pack(trits, _scales(seed, name, shape, type, float(scale)), type, byte_order=byte_order)
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
    """Yield the bytes of an embedding table or head, normally distributed, in F32 or F16, with rotated rows if
    requested.

    The deviation is 2**-halvings. A row h is stored as z = H (s h), so that s (H z) is h again; the rows of a head are
    folded in the same way.
    """
    bits = np.concatenate(list(random_bytes(seed, name, prod(ne))))
    rows = quantiles(halvings)[bits].astype(np.float32).reshape(ne[::-1])
    if rotation is not None and (rotation.rotates(name) or name in rotation.tables):
        rows = fold(rows, rotation.block, rotation.signs_of(ne[0]))
    yield _floats(rows, type, byte_order)


def _scales(seed: int, name: str, shape: tuple[int, ...], type: str, scale: float) -> NDArray[Any]:
    """Return the scale of each group, in the float type that the type uses."""
    tensor = blocks_of(shape, type)
    bits = np.concatenate(list(random_bytes(seed, f"{name} groups", tensor.groups)))
    each = np.float32(scale) * (1 + (bits.astype(np.float32) - 128) / 1024)
    return each.astype(np.float16 if tensor.layout.scale.type == "F16" else np.float32)


def _floats(weights: NDArray[np.float32], type: str, byte_order: ByteOrder) -> bytes:
    order = order_prefix(byte_order)
    if type == "BF16":
        return to_bfloat16(weights).astype(f"{order}u2").tobytes()
    return weights.astype(f"{order}{'f4' if type == 'F32' else 'f2'}").tobytes()
