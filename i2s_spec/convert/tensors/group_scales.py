"""This module converts a tensor with a scale for each group to another type with scales for groups, window by window.

Nothing is computed but the place of codes and scales: each window is taken apart again, and must be what it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.apart_windows import in_file_order
from i2s_spec.codec.blocks.block_shape import blocks_of, rounded_scales
from i2s_spec.codec.blocks.regroup import convert, regroup
from i2s_spec.codec.form import Form
from i2s_spec.codec.quantization.in_order import in_order
from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.codec.trits import Trits
from i2s_spec.convert.tensors.encode import NO_SCALES, ProofError, Rounding, worst_of
from i2s_spec.schema.block_layout import block_layout

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GroupRecoding:
    """A tensor of a block type in another one; its bytes are made while they are iterated over, each window proved.

    :param source: the tensor, of a block type; its scales may be as many as it has groups
    :param form: of a block type, and of the same shape
    :param threads: how many threads work
    :raises ScalesDifferError: on the way, where a group of the new type would need several scales
    :raises ValueError: on the way, for +2 times a scale where the type has no code for it
    """

    def __init__(self, source: Trits, form: Form, threads: int = 1) -> None:
        assert source.form.type in BLOCK_TYPES
        assert form.type in BLOCK_TYPES
        self.source = source
        self.form = form
        self.threads = threads
        #: What became of the scales, once all bytes are made.
        self.rounding = NO_SCALES
        #: No code is kept that stands for nothing: the types that have one refuse it.
        self.unused = 0

    def __iter__(self) -> Iterator[bytes]:
        source, form = self.source.form, self.form
        whole = form.cols if self._rows else lcm(source.unit, form.unit)
        self.rounding = NO_SCALES
        windows = self.source.windows(lcm(whole, form.unit))

        def work(window: tuple[int, int]) -> tuple[bytes, Rounding]:
            start, stop = window
            data = self.source.fetch(source.byte(start), source.byte(stop))
            shape = ((stop - start) // form.cols, form.cols) if self._rows else (1, stop - start)
            return self._converted(data, shape)

        def written() -> Iterator[bytes]:
            for data, rounding in in_order(work, windows, self.threads):
                self.rounding = worst_of(self.rounding, rounding)
                yield data

        yield from in_file_order(block_layout(form.type), form.cols, written())

    @property
    def _rows(self) -> bool:
        """Whether either type has scales for rows, so that windows are whole rows."""
        return any(block_layout(form.type).scale.per == "row" for form in (self.source.form, self.form))

    def _converted(self, data: bytes, shape: tuple[int, int]) -> tuple[bytes, Rounding]:
        done, needed, stored = regrouped(data, shape, self.source.form, self.form)
        return done, most_changed(needed, stored)


def regrouped(
    data: bytes, shape: tuple[int, int], source: Form, form: Form
) -> tuple[bytes, NDArray[np.float32], NDArray[np.float32]]:
    """A window of a matrix in another block type, proved; the scales that its groups need, and what is stored of each.

    :param source, form: of which type and byte order count
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
    """The rounding of scales, of which there is one at least."""
    with np.errstate(all="ignore"):
        apart = np.where(stored == needed, 0, np.abs(stored.astype(np.float64) / needed - 1))
    worst = int(apart.argmax())
    return Rounding(float(needed[worst]), float(stored[worst]), stored.size)
