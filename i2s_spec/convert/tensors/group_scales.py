"""This module converts windows of a tensor with a scale for each group to another type with scales for groups.

Only the positions of codes and scales change: each window is decoded again, and must be unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_shape import blocks_of, rounded_scales
from i2s_spec.codec.blocks.regroup import convert, regroup
from i2s_spec.codec.form import Form
from i2s_spec.codec.scale_rounding import ProofError, Rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray


def regrouped(
    data: bytes, shape: tuple[int, int], source: Form, form: Form
) -> tuple[bytes, NDArray[np.float32], NDArray[np.float32]]:
    """A window of a matrix in another block type, proved; the scales that its groups need, and the stored scales.

    :param source, form: only their type and byte order matter
    :raises ValueError: as `convert` does
    """
    done = convert(
        data, shape, source.type, form.type, byte_order=source.byte_order, target_order=form.byte_order
    )  # fmt: skip
    before, scales = block_native.unpack(data, shape, source.type, byte_order=source.byte_order)
    after, stored = block_native.unpack(done.data, shape, form.type, byte_order=form.byte_order)
    tensor = blocks_of(shape, form.type)
    needed = regroup(before, scales, blocks_of(shape, source.type).group, tensor.group, form.type)
    wanted = rounded_scales(needed, tensor.layout).astype(np.float32)
    if not np.array_equal(before, after) or not np.array_equal(stored, wanted):
        raise ProofError(f"{form.type} does not give back the weights that were written")
    return done.data, needed, stored


def most_changed(needed: NDArray[np.float32], stored: NDArray[np.float32]) -> Rounding:
    """The rounding of at least one scale."""
    with np.errstate(all="ignore"):
        apart = np.where(stored == needed, 0, np.abs(stored.astype(np.float64) / needed - 1))
    worst = int(apart.argmax())
    return Rounding(float(needed[worst]), float(stored[worst]), stored.size)
