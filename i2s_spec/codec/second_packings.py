"""The weights of types that single programs gave the numbers of other types (`schema.second_meanings`).

>>> from i2s_spec.schema.second_meanings import of_number
>>> (oxibonsai, _) = of_number(42)
>>> dequantize(bytes([0b10_01_00_10] * 32) + bytes.fromhex("0038"), oxibonsai)[:4].tolist()
[0.5, -0.5, 0.0, 0.5]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec.shape import from_bfloat16
from i2s_spec.schema.faults import ByteOrder, order_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.schema.second_meanings import SecondMeaning


def dequantize(data: Any, meaning: SecondMeaning, byte_order: ByteOrder = "little") -> NDArray[np.float32]:
    """Return the weights of whole blocks, flat float32.

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
