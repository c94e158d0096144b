"""This module gives keys and tensors in one form, whatever the file's byte order, layout and types: for hashes and diffs.

Values and data come as a little-endian file has them. A ternary tensor comes as codes, four to a byte: trit + 1 of flat
element k in bits 2*(k % 4) of byte k // 4, and 3 for the unused code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import FormatError, counted
from i2s_spec.gguf import byte_order
from i2s_spec.gguf.ranges import chunks
from i2s_spec.gguf.reader import File, KeyValue, Tensor
from i2s_spec.gguf.regular_file import require_written

if TYPE_CHECKING:
    from i2s_spec.codec.trits import Trits
    from i2s_spec.schema.dialect import Dialect

#: The form of ternary tensors, as a layout.
LAYOUT: Final = "sequential-lsb"

#: Elements of a tensor that is read at once, and looked at without windows.
SMALL: Final = 1 << 16

#: Types other than I2_S that a matrix may be ternary in.
_PERHAPS_TERNARY: Final = ("I2_SR", "TQ1_0", "TQ2_0", "F32", "F16", "BF16")


def canonical_value(file: File, entry: KeyValue) -> Iterator[bytes]:
    """The type and value of a key: u32 type, then the value with lengths and element types (clause 2.5)."""
    if file.byte_order == "little":
        yield from chunks(file.source, entry.type_span.start, entry.stop)
    else:
        yield from byte_order.swapped_value(file.source, entry, file.byte_order)


def as_trits(file: File, tensor: Tensor, dialect: str | Dialect = "canonical") -> Trits | None:
    """A tensor as trits: I2_S, and a matrix of another type that is exactly ternary; None for all others.

    :param dialect: of I2_S
    :raises ValueError: for a dialect that does not exist, or whose tail the tensor does not have
    :raises FormatError: where the file does not hold the tensor
    """
    if isinstance(dialect, str):
        from i2s_spec.schema.dialect import parse

        dialect = parse(dialect)
    name = tensor.type.name if tensor.type is not None else None
    if name != "I2_S" and (name not in _PERHAPS_TERNARY or len(lengths(tensor)) < 2):
        return None
    try:
        trits = tensor.ternary(dialect)
        if not trits.has_one_scale():
            return None
    except FormatError:
        raise
    except ValueError:
        return None
    return trits


def packed_codes(trits: Trits, threads: int = 1) -> Iterator[bytes]:
    """The codes of a ternary tensor in the one form; what does not fill the last byte is 0."""
    from i2s_spec.codec.payload_native import pack_trits, recode
    from i2s_spec.codec.quantization.in_order import in_order
    from i2s_spec.schema.dialect import parse

    form = trits.form
    if form.type == "I2_S":

        def recoded(data: bytes) -> bytes:
            result: bytes = recode(data, form.matrix(4 * len(data)), form.dialect, parse(LAYOUT))
            return result

        if form.elements <= SMALL:  # one window, of thousands perhaps: what follows would take longer than the codes
            yield recoded(trits.fetch(0, form.byte(form.elements)))
            return
        yield from in_order(recoded, trits.payload(4), threads)
        return

    import numpy as np

    def packed(part: Any) -> bytes:
        filled = np.concatenate([part, np.full(-part.size % 4, -1, dtype=np.int8)]) if part.size % 4 else part
        result: bytes = pack_trits(filled.reshape(1, -1), parse(LAYOUT))
        return result

    yield from trits.mapped(packed, threads, 4)


def canonical_data(file: File, tensor: Tensor) -> Iterator[bytes]:
    """The data of a tensor as a little-endian file has it; as it is, where `words_known` says no."""
    span = tensor.span
    tensor.require(span)
    if file.byte_order == "little" or not words_known(file, tensor):
        return chunks(file.source, span.start, span.stop)
    return byte_order.swapped_data(file.source, tensor)()


def words_known(file: File, tensor: Tensor) -> bool:
    """Whether `canonical_data` can be given: not for a big-endian file's types whose words nobody has written down."""
    return file.byte_order == "little" or byte_order.words_known(tensor.type)


def require_own_bytes(file: File, tensors: Iterable[Tensor]) -> int:
    """Refuse a file that cannot be read whole in reasonable time: one of holes, or whose tensors are larger than it is,
    which only bytes of several tensors make possible.

    Whoever reads each tensor whole would need time that grows with the square of the file's size.

    :param tensors: all tensors of the file
    :returns: bytes of all tensors
    :raises FormatError: for a tensor that the file does not hold whole, or whose size is not known
    :raises ValueError: for such a file
    """
    require_written(file.source)
    total = 0
    for tensor in tensors:
        span = tensor.span
        tensor.require(span)
        total += span.stop - span.start
    if total > file.size:
        raise ValueError(
            f"tensors share bytes (G404): they have {counted(total, 'byte')}, and the file has {file.size:,}"
        )
    return total


def lengths(tensor: Tensor) -> tuple[int, ...]:
    """The shape in ggml's order without lengths of 1 at its end, which writers may leave out; at least one."""
    ne = tensor.ne
    while len(ne) > 1 and ne[-1] == 1:
        ne = ne[:-1]
    return ne


def type_name(tensor: Tensor) -> str:
    """The name of a tensor's type, or its number."""
    return tensor.type.name if tensor.type is not None else f"type {tensor.number}"
