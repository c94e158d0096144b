"""This module writes windows of a tensor with a scale for each group as floats: each weight times its scale.

F32 holds that exactly, and so does F16 if the scales are float16. Otherwise the scale is rounded to nearest, ties to
even, and the proof says how much. Each window is read again, and must equal codes times stored scales.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_shape import blocks_of
from i2s_spec.codec.form import FLOAT_WORDS, Form, widened
from i2s_spec.codec.scale_rounding import ProofError, Rounding, rounding
from i2s_spec.schema.block_layout import block_layout
from i2s_spec.schema.checks import order_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray


def group_weights(
    data: bytes, shape: tuple[int, int], source: Form, form: Form, unused: Literal["reject", "zero"]
) -> tuple[bytes, list[Rounding], NDArray[np.intp]]:
    """A window of a matrix of a block type as floats, proved; the rounding of its different scales, in ascending order,
    and the scale of each group.

    :param source, form: only their type and byte order matter
    :param unused: whether code 3, if it is reserved, is an error or 0
    :raises ValueError: for scales and weights that the type cannot hold
    """
    answer = unused if block_layout(source.type).fourth == "reserved" else None
    values, scales = block_native.unpack(data, shape, source.type, byte_order=source.byte_order, unused_code=answer)
    different, of = np.unique(scales, return_inverse=True)
    of = of.reshape(-1)
    each = [rounding(scale, form.type) for scale in different]
    stored = np.array([found.stored for found in each], dtype=np.float32)[of]
    group = blocks_of(shape, source.type).group
    with np.errstate(over="ignore"):
        weights = (values.reshape(-1, group) * stored[:, None] + np.float32(0)).reshape(-1)  # avoid negative zeros
        bits = _words(weights, form.type)
    if not np.isfinite(widened(bits, form.type)).all():
        raise ValueError(f"{form.type} cannot represent twice the scale {np.abs(stored).max():.9g}")
    again = widened(bits, form.type).reshape(-1, group)
    if not np.array_equal(again, values.reshape(-1, group) * stored[:, None]):
        raise ProofError(f"{form.type} does not give back the weights that were written")
    if ((stored == 0) & (values.reshape(-1, group) != 0).any(1)).any():
        raise ValueError(f"a scale is 0, so {form.type} would store 0 for every trit")
    return bits.astype(order_prefix(form.byte_order) + FLOAT_WORDS[form.type]).tobytes(), each, of


def most_rounded(each: list[Rounding], groups: int) -> Rounding:
    """The rounding with the largest relative change in a window with this number of groups."""
    return max(each, key=lambda found: abs(found.relative))._replace(scales=groups)


def _words(
    weights: np.ndarray[tuple[int], np.dtype[np.float32]], type: str
) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """The words of weights that the type can hold exactly."""
    if type == "BF16":
        return (weights.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return weights.astype(np.float16 if type == "F16" else np.float32).view(FLOAT_WORDS[type])
