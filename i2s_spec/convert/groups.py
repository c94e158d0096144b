"""The way in which a tensor is converted: with one scale for all its weights, or with those of its groups.

`recoding_of` chooses it. With groups, a tensor is converted window by window, to another such type or to floats.

Each window is read again and must be unchanged: `regrouped` and `group_weights` prove that, and
`most_changed` and `most_rounded` say how much scales were rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm
from typing import TYPE_CHECKING, Literal

import numpy as np

from i2s_spec.codec import blocks_native
from i2s_spec.codec.blocks import blocks_of, rounded_scales
from i2s_spec.codec.blocks_native import in_file_order
from i2s_spec.codec.change_groups import BLOCK_TYPES, scales_for
from i2s_spec.codec.encoding import NO_SCALES, ProofError, Rounding, TernaryEncoding, Trits, rounding, worst_of
from i2s_spec.codec.kernels import in_order
from i2s_spec.codec.shape import FLOAT_WORDS, widened
from i2s_spec.convert.encode import Recoding
from i2s_spec.errors import FormatError, quote
from i2s_spec.schema.blocks import block_layout
from i2s_spec.schema.faults import order_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GroupConversion:
    """A tensor of a block type in another type; its bytes are made during iteration, and each window is proved.

    :param source: the tensor, of a block type; every group may have another scale
    :param form: a block type or a float type, with the same shape
    :param threads: how many threads work
    :raises ScalesDifferError: during iteration, if a group of the new type would need several scales
    :raises ValueError: during iteration, for scales and weights that the type cannot hold
    :raises UnusedCodeError: during iteration, for code 3 if it is reserved
    """

    def __init__(self, source: Trits, form: TernaryEncoding, threads: int = 1) -> None:
        assert source.encoding.type in BLOCK_TYPES
        assert form.type in BLOCK_TYPES or form.type in FLOAT_WORDS
        self.source = source
        self.encoding = form
        self.threads = threads
        #: The rounding of the scales, once all bytes are made.
        self.rounding = NO_SCALES
        #: Unused codes are never kept.
        self.unused = 0

    def __iter__(self) -> Iterator[bytes]:
        form = self.encoding
        written = self._written()
        if form.type in BLOCK_TYPES:
            written = in_file_order(block_layout(form.type), form.cols, written)
        yield from written

    def _written(self) -> Iterator[bytes]:
        """Yield the bytes of windows in order, each with its scales."""
        source, form = self.source.encoding, self.encoding
        types = {source.type, form.type} & set(BLOCK_TYPES)
        by_row = any(block_layout(type).scale.per == "row" for type in types)
        self.rounding = NO_SCALES

        def work(window: tuple[int, int]) -> tuple[bytes, Rounding]:
            start, stop = window
            data = self.source.fetch(source.byte(start), source.byte(stop))
            return self._converted(data, ((stop - start) // form.cols, form.cols) if by_row else (1, stop - start))

        for data, rounded in in_order(work, self.source.windows(lcm(source.unit, form.unit)), self.threads):
            self.rounding = worst_of(self.rounding, rounded)
            yield data

    def _converted(self, data: bytes, shape: tuple[int, int]) -> tuple[bytes, Rounding]:
        source, form = self.source.encoding, self.encoding
        if form.type in BLOCK_TYPES:
            done, needed, stored = regrouped(data, shape, source, form)
            return done, most_changed(needed, stored)
        done, each, of = group_weights(data, shape, source, form, self.source.unused)
        return done, most_rounded(each, of.size)


AnyRecoding = Recoding | GroupConversion


def recoding_of(source: Trits, encoding: TernaryEncoding, threads: int = 1) -> AnyRecoding:
    """Return a tensor in another form of the same shape; its bytes are made, and proved, during iteration.

    :raises ValueError: as the classes do
    """
    groups = source.encoding.type in BLOCK_TYPES and (encoding.type in BLOCK_TYPES or encoding.type in FLOAT_WORDS)
    return GroupConversion(source, encoding, threads) if groups else Recoding(source, encoding, threads)


def named_bytes(name: str, recoding: AnyRecoding) -> Iterator[bytes]:
    """Yield the bytes of a tensor; errors contain its name."""
    try:
        yield from recoding
    except FormatError:
        raise
    except ValueError as error:
        raise ValueError(f"tensor {quote(name)}: {error}") from error


# --- group floats ----------------------------------------------------------------------------------------------------
# To floats: each weight times its scale.
#
# F32 holds that exactly, and so does F16 if the scales are float16. Otherwise the scale is rounded to nearest, ties to
# even, and the proof says how much. Each window must equal codes times stored scales.


def group_weights(
    data: bytes,
    shape: tuple[int, int],
    source: TernaryEncoding,
    form: TernaryEncoding,
    unused: Literal["reject", "zero"],
) -> tuple[bytes, list[Rounding], NDArray[np.intp]]:
    """Return a window of a matrix of a block type as floats, proved; the rounding of its different scales, in
    ascending order, and the scale of each group.

    :param source, form: only their type and byte order matter
    :param unused: whether code 3, if it is reserved, is an error or 0
    :raises ValueError: for scales and weights that the type cannot hold
    """
    answer = unused if block_layout(source.type).fourth == "reserved" else None
    values, scales = blocks_native.unpack(data, shape, source.type, byte_order=source.byte_order, unused_code=answer)
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
    """Return the rounding with the largest relative change in a window with this number of groups."""
    return max(each, key=lambda found: abs(found.relative))._replace(scales=groups)


def _words(
    weights: np.ndarray[tuple[int], np.dtype[np.float32]], type: str
) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """Return the words of weights that the type can hold exactly."""
    if type == "BF16":
        return (weights.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return weights.astype(np.float16 if type == "F16" else np.float32).view(FLOAT_WORDS[type])


# --- group scales ----------------------------------------------------------------------------------------------------
# To another type with scales for groups: only the positions of codes and scales change.


def regrouped(
    data: bytes, shape: tuple[int, int], source: TernaryEncoding, form: TernaryEncoding
) -> tuple[bytes, NDArray[np.float32], NDArray[np.float32]]:
    """Return a window of a matrix in another block type, proved; the scales that its groups need, and the stored
    scales.

    :param source, form: only their type and byte order matter
    :raises ValueError: as `change_groups.convert` does
    """
    before, scales = blocks_native.unpack(data, shape, source.type, byte_order=source.byte_order)
    tensor = blocks_of(shape, form.type)
    needed = scales_for(before, scales, blocks_of(shape, source.type).group, tensor)
    wanted = rounded_scales(needed, tensor.layout)
    done: bytes = blocks_native.pack(before, wanted, form.type, byte_order=form.byte_order)
    after, stored = blocks_native.unpack(done, shape, form.type, byte_order=form.byte_order)
    if not np.array_equal(before, after) or not np.array_equal(stored, wanted.astype(np.float32)):
        raise ProofError(f"{form.type} does not give back the weights that were written")
    return done, needed, stored


def most_changed(needed: NDArray[np.float32], stored: NDArray[np.float32]) -> Rounding:
    """Return the rounding of at least one scale."""
    with np.errstate(all="ignore"):
        apart = np.where(stored == needed, 0, np.abs(stored.astype(np.float64) / needed - 1))
    worst = int(apart.argmax())
    return Rounding(float(needed[worst]), float(stored[worst]), stored.size)
