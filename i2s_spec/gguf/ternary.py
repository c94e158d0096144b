"""This module finds the trits of a tensor of a file: which form its bytes have, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from i2s_spec.errors import quote

if TYPE_CHECKING:
    from i2s_spec.codec.trits import Trits
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.schema.dialect import Dialect


def ternary(
    file: File, tensor: Tensor, dialect: str | Dialect = "canonical", unused: Literal["reject", "zero"] = "reject"
) -> Trits:
    """The trits and the scale of a tensor, read when they are asked for.

    :param dialect: of I2_S, a name or a `Dialect`; the file does not say it
    :param unused: whether the code that stands for nothing is an error or 0
    :raises ValueError: for a type that holds no trits, and for a shape that has no place in it; with the tensor's name
    :raises FormatError: where the file does not hold the tensor (clause 2.7)
    """
    from i2s_spec.codec.form import Form
    from i2s_spec.codec.trits import Trits
    from i2s_spec.schema.dialect import parse

    span = tensor.span
    tensor.require(span)
    name = tensor.type.name if tensor.type is not None else f"type {tensor.number}"
    dialect = parse(dialect)
    try:
        form = Form(name, tensor.shape, dialect, file.byte_order)
    except ValueError as error:
        raise ValueError(f"tensor {quote(tensor.name)}: {error}") from None
    return Trits(form, lambda start, stop: file.source.read(span.start + start, stop - start), unused)
