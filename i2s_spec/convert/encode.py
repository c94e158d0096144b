"""This module converts single tensors of GGUF files to arrays, and arrays to tensors: decode and encode.

Decoding gives trits, codes or weights as a `.npy` file; encoding makes the bytes of an I2_S tensor, in a separate file
or in place of a tensor of a GGUF file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.form import FLOAT_WORDS, widened
from i2s_spec.codec.native import pack
from i2s_spec.codec.payload_native import unpack_codes
from i2s_spec.codec.ternary_types import BLOCK_TYPES, NotTernaryError
from i2s_spec.convert.container.rewrite import Replacement, rewrite
from i2s_spec.convert.tensors.npy import write_npy
from i2s_spec.deprecation import renamed_keyword
from i2s_spec.errors import quote
from i2s_spec.gguf.atomic_file import refuse_source
from i2s_spec.gguf.ranges import chunks
from i2s_spec.gguf.source import CHUNK
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.dialect import CANONICAL, Dialect, parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.codec.trits import Trits
    from i2s_spec.gguf.atomic_file import Target
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.gguf.writer import Progress
    from i2s_spec.schema.checks import ByteOrder

#: The forms of decoded tensors, with their dtypes.
FORMS: Final = {"trits": "int8", "float32": "float32", "codes": "uint8"}


class DecodedTensor(NamedTuple):
    """The result: shape and dtype of the array, the scale if there is one, bytes of the file."""

    shape: tuple[int, ...]
    dtype: str
    scale: float | None
    size: int


@renamed_keyword("code3", "unused_code")
def decode_tensor(
    file: File,
    name: str,
    path: str | os.PathLike[str],
    *,
    form: str = "trits",
    dialect: str | Dialect = CANONICAL,
    unused_code: Literal["reject", "zero"] = "reject",
    force: bool = False,
    progress: Progress | None = None,
    threads: int = 1,
) -> DecodedTensor:
    """Write a tensor as a `.npy` file.

    :param form: `trits` (int8, for tensors that are exactly ternary), `float32` (trits times scale, also if each group
    has its own, or the values of F32, F16 and BF16 tensors), or `codes` (uint8 0 to 3, for I2_S, whatever their
    meaning)
    :param dialect: the dialect of I2_S, which the file does not state
    :param unused_code: whether the unused code is refused or 0
    :raises KeyError: if there is no tensor with this name
    :raises ValueError: for a form that the tensor does not have
    :raises FormatError, OSError: for a file that does not hold it, and a path that cannot be written; `FileExistsError` for
        the path of the file itself, also with `force`
    """
    if form not in FORMS:
        raise ValueError(f"{quote(form)} is not one of {', '.join(FORMS)}")
    if name not in file.tensors:
        raise KeyError(f"the file has no tensor {quote(name)}")
    refuse_source(path, file.source)
    tensor = file.tensors[name]
    kind = tensor.type.name if tensor.type is not None else f"type {tensor.number}"
    scale: float | None = None
    if form == "float32" and kind in FLOAT_WORDS:
        parts = _floats(file, tensor, kind)
    elif form == "float32" and kind in BLOCK_TYPES:
        grouped = tensor.ternary(dialect, unused_code)
        with suppress(ValueError):  # +2 times a scale, and scales that are NaN or infinite, are valid here
            scale = float(grouped.scale) if grouped.has_one_scale() else None
        parts = _group_weights(grouped)
    else:
        trits = tensor.ternary(dialect, unused_code)
        if form == "codes":
            if kind != "I2_S":
                raise ValueError(f"tensor {quote(name)} is {kind}; only I2_S has codes")
            parts = _codes(trits.payload(), trits.form.matrix, parse(dialect))
        else:
            try:
                factor = trits.scale
            except NotTernaryError as error:
                if kind not in BLOCK_TYPES:
                    raise
                raise NotTernaryError(f"{error}; --as float32 decodes weights with any scales") from None
            scale = float(factor)
            parts = trits.parts(threads) if form == "trits" else trits.mapped(_times(factor), threads)
    dtype = FORMS[form]
    size = write_npy(
        path, np.dtype(dtype), tensor.shape, parts,
        force=force, progress=progress, before_end=file.require_unchanged,
    )  # fmt: skip
    return DecodedTensor(tensor.shape, dtype, scale, size)


def _times(scale: np.float32) -> Callable[[NDArray[np.int8]], NDArray[Any]]:
    def weights(trits: NDArray[np.int8]) -> NDArray[Any]:
        with np.errstate(all="ignore"):  # a scale that is infinite or NaN gives NaN
            return trits.astype(np.float32) * scale

    return weights


def _group_weights(source: Trits) -> Iterator[NDArray[Any]]:
    """The weights of a tensor with a scale for each group; they may be +2 times a scale, if the type has that."""
    form = source.form
    answer = source.unused if BLOCK_TYPES[form.type].fourth == "reserved" else None
    for start, stop in source.windows():
        data = source.fetch(form.byte(start), form.byte(stop))
        yield block_native.dequantize(
            data, form.matrix(stop - start), form.type, byte_order=form.byte_order, unused_code=answer
        ).reshape(-1)


def _floats(file: File, tensor: Tensor, kind: str) -> Iterator[NDArray[Any]]:
    span = tensor.span
    tensor.require(span)
    prefix = order_prefix(file.byte_order)
    for part in chunks(file.source, span.start, span.stop, CHUNK):
        yield widened(np.frombuffer(part, dtype=prefix + FLOAT_WORDS[kind]).astype(FLOAT_WORDS[kind]), kind)


def _codes(
    payload: Iterator[bytes], matrix: Callable[[int], tuple[int, int]], dialect: Dialect
) -> Iterator[NDArray[Any]]:
    for data in payload:
        yield unpack_codes(data, matrix(4 * len(data)), dialect.layout)


def encode_array(
    array: NDArray[Any],
    *,
    rule: str | None = None,
    scale: float | None = None,
    dialect: str | Dialect = CANONICAL,
    byte_order: ByteOrder = "little",
    strict: bool = True,
) -> bytes:
    """The bytes of an I2_S tensor from an array: payload, then tail (clauses 5.5 and 6.1).

    :param array: int8 trits, with `scale`; or floats, which a rule makes ternary (see `codec.quantize`)
    :param rule: `absmax` (the default for floats), `hf-first`, `embedding-mean` or `given`
    :param scale: the scale of trits, or the scale for the rule `given`
    :raises ValueError: for a scale that is NaN or infinite, trits without a scale or with a rule that computes one,
    values that are not trits, and shapes that the layout cannot hold
    :raises TypeError: for an array of another type
    """
    if scale is not None and not isfinite(scale):
        raise ValueError(f"the scale is {scale}: no weight can be computed from it")
    if array.dtype.kind in "iu":
        if rule not in {None, "given"}:
            raise ValueError(f"the array holds trits already; rule {rule} applies to floats")
        if scale is None:
            raise ValueError("the array holds trits, so their scale must be given")
        data: bytes = pack(array, scale, dialect, byte_order=byte_order, strict=strict)
        return data
    if array.dtype.kind != "f":
        raise TypeError(f"an array of trits (int8) or floats is expected, not {array.dtype}")
    from i2s_spec.codec.quantization.quantize import quantize

    rule = rule or ("absmax" if scale is None else "given")
    return quantize(array, rule, scale, dialect, strict, byte_order=byte_order)


def replace_tensor(
    file: File,
    name: str,
    array: NDArray[Any],
    target: Target,
    *,
    rule: str | None = None,
    scale: float | None = None,
    dialect: str | Dialect = CANONICAL,
    force: bool = False,
    progress: Progress | None = None,
) -> int:
    """Copy a GGUF file with one tensor replaced by an array, as I2_S.

    :param array: an array of the tensor's shape, in NumPy's order
    :returns: bytes of the copy
    :raises KeyError: if there is no tensor with this name
    :raises ValueError: for another shape, and as `encode_array` does
    """
    if name not in file.tensors:
        raise KeyError(f"the file has no tensor {quote(name)}")
    tensor = file.tensors[name]
    if array.shape != tensor.shape:
        raise ValueError(f"the array has the shape {list(array.shape)}, and {quote(name)} {list(tensor.shape)}")
    data = encode_array(array, rule=rule, scale=scale, dialect=dialect, byte_order=file.byte_order)
    return rewrite(
        file, target, replace={name: Replacement("I2_S", lambda: iter([data]))}, force=force, progress=progress
    )
