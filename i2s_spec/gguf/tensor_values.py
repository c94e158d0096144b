"""The decoded data of a tensor: plain values, weights, and trits; loaded only when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from i2s_spec.schema import types
from i2s_spec.schema.faults import order_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.codec.encoding import Trits
    from i2s_spec.errors import Span
    from i2s_spec.gguf.source import Source
    from i2s_spec.schema.dialect import Dialect
    from i2s_spec.schema.faults import ByteOrder


def plain_values(
    source: Source, span: Span, kind: str, shape: tuple[int, ...], byte_order: ByteOrder
) -> np.ndarray[Any, Any]:
    """Return the values of F32, F16, F64, I8 to I64 in the file's byte order, read-only; of BF16 as float32.

    :param span: the tensor's bytes, which the source holds
    """
    prefix = order_prefix(byte_order)
    dtype = "u2" if kind == "BF16" else types.NUMPY_TYPES[kind]
    view = source.view
    data: bytes | memoryview = (
        view[span.start : span.stop] if view is not None else source.read(span.start, span.stop - span.start)
    )
    array = np.frombuffer(data, dtype=prefix + dtype)
    if kind == "BF16":
        from i2s_spec.codec.shape import from_bfloat16

        array = from_bfloat16(array)
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def dequantized(
    data: bytes, shape: tuple[int, ...], kind: str, dialect: str | Dialect, byte_order: ByteOrder,
    unused_code: Literal["reject", "zero"], threads: int,
) -> NDArray[np.float32]:  # fmt: skip
    """Return the weights of a tensor of I2_S, or of a type with a scale for each group."""
    from i2s_spec.codec import blocks_native
    from i2s_spec.codec.native import dequantize
    from i2s_spec.schema.blocks import GROUP_LAYOUTS

    if kind == "I2_S":
        return dequantize(data, shape, dialect, byte_order=byte_order, unused_code=unused_code, threads=threads)
    answer: Literal["reject", "zero"] | None = unused_code if GROUP_LAYOUTS[kind].fourth == "reserved" else None
    return blocks_native.dequantize(data, shape, kind, byte_order=byte_order, unused_code=answer, threads=threads)


def trits_of(
    source: Source, start: int, kind: str, shape: tuple[int, ...], dialect: Dialect, byte_order: ByteOrder,
    unused_code: Literal["reject", "zero"],
) -> Trits:  # fmt: skip
    """Return the trits of a tensor whose data begin at `start`, read a window at a time.

    :raises ValueError: for a type that holds no trits, and for a shape that it cannot have
    """
    from i2s_spec.codec.encoding import Form, Trits

    form = Form(kind, shape, dialect, byte_order)
    if form.has_scales_apart:
        from i2s_spec.codec.blocks_native import fetching
        from i2s_spec.schema.blocks import block_layout

        layout = block_layout(kind)
        fetch = fetching(layout, form.rows, form.cols, lambda at, size: source.read(start + at, size))
        return Trits(form, fetch, unused_code)
    return Trits(form, lambda first, stop: source.read(start + first, stop - first), unused_code)
