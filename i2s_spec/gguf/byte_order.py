"""Byte swapping: the one place where key-values, tails and tensors change their byte order.

A big-endian file has everything big-endian (clause 2.3): header, key-values, tensor infos, and the words inside the
tensors. Which bytes of a tensor are words is declared with its type; of I2_S it is the scale alone (clause 6.1), since
its codes are bytes. Bytes are swapped, not values, so no NaN and no invalid text is changed on the way. Every function
undoes itself: what is swapped twice is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING

from i2s_spec.errors import quote
from i2s_spec.gguf.source import CHUNK, Source, chunks
from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import (
    SMALLEST_VALUE,
    TAIL_BYTES,
    VALUE_FORMATS,
    TensorType,
    ValueType,
    two_bits_and_tail,
    two_bits_row_scales,
)

if TYPE_CHECKING:
    from i2s_spec.gguf.header import KeyValue
    from i2s_spec.gguf.tensor import Tensor


def swapped_record(record: bytes, order: ByteOrder) -> bytes:
    """Return a key-value of byte order `order` in the other one.

    :param record: the whole record, as the scanner has found it well-formed
    """
    data = bytearray(record)
    at = _swap_text(data, 0, order)
    kind, at = _swap_word(data, at, 4, order)
    _swap_value(data, at, kind, order)
    return bytes(data)


def swapped_value(source: Source, entry: KeyValue, order: ByteOrder) -> Iterator[bytes]:
    """Yield the type and the value of a key-value of byte order `order` in the other one; long arrays of numbers in
    parts.
    """
    at = entry.type_span.start
    yield source.read(at, 4)[::-1]
    at += 4
    if entry.type == ValueType.ARRAY and entry.element in VALUE_FORMATS:
        yield source.read(at, 4)[::-1] + source.read(at + 4, 8)[::-1]
        for part in chunks(source, at + 12, entry.stop):  # a MiB is whole words
            yield swapped_words(part, SMALLEST_VALUE[entry.element])
        return
    data = bytearray(source.read(at, entry.stop - at))
    _swap_value(data, 0, entry.type, order)
    yield bytes(data)


def swapped_words(data: bytes, width: int) -> bytes:
    """Words of `width` bytes, each with its bytes in the other order."""
    import numpy as np

    return np.frombuffer(data, dtype=f"u{width}").byteswap().tobytes() if width > 1 else data


def _swap_word(data: bytearray, at: int, width: int, order: ByteOrder) -> tuple[int, int]:
    """Swap the bytes of one word; its value, and where the next begins."""
    word = data[at : at + width]
    data[at : at + width] = word[::-1]
    return int.from_bytes(word, order), at + width


def _swap_text(data: bytearray, at: int, order: ByteOrder) -> int:
    length, at = _swap_word(data, at, 8, order)
    return at + length


def _swap_value(data: bytearray, at: int, kind: int, order: ByteOrder) -> int:
    """Swap one value, arrays as deep as they nest (the scanner has bounded it); where it ends."""
    if kind == ValueType.STRING:
        return _swap_text(data, at, order)
    if kind != ValueType.ARRAY:
        return _swap_word(data, at, SMALLEST_VALUE[kind], order)[1]
    element, at = _swap_word(data, at, 4, order)
    count, at = _swap_word(data, at, 8, order)
    if element in (ValueType.STRING, ValueType.ARRAY):
        for _ in range(count):
            at = _swap_value(data, at, element, order)
        return at
    stop = at + count * SMALLEST_VALUE[element]
    data[at:stop] = swapped_words(bytes(data[at:stop]), SMALLEST_VALUE[element])
    return stop


def words_known(kind: TensorType | None) -> bool:
    """Whether it is known which bytes of a tensor of that type form words, so that they can be swapped."""
    return kind is not None and kind.words is not None


def swapped_data(source: Source, tensor: Tensor) -> Callable[[], Iterator[bytes]]:
    """Return a function that yields the bytes of a tensor in the other byte order, in parts of at most a MiB.

    :raises ValueError: at once, where the words of its type are not known
    """
    kind, (start, stop, _) = tensor.type, tensor.span
    if kind is None or kind.words is None:
        name = f"type {tensor.number}" if kind is None else kind.name
        raise ValueError(
            f"tensor {quote(tensor.name)} is of type {name}: which of its bytes form words is not known, "
            "so its byte order cannot be changed"
        )
    if kind.size is two_bits_and_tail:
        return lambda: _with_swapped_tail(source, start, stop)
    if kind.size is two_bits_row_scales:
        return lambda: _with_swapped_scales(source, start, stop, prod(tensor.ne) // CODES_PER_BYTE)
    if kind.row_words:
        return lambda: _swapped_rows(source, start, stop, kind, kind.nbytes(tensor.ne[:1]))
    if not kind.words:
        return lambda: chunks(source, start, stop)
    step = max(CHUNK // kind.bytes, 1) * kind.bytes
    return lambda: (_swapped_blocks(part, kind) for part in chunks(source, start, stop, step))


def _swapped_blocks(data: bytes, kind: TensorType) -> bytes:
    """Whole blocks with their words swapped."""
    import numpy as np

    if kind.words == ((0, kind.bytes),):
        return swapped_words(data, kind.bytes)
    blocks = np.frombuffer(data, dtype=np.uint8).reshape(-1, kind.bytes).copy()
    for offset, width in kind.words or ():
        blocks[:, offset : offset + width] = blocks[:, offset : offset + width][:, ::-1].copy()
    return blocks.tobytes()


def _swapped_rows(source: Source, start: int, stop: int, kind: TensorType, row: int) -> Iterator[bytes]:
    """Rows with the words in front of them swapped; their blocks have no words."""
    import numpy as np

    assert not kind.words
    if row > CHUNK:
        for at in range(start, stop, row):
            front = bytearray(source.read(at, kind.row_bytes))
            for offset, width in kind.row_words:
                front[offset : offset + width] = front[offset : offset + width][::-1]
            yield bytes(front)
            yield from chunks(source, at + kind.row_bytes, at + row)
        return
    for part in chunks(source, start, stop, CHUNK // row * row):
        rows = np.frombuffer(part, dtype=np.uint8).reshape(-1, row).copy()
        for offset, width in kind.row_words:
            rows[:, offset : offset + width] = rows[:, offset : offset + width][:, ::-1].copy()
        yield rows.tobytes()


def _with_swapped_scales(source: Source, start: int, stop: int, payload: int) -> Iterator[bytes]:
    """I2_SR: codes, a float32 for each row, the tail."""
    yield from chunks(source, start, start + payload)
    for part in chunks(source, start + payload, stop - TAIL_BYTES):
        yield swapped_words(part, 4)
    yield swapped_tail(source.read(stop - TAIL_BYTES, TAIL_BYTES))


def _with_swapped_tail(source: Source, start: int, stop: int) -> Iterator[bytes]:
    yield from chunks(source, start, stop - TAIL_BYTES)
    yield swapped_tail(source.read(stop - TAIL_BYTES, TAIL_BYTES))


def swapped_tail(tail: bytes) -> bytes:
    """Return the 32 bytes after an I2_S or TL1 payload in the other byte order (clause 6.1).

    The first four are the scale. Where the rest is seven copies of it, as some converters wrote them, the copies are
    swapped too; any other rest means nothing and stays as it is.
    """
    scale, rest = tail[:4], tail[4:]
    swapped = scale[::-1]
    # Seven copies of the swapped scale are what is left by a conversion that knew only the first float. They are
    # swapped as well: else such a tail would become a replicated one, and a second conversion would not undo the first.
    if rest in (scale * 7, swapped * 7):
        return swapped + swapped_words(rest, 4)
    return swapped + rest
