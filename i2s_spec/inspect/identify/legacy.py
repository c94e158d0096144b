"""This module looks into I2_S tensors that carry a number from before the release, which surveys take for other types."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Final, Literal

from i2s_spec.inspect.survey.tensor_survey import ByteRun, TensorSurvey
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File

#: Tensors that are looked at, and bytes of each payload.
TENSORS: Final = 64
BYTES: Final = 1 << 20


def legacy_surveys(file: File, rows: Iterator[tuple[int, bytes, tuple[int, ...], int]]) -> Iterator[TensorSurvey]:
    """What is in some tensors that have the room of I2_S: the beginnings of their payloads, and their tails.

    :param rows: row, name, ne and offset of each
    """
    for row, name, ne, offset in rows:
        from i2s_spec.codec.payload_native import count_codes  # only for such files: it imports NumPy

        start, size = (file.data_start or 0) + offset, prod(ne) // 4
        if prod(ne) % 4 or start + size + TAIL_BYTES > file.size:
            continue
        read = min(size, BYTES)
        payload = file.source.read(start, read)
        tail = file.source.read(start + size, TAIL_BYTES)
        counts = count_codes(payload)
        kind: Literal["zero", "replicated", "stale"]
        kind = "zero" if not any(tail[4:]) else "replicated" if tail == tail[:4] * 8 else "stale"
        (scale,) = struct.unpack(order_prefix(file.byte_order) + "f", tail[:4])
        last: ByteRun | None = None
        if read == size and payload:
            length = len(payload) - len(payload.rstrip(payload[-1:]))
            last = ByteRun(size - length, length, payload[-1])
        yield TensorSurvey(
            row, name, ne, start, size, read, read == size, counts, None, None, last, None, scale, tail, kind
        )  # fmt: skip
