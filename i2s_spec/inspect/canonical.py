"""This module gives keys and tensors in one form, whatever the file's byte order, layout and types: for hashes and diffs.

Values and data come as a little-endian file has them. A ternary tensor comes as codes, four to a byte: trit + 1 of flat
element k in bits 2*(k % 4) of byte k // 4, and 3 for the code that stands for nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import Entry, File, Tensor
from i2s_spec.gguf.source import CHUNK, chunks
from i2s_spec.schema.types import TAIL_BYTES, VALUE_FORMATS, ValueType

if TYPE_CHECKING:
    from i2s_spec.codec.trits import Trits
    from i2s_spec.schema.dialect import Dialect

#: The form of ternary tensors, as a layout.
LAYOUT: Final = "sequential-lsb"

#: Types other than I2_S that a matrix may be ternary in.
_PERHAPS_TERNARY: Final = ("TQ1_0", "TQ2_0", "F32", "F16", "BF16")


def canonical_value(file: File, entry: Entry) -> Iterator[bytes]:
    """The type and value of a key: u32 type, then the value with lengths and element types (clause 2.5)."""
    start, stop = entry.span.start + 8 + len(entry.name), entry.span.stop
    if file.byte_order == "little":
        yield from chunks(file.source, start, stop)
        return
    yield _turned(file.source.read(start, 4))
    start += 4
    if entry.type == ValueType.ARRAY and entry.element in VALUE_FORMATS:
        width = struct.calcsize(VALUE_FORMATS[entry.element])
        yield _turned(file.source.read(start, 4)) + _turned(file.source.read(start + 4, 8))
        for part in chunks(file.source, start + 12, stop):  # a MiB is whole words
            yield _turned_words(part, width)
        return
    data = file.source.read(start, stop - start)
    yield b"".join(_turned_value(data, [0], entry.type))


def _turned_value(data: bytes, at: list[int], kind: int) -> Iterator[bytes]:
    """One value of a big-endian file, from `at` on, which moves; the scanner has found it whole."""

    def take(width: int) -> bytes:
        at[0] += width
        return data[at[0] - width : at[0]]

    if kind == ValueType.STRING:
        length = take(8)
        yield _turned(length) + take(int.from_bytes(length, "big"))
    elif kind == ValueType.ARRAY:
        element, count = take(4), take(8)
        yield _turned(element) + _turned(count)
        for _ in range(int.from_bytes(count, "big")):
            yield from _turned_value(data, at, int.from_bytes(element, "big"))
    else:
        yield _turned(take(struct.calcsize(VALUE_FORMATS[kind])))


def _turned(word: bytes) -> bytes:
    return word[::-1]


def _turned_words(data: bytes, width: int) -> bytes:
    import numpy as np

    return np.frombuffer(data, dtype=f"u{width}").byteswap().tobytes() if width > 1 else data


def as_trits(file: File, tensor: Tensor, dialect: str | Dialect = "canonical") -> Trits | None:
    """A tensor as trits: I2_S, and a matrix of another type that is exactly ternary; None for all others.

    :param dialect: of I2_S
    :raises ValueError: for a dialect that does not exist, or whose tail the tensor does not have
    :raises FormatError: where the file does not hold the tensor
    """
    from i2s_spec.gguf.ternary import ternary
    from i2s_spec.schema.dialect import parse

    dialect = parse(dialect)
    name = tensor.type.name if tensor.type is not None else None
    if name != "I2_S" and (name not in _PERHAPS_TERNARY or len(lengths(tensor)) < 2):
        return None
    try:
        trits = ternary(file, tensor, dialect)
        if not trits.has_one_scale():
            return None
    except FormatError:
        raise
    except ValueError:
        return None
    return trits


def packed_codes(trits: Trits, threads: int = 1) -> Iterator[bytes]:
    """The codes of a ternary tensor in the one form; what does not fill the last byte is 0."""
    from i2s_spec.codec.in_order import in_order
    from i2s_spec.codec.native import pack, transcode

    form = trits.form
    if form.type == "I2_S":

        def recoded(data: bytes) -> bytes:
            shape = form.matrix(4 * len(data))
            result: bytes = transcode(data + bytes(TAIL_BYTES), shape, form.dialect, LAYOUT, strict=False)
            return result[:-TAIL_BYTES]

        yield from in_order(recoded, trits.payload(4), threads)
        return

    import numpy as np

    def packed(part: Any) -> bytes:
        filled = np.concatenate([part, np.full(-part.size % 4, -1, dtype=np.int8)]) if part.size % 4 else part
        result: bytes = pack(filled.reshape(1, -1), 0.0, LAYOUT)
        return result[:-TAIL_BYTES]

    yield from trits.mapped(packed, threads, 4)


def canonical_data(file: File, tensor: Tensor) -> Iterator[bytes]:
    """The data of a tensor as a little-endian file has it; as it is, where `words_known` says no."""
    span = tensor.span
    tensor.require(span)
    kind = tensor.type
    if file.byte_order == "little" or kind is None or kind.words is None:
        yield from chunks(file.source, span.start, span.stop)
    elif kind.size is not None:  # codes, and the scale behind them
        tail = tensor.tail_span
        yield from chunks(file.source, span.start, tail.start)
        data = file.source.read(tail.start, tail.stop - tail.start)
        yield _turned(data[:4]) + data[4:]
    else:
        import numpy as np

        step = max(CHUNK // kind.bytes, 1) * kind.bytes
        for part in chunks(file.source, span.start, span.stop, step):
            blocks = np.frombuffer(part, dtype=np.uint8).reshape(-1, kind.bytes).copy()
            for offset, width in kind.words:
                blocks[:, offset : offset + width] = blocks[:, offset : offset + width][:, ::-1].copy()
            yield blocks.tobytes()


def words_known(file: File, tensor: Tensor) -> bool:
    """Whether `canonical_data` can be given: not for a big-endian file's types whose words nobody has written down."""
    return file.byte_order == "little" or (tensor.type is not None and tensor.type.words is not None)


def lengths(tensor: Tensor) -> tuple[int, ...]:
    """The shape in ggml's order without lengths of 1 at its end, which writers may leave out; at least one."""
    ne = tensor.ne
    while len(ne) > 1 and ne[-1] == 1:
        ne = ne[:-1]
    return ne


def type_name(tensor: Tensor) -> str:
    """The name of a tensor's type, or its number."""
    return tensor.type.name if tensor.type is not None else f"type {tensor.number}"
