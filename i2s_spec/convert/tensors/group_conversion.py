"""This module converts a tensor with a scale for each group window by window, to another such type or to floats.

Each window is read again and must be unchanged: `group_scales` and `group_floats` prove that.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from i2s_spec.codec.blocks.apart_windows import in_file_order
from i2s_spec.codec.form import FLOAT_WORDS, Form
from i2s_spec.codec.quantization.in_order import in_order
from i2s_spec.codec.scale_rounding import NO_SCALES, Rounding, worst_of
from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.codec.trits import Trits
from i2s_spec.convert.tensors.group_floats import group_weights, most_rounded
from i2s_spec.convert.tensors.group_scales import most_changed, regrouped
from i2s_spec.schema.block_layout import block_layout


class GroupConversion:
    """A tensor of a block type in another type; its bytes are made during iteration, and each window is proved.

    :param source: the tensor, of a block type; every group may have another scale
    :param form: a block type or a float type, with the same shape
    :param threads: how many threads work
    :raises ScalesDifferError: during iteration, if a group of the new type would need several scales
    :raises ValueError: during iteration, for scales and weights that the type cannot hold
    :raises UnusedCodeError: during iteration, for code 3 if it is reserved
    """

    def __init__(self, source: Trits, form: Form, threads: int = 1) -> None:
        assert source.form.type in BLOCK_TYPES
        assert form.type in BLOCK_TYPES or form.type in FLOAT_WORDS
        self.source = source
        self.form = form
        self.threads = threads
        #: The rounding of the scales, once all bytes are made.
        self.rounding = NO_SCALES
        #: Unused codes are never kept.
        self.unused = 0

    def __iter__(self) -> Iterator[bytes]:
        form = self.form
        written = self._written()
        if form.type in BLOCK_TYPES:
            written = in_file_order(block_layout(form.type), form.cols, written)
        yield from written

    def _written(self) -> Iterator[bytes]:
        """The bytes of windows in order, each with its scales."""
        source, form = self.source.form, self.form
        types = {source.type, form.type} & set(BLOCK_TYPES)
        by_row = any(block_layout(type).scale.per == "row" for type in types)
        self.rounding = NO_SCALES

        def work(window: tuple[int, int]) -> tuple[bytes, Rounding]:
            start, stop = window
            data = self.source.fetch(source.byte(start), source.byte(stop))
            return self._converted(data, ((stop - start) // form.cols, form.cols) if by_row else (1, stop - start))

        for data, rounding in in_order(work, self.source.windows(lcm(source.unit, form.unit)), self.threads):
            self.rounding = worst_of(self.rounding, rounding)
            yield data

    def _converted(self, data: bytes, shape: tuple[int, int]) -> tuple[bytes, Rounding]:
        source, form = self.source.form, self.form
        if form.type in BLOCK_TYPES:
            done, needed, stored = regrouped(data, shape, source, form)
            return done, most_changed(needed, stored)
        done, each, of = group_weights(data, shape, source, form, self.source.unused)
        return done, most_rounded(each, of.size)
