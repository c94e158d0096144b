"""This module encodes trits and a scale as a tensor of any type that can hold them, and proves the result.

Only the scale, which is a float32 in I2_S (clause 6.1), can change:

    I2_S           kept, bit for bit
    F32            kept: a weight is trit * scale, -scale, 0 or +scale F16, BF16      rounded to nearest, ties to even;
                   a weight is trit * (rounded scale), which is trit * scale rounded Q2_0, TQ2_0 .. rounded to float16,
                   as F16, or kept if the type has float32; it is stored in every block, or row

A scale that would become 0 or infinite is refused, and so are 0 and NaN if the type stores weights instead of trits.
Each encoded window is decoded again and compared before it is returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.codec.form import FLOAT_WORDS, TERNARY_TYPES, Form
from i2s_spec.codec.payload_native import count_codes, pack_trits, recode
from i2s_spec.codec.quantization.in_order import in_order
from i2s_spec.codec.scale_rounding import ProofError, Rounding, rounding
from i2s_spec.codec.tail import write_tail
from i2s_spec.codec.ternary_types import BLOCK_TYPES, pack_blocks
from i2s_spec.codec.trits import Trits
from i2s_spec.errors import counted
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Types that can store trits.
TARGETS: Final = TERNARY_TYPES


class Encoder:
    """The bytes of a ternary tensor in one form.

    :param form: type, shape, dialect and byte order
    :param scale: the value of +1
    :raises ValueError: for rows that begin inside a block of the layout (clause 5.3), and for a scale that the type
    cannot hold, or a negative scale, with which floats would invert the trits
    """

    def __init__(self, form: Form, scale: np.float32) -> None:
        layout = form.dialect.layout
        if form.type == "I2_S" and form.rows > 1 and layout.row_block == 1 and form.cols % layout.block:
            raise ValueError(
                f"rows of {counted(form.cols, 'element')} are not whole blocks of {layout.block}: "
                f"kernels, which begin at rows, "
                f"would read {layout} wrong"
            )
        if form.type in FLOAT_WORDS and scale < 0:
            raise ValueError(
                f"the scale is {scale:.9g}: {form.type} stores weights, so the signs of its trits would be inverted"
            )
        self.form = form
        self.scale = scale
        self.rounding = rounding(scale, form.type)

    @property
    def stored(self) -> np.float32:
        """The scale in the bytes."""
        return np.float32(self.rounding.stored)

    def encode(self, trits: NDArray[np.int8]) -> bytes:
        """The bytes of a window of trits, without those of `tail`.

        :param trits: flat int8, as many as a window has
        :raises ValueError: if the type cannot store them, because the scale is 0
        """
        form = self.form
        if form.type == "I2_S":
            payload: bytes = pack_trits(trits.reshape(form.matrix(trits.size)), form.dialect)
            return payload
        if form.has_scales_apart:
            codes: bytes = pack_trits(trits.reshape(form.matrix(trits.size)), CANONICAL)
            return codes
        if form.type in BLOCK_TYPES:
            return pack_blocks(trits.reshape(form.matrix(trits.size)), self.stored, form.type, form.byte_order)
        if self.stored == 0 and trits.any():
            raise ValueError(f"the scale is 0, so {form.type} would store 0 for every trit")
        return np.take(self._words, trits, mode="wrap").view(np.uint8).tobytes()

    @cached_property
    def _words(self) -> NDArray[np.generic]:
        """The words of 0, +1 and -1, in this order, so that -1 is the last."""
        weights = np.array([0, 1, -1], dtype=np.float32) * self.stored
        order = order_prefix(self.form.byte_order)
        if self.form.type == "BF16":
            words: NDArray[np.generic] = (weights.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        else:
            words = weights.astype(np.float16 if self.form.type == "F16" else np.float32)
        bits = words.view(FLOAT_WORDS[self.form.type])
        return bits.astype(order + FLOAT_WORDS[self.form.type])

    def tail(self) -> bytes:
        """The bytes after the last window: 32 bytes for I2_S, the scale of each row before them for I2_SR; else empty."""
        if self.form.has_scales_apart:
            return self._scales(self.form.rows)
        if self.form.type != "I2_S":
            return b""
        return write_tail(self.scale, self.form.dialect.tail, self.form.byte_order)

    def _scales(self, rows: int) -> bytes:
        """The scale, once for each row, and 32 zeros."""
        scales = np.full(rows, self.stored, dtype=order_prefix(self.form.byte_order) + "f4")
        return scales.tobytes() + bytes(TAIL_BYTES)

    def proved(self, trits: NDArray[np.int8]) -> bytes:
        """`encode`, with a check that the bytes decode to these trits and the stored scale.

        :raises ProofError: if not
        """
        data = self.encode(trits)
        rest = self._scales(trits.size // self.form.cols) if self.form.has_scales_apart else b""
        decoded = self.form.decode(data + rest, trits.size)
        if not _same_trits(decoded.trits, trits):
            raise ProofError(f"{self.form.type} does not give back the trits that were written")
        if (decoded.scales != self.stored).any():
            raise ProofError(f"{self.form.type} gives back the scale {decoded.scales}, not {self.stored}")
        return data


def _same_trits(first: NDArray[np.int8], second: NDArray[np.int8]) -> bool:
    """Whether two windows are equal, eight trits at a time."""
    whole = first.size // 8 * 8
    if first.size != second.size or not (first.flags.c_contiguous and second.flags.c_contiguous):
        return np.array_equal(first, second)
    eights = np.array_equal(first[:whole].view(np.int64), second[:whole].view(np.int64))
    return eights and np.array_equal(first[whole:], second[whole:])


class Recoding:
    """A tensor in another form; its bytes are made during iteration, and each window is proved before it is returned.

    Between dialects of I2_S the unused code is kept; other types cannot store it.

    :param source: the tensor; if it reads the unused code as 0, so does the result
    :param form: the new form, with the same shape
    :param threads: how many threads work
    :raises ValueError: as `Encoder` does, and for a source that is not ternary
    :raises UnusedCodeError: during iteration, if the source has unused codes and the type cannot store them
    """

    def __init__(self, source: Trits, form: Form, threads: int = 1) -> None:
        self.source = source
        self.threads = threads
        self.encoder = Encoder(form, source.scale)
        #: How many unused codes were kept, once all bytes are made.
        self.unused = 0

    @property
    def form(self) -> Form:
        """The new form of the tensor."""
        return self.encoder.form

    @property
    def rounding(self) -> Rounding:
        """The rounding of the scale."""
        return self.encoder.rounding

    def __iter__(self) -> Iterator[bytes]:
        source, encoder, form = self.source, self.encoder, self.form
        self.unused = 0
        if source.form.type == form.type == "I2_S" and source.unused == "reject":
            windows = source.payload(form.unit)
            for data, unused in in_order(lambda part: transcoded(part, source.form, form), windows, self.threads):
                self.unused += unused
                yield data
        else:
            yield from source.mapped(encoder.proved, self.threads, form.unit)
        yield encoder.tail()


def transcoded(data: bytes, source: Form, target: Form) -> tuple[bytes, int]:
    """A window of an I2_S payload in another dialect: the same trits, and the same number of unused codes."""
    count = len(data) * CODES_PER_BYTE
    shape = max(source.matrix(count), target.matrix(count))  # whole rows, if either layout packs groups of rows
    made: bytes = recode(data, shape, source.dialect, target.dialect)
    unused = count_codes(data)[source.dialect.code_map.unused]
    before, after = source.decode(data, count, "zero"), target.decode(made, count, "zero")
    if not np.array_equal(before.trits, after.trits) or count_codes(made)[target.dialect.code_map.unused] != unused:
        raise ProofError(f"{target.dialect} does not give back what was in {source.dialect}")
    return made, unused
