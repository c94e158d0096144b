"""This module puts many small I2_S tensors into another dialect at once: a kernel, a proof and a read for hundreds of them.

A file of 10 MB can hold 90,000 tensors of 32 bytes of codes, for which calls take a hundred times longer than the codes.
Payloads of whole blocks, or of whole groups of rows of one length, one behind the other, are a payload too.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.codec.form import Form
from i2s_spec.codec.payload_native import count_codes
from i2s_spec.codec.tail import SCALE_BYTES
from i2s_spec.convert.tensors.encode import Encoder, transcoded
from i2s_spec.gguf.source import read_spans
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.types import I2_S, TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.schema.checks import ByteOrder
    from i2s_spec.schema.dialect import Dialect

#: Elements of a tensor that is small.
SMALL: Final = 1 << 16

#: Tensors that are recoded at once.
TOGETHER: Final = 256


class SmallRecodings:
    """Small I2_S tensors of a file in another dialect; their bytes are made in the order in which they were added, and
    proved before they are given.

    The code that stands for nothing is kept as such.

    :param source: the dialect of the file, with one copy of the scale, so that every tail has a scale to give
    :param target: the dialect that they get
    :param order: the byte order of the copy
    """

    def __init__(self, file: File, source: Dialect, target: Dialect, order: ByteOrder) -> None:
        self.source = source
        self.target = target
        self._file = file
        self._order: ByteOrder = order
        self._forms: dict[tuple[int, ...], tuple[Form, Form] | None] = {}
        self._tensors: list[Tensor] = []
        #: By place: of each tensor the codes that stand for nothing, and its scale, once its bytes are made.
        self.unused = array("Q")
        self.scales = array("f")
        self._ready: dict[int, bytes] = {}

    def add(self, tensor: Tensor) -> int | None:
        """The place that a tensor gets; None for one that is not small, or whose shape is not for both dialects."""
        if tensor.type is not I2_S or self.source.tail.copies > 1 or self._forms_of(tensor) is None:
            return None
        self._tensors.append(tensor)
        self.unused.append(0)
        self.scales.append(0)
        return len(self._tensors) - 1

    def data(self, place: int) -> Callable[[], Iterator[bytes]]:
        """What makes the bytes of the tensor of a place."""
        return partial(self._bytes, place)

    def _bytes(self, place: int) -> Iterator[bytes]:
        if place not in self._ready:
            self._make(place)
        yield self._ready.pop(place)

    def _forms_of(self, tensor: Tensor) -> tuple[Form, Form] | None:
        """Both forms of a tensor of these dimensions."""
        ne = tensor.ne
        if ne not in self._forms:
            self._forms[ne] = None
            if prod(ne) <= SMALL:
                try:
                    source = Form("I2_S", tensor.shape, self.source, self._file.byte_order)
                    target = Form("I2_S", tensor.shape, self.target, self._order)
                    Encoder(target, np.float32(0))  # which refuses rows that begin inside of blocks
                except ValueError:
                    pass  # who recodes it alone says why
                else:
                    self._forms[ne] = source, target
        return self._forms[ne]

    def _make(self, first: int) -> None:
        """Make the bytes of a tensor and of those after it; whatever of an earlier turn was not asked for is dropped."""
        self._ready = {}
        rows = any(dialect.layout.row_block > 1 for dialect in (self.source, self.target))
        groups: dict[int, list[int]] = {}
        for place, tensor in enumerate(self._tensors[first : first + TOGETHER], first):
            groups.setdefault(tensor.ne[0] if rows else 0, []).append(place)
        for cols, places in groups.items():
            self._recode(places, cols)

    def _recode(self, places: list[int], cols: int) -> None:
        """Recode tensors whose payloads, one behind the other, are one: of rows of `cols` elements, or of whole blocks."""
        start = self._file.data_start or 0
        tensors = [self._tensors[place] for place in places]
        each = read_spans(self._file.source, [(start + tensor.offset, I2_S.nbytes(tensor.ne)) for tensor in tensors])
        payload = b"".join(data[:-TAIL_BYTES] for data in each)
        elements = 4 * len(payload)
        shape = (elements // cols, cols) if cols else (1, elements)
        source = Form("I2_S", shape, self.source, self._file.byte_order)
        made, unused = transcoded(payload, source, Form("I2_S", shape, self.target, self._order))
        at = 0
        for place, data in zip(places, each, strict=True):
            size, scale = len(data) - TAIL_BYTES, data[-TAIL_BYTES : SCALE_BYTES - TAIL_BYTES]
            (self.scales[place],) = struct.unpack(order_prefix(self._file.byte_order) + "f", scale)
            if unused:
                self.unused[place] = count_codes(data[:size])[self.source.code_map.unused]
            stored = scale if self._order == self._file.byte_order else scale[::-1]
            tail = (stored * self.target.tail.copies).ljust(TAIL_BYTES, b"\0")
            self._ready[place] = made[at : at + size] + tail
            at += size
