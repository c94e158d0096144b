"""Quantized tensors as floats: one function for each source of the decoding.

dequantize_ternary   I2_S, and types with a scale for each group or row
dequantize           other types of ggml, by the package `gguf`, which has the tables of them (`[gguf]`)
dequantize_packing   types that single programs gave the numbers of other types (`schema.program_types`)

>>> dequantize(bytes.fromhex("0038") + bytes([1, 255] * 16), "Q8_0")[:4].tolist()
[0.5, -0.5, 0.5, -0.5]
>>> from i2s_spec.schema.program_types import of_number
>>> (oxibonsai, _) = of_number(42)
>>> dequantize_packing(bytes([0b10_01_00_10] * 32) + bytes.fromhex("0038"), oxibonsai)[:4].tolist()
[0.5, -0.5, 0.0, 0.5]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from i2s_spec.codec.shape import from_bfloat16
from i2s_spec.errors import MissingExtra
from i2s_spec.schema.blocks import GROUP_LAYOUTS, SCALES
from i2s_spec.schema.faults import ByteOrder, order_prefix
from i2s_spec.schema.types import BY_NAME, NOT_WEIGHTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.schema.dialect import Dialect
    from i2s_spec.schema.program_types import ProgramType

#: The types.
TYPES: Final = tuple(name for name in SCALES if name not in GROUP_LAYOUTS and name not in NOT_WEIGHTS)
#: Elements that are decoded at once: a few megabytes, with what the package makes of them meanwhile.
WINDOW: Final = 1 << 18


def dequantize_ternary(
    data: Any,
    shape: tuple[int, ...],
    type: str,
    dialect: str | Dialect,
    byte_order: ByteOrder,
    unused_code: Literal["reject", "zero"],
    threads: int = 1,
) -> NDArray[np.float32]:
    """Return the weights of a tensor of I2_S, or of a type with a scale for each group: float32 of `shape`.

    :param data: the bytes of the whole tensor
    :param dialect: of I2_S
    :param byte_order: of the file
    :param unused_code: whether the unused code is an error or 0
    :raises ValueError: for such a code, and for a shape or a size that the type cannot have
    """
    if type == "I2_S":
        from i2s_spec.codec import native

        return native.dequantize(data, shape, dialect, byte_order=byte_order, unused_code=unused_code, threads=threads)
    from i2s_spec.codec import blocks_native

    policy: Literal["reject", "zero"] | None = unused_code if GROUP_LAYOUTS[type].fourth == "reserved" else None
    return blocks_native.dequantize(data, shape, type, byte_order=byte_order, unused_code=policy, threads=threads)


def dequantize(data: Any, type: str, byte_order: ByteOrder = "little") -> NDArray[np.float32]:
    """Return the weights of some blocks, flat float32.

    :param data: the bytes of whole blocks, anything with the buffer protocol
    :param type: one of `TYPES`
    :param byte_order: of the file
    :raises MissingExtra: without the extra `[gguf]`
    :raises ValueError: for a type that the package does not decode, and big-endian blocks whose words are not known
    """
    try:
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize as decoded
    except ImportError:
        raise MissingExtra(f"decoding {type}", "gguf") from None
    raw = np.frombuffer(data, dtype=np.uint8)
    if byte_order == "big":
        raw = _swapped(raw, type)
    try:
        number = GGMLQuantizationType[type]
        with np.errstate(all="ignore"):  # a scale that is infinite or NaN gives what IEEE 754 says
            weights: NDArray[np.float32] = decoded(raw.reshape(1, -1), number)
    except (KeyError, NotImplementedError):
        raise ValueError(f"the package gguf, as it is installed, does not decode {type}") from None
    return weights.reshape(-1)


def _swapped(raw: NDArray[np.uint8], type: str) -> NDArray[np.uint8]:
    """Big-endian blocks with their words turned round."""
    kind = BY_NAME[type]
    if kind.words is None:
        raise ValueError(f"which words of {type} are big-endian in a big-endian file is not known")
    blocks = raw.reshape(-1, kind.bytes).copy()
    for at, width in kind.words:
        blocks[:, at : at + width] = blocks[:, at : at + width][:, ::-1].copy()
    return blocks.reshape(-1)


def dequantize_packing(data: Any, meaning: ProgramType, byte_order: ByteOrder = "little") -> NDArray[np.float32]:
    """Return the weights of whole blocks of a type to which a single program gave the number of another, flat float32.

    :param data: the bytes of the blocks, anything with the buffer protocol
    :raises ValueError: for a meaning that is not declared with the packing of a block
    """
    packing = meaning.packing
    if packing is None:
        raise ValueError(f"how {meaning} stores weights is not known here")
    blocks = np.frombuffer(data, dtype=np.uint8).reshape(-1, packing.bytes)
    codes = blocks[:, packing.codes : packing.codes + packing.block * packing.bits // 8, None]
    shifts = np.arange(0, 8, packing.bits, dtype=np.uint8)
    weights = np.array(packing.weights, dtype=np.float32)[codes >> shifts & (1 << packing.bits) - 1]
    places = [place + byte for place in packing.scales for byte in (0, 1)]
    words = np.ascontiguousarray(blocks[:, places]).view(
        order_prefix(byte_order) + ("u2" if packing.form == "BF16" else "f2")
    )
    scales = from_bfloat16(words) if packing.form == "BF16" else words.astype(np.float32)
    groups = weights.reshape(len(blocks), len(packing.scales), -1)
    with np.errstate(all="ignore"):  # a scale that is infinite or NaN gives what IEEE 754 says
        found: NDArray[np.float32] = (groups * scales[..., None]).astype(np.float32).reshape(-1)
    return found
