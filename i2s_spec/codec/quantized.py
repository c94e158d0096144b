"""The weights of quantized types that are not ternary, by the package `gguf`, which has the tables of them (`[gguf]`).

>>> from i2s_spec.codec.quantized import dequantize
>>> dequantize(bytes.fromhex("0038") + bytes([1, 255] * 16), "Q8_0")[:4].tolist()
[0.5, -0.5, 0.5, -0.5]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.errors import MissingExtra
from i2s_spec.schema.blocks import GROUP_LAYOUTS, SCALES
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import BY_NAME, NOT_WEIGHTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The types.
TYPES: Final = tuple(name for name in SCALES if name not in GROUP_LAYOUTS and name not in NOT_WEIGHTS)
#: Elements that are decoded at once: a few megabytes, with what the package makes of them meanwhile.
WINDOW: Final = 1 << 18


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
