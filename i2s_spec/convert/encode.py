"""Trits and a scale, encoded as a tensor of any type that can hold them, with a proof; and tensors to and from arrays.

Only the scale, which is a float32 in I2_S (clause 6.1), can change:

    I2_S           kept, bit for bit
    F32            kept: a weight is trit * scale, -scale, 0 or +scale
    F16, BF16      rounded to nearest, ties to even; a weight is trit * (rounded scale), which is trit * scale rounded
    Q2_0, TQ2_0 .. rounded to float16, as F16, or kept if the type has float32; it is stored in every block, or row

A scale that would become 0 or infinite is refused, and so are 0 and NaN if the type stores weights instead of trits.
Each encoded window is decoded again and compared before it is returned.

`decode_tensor`, `encode_array` and `replace_tensor` convert single tensors of GGUF files.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from i2s_spec.codec import blocks_native, quantized
from i2s_spec.codec.change_groups import BLOCK_TYPES, NotTernaryError, pack_blocks
from i2s_spec.codec.encoding import TERNARY_TYPES, ProofError, Rounding, TernaryEncoding, Trits, rounding
from i2s_spec.codec.kernels import in_order
from i2s_spec.codec.native import count_codes, pack, pack_trits, recode, unpack_codes
from i2s_spec.codec.observation import write_tail
from i2s_spec.codec.shape import FLOAT_WORDS, is_shape, widened
from i2s_spec.convert.rewrite import Replacement, rewrite
from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.atomic_file import OutputFile, refuse_inputs
from i2s_spec.gguf.source import CHUNK, chunks, require_unchanged, source_of
from i2s_spec.schema import faults
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, Dialect, parse
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.program_types import of_type
from i2s_spec.schema.types import BY_NAME, TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.atomic_file import Target
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.gguf.writer import Progress
    from i2s_spec.schema.faults import ByteOrder

#: Types that can store trits.
TARGETS: Final = TERNARY_TYPES


class Encoder:
    """The bytes of a ternary tensor in one form.

    :param form: type, shape, dialect and byte order
    :param scale: the value of +1
    :raises ValueError: for rows that begin inside a block of the layout (clause 5.3), and for a scale that the type
    cannot hold, or a negative scale, with which floats would invert the trits
    """

    def __init__(self, form: TernaryEncoding, scale: np.float32) -> None:
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
        self.encoding = form
        self.scale = scale
        self.rounding = rounding(scale, form.type)

    @property
    def stored(self) -> np.float32:
        """The scale in the bytes."""
        return np.float32(self.rounding.stored)

    def encode(self, trits: NDArray[np.int8]) -> bytes:
        """Return the bytes of a window of trits, without those of `tail`.

        :param trits: flat int8, as many as a window has
        :raises ValueError: if the type cannot store them, because the scale is 0
        """
        form = self.encoding
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
        order = order_prefix(self.encoding.byte_order)
        if self.encoding.type == "BF16":
            words: NDArray[np.generic] = (weights.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        else:
            words = weights.astype(np.float16 if self.encoding.type == "F16" else np.float32)
        bits = words.view(FLOAT_WORDS[self.encoding.type])
        return bits.astype(order + FLOAT_WORDS[self.encoding.type])

    def tail(self) -> bytes:
        """Return the bytes after the last window: 32 bytes for I2_S, the scale of each row before them for I2_SR;
        else empty.
        """
        if self.encoding.has_scales_apart:
            return self._scales(self.encoding.rows)
        if self.encoding.type != "I2_S":
            return b""
        return write_tail(self.scale, self.encoding.dialect.tail, self.encoding.byte_order)

    def _scales(self, rows: int) -> bytes:
        """Return the scale, once for each row, and 32 zeros."""
        scales = np.full(rows, self.stored, dtype=order_prefix(self.encoding.byte_order) + "f4")
        return scales.tobytes() + bytes(TAIL_BYTES)

    def proved(self, trits: NDArray[np.int8]) -> bytes:
        """Encode, and check that the bytes decode to these trits and the stored scale.

        :raises ProofError: if not
        """
        data = self.encode(trits)
        rest = self._scales(trits.size // self.encoding.cols) if self.encoding.has_scales_apart else b""
        decoded = self.encoding.decode(data + rest, trits.size)
        if not _same_trits(decoded.trits, trits):
            raise ProofError(f"{self.encoding.type} does not give back the trits that were written")
        if (decoded.scales != self.stored).any():
            raise ProofError(f"{self.encoding.type} gives back the scale {decoded.scales}, not {self.stored}")
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

    def __init__(self, source: Trits, form: TernaryEncoding, threads: int = 1) -> None:
        self.source = source
        self.threads = threads
        self.encoder = Encoder(form, source.scale)
        #: How many unused codes were kept, once all bytes are made.
        self.unused = 0

    @property
    def encoding(self) -> TernaryEncoding:
        """How the new bytes of the tensor hold its trits."""
        return self.encoder.encoding

    @property
    def rounding(self) -> Rounding:
        """The rounding of the scale."""
        return self.encoder.rounding

    def __iter__(self) -> Iterator[bytes]:
        source, encoder, form = self.source, self.encoder, self.encoding
        self.unused = 0
        if source.encoding.type == form.type == "I2_S" and source.unused == "reject":
            windows = source.payload(form.unit)
            for data, unused in in_order(lambda part: transcoded(part, source.encoding, form), windows, self.threads):
                self.unused += unused
                yield data
        else:
            yield from source.mapped(encoder.proved, self.threads, form.unit)
        yield encoder.tail()


def transcoded(data: bytes, source: TernaryEncoding, target: TernaryEncoding) -> tuple[bytes, int]:
    """Return a window of an I2_S payload in another dialect: the same trits, and the same number of unused codes."""
    count = len(data) * CODES_PER_BYTE
    shape = max(source.matrix(count), target.matrix(count))  # whole rows, if either layout packs groups of rows
    made: bytes = recode(data, shape, source.dialect, target.dialect)
    unused = count_codes(data)[source.dialect.code_map.unused]
    before, after = source.decode(data, count, "zero"), target.decode(made, count, "zero")
    if not np.array_equal(before.trits, after.trits) or count_codes(made)[target.dialect.code_map.unused] != unused:
        raise ProofError(f"{target.dialect} does not give back what was in {source.dialect}")
    return made, unused


# --- tensor io -------------------------------------------------------------------------------------------------------
# Decoding gives trits, codes or weights as a `.npy` file; encoding makes the bytes of an I2_S tensor, in a separate
# file or in place of a tensor of a GGUF file.

#: The forms of decoded tensors, with their dtypes.
FORMS: Final = {"trits": "int8", "float32": "float32", "codes": "uint8"}


class DecodedTensor(NamedTuple):
    """The result: shape and dtype of the array, the scale if there is one, bytes of the file."""

    shape: tuple[int, ...]
    dtype: str
    scale: float | None
    size: int


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
        has its own; the values of F32, F16 and BF16 tensors and, with the extra `[gguf]`, of other quantized types), or
        `codes` (uint8 0 to 3, for I2_S, whatever their meaning)
    :param dialect: the dialect of I2_S, which the file does not state
    :param unused_code: whether the unused code is refused or 0
    :raises KeyError: if there is no tensor with this name
    :raises ValueError: for a form that the tensor does not have
    :raises MissingExtra: for a quantized type that is not ternary, without the extra `[gguf]`
    :raises FormatError, OSError: for a file that does not hold it, and a path that cannot be written; `FileExistsError` for
        the path of the file itself, also with `force`
    """
    if form not in FORMS:
        raise ValueError(f"{quote(form)} is not one of {', '.join(FORMS)}")
    if name not in file.tensors:
        raise KeyError(f"the file has no tensor {quote(name)}")
    refuse_inputs(path, file.source)
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
    elif kind in quantized.TYPES:
        if form != "float32":
            raise ValueError(f"tensor {quote(name)}: {kind} holds no trits; --as float32 decodes its weights")
        parts = _quantized(file, tensor, kind)
    elif form == "float32" and of_type(tensor.type) is not None:
        parts = (weights.reshape(-1) for weights in (tensor.dequantize(),))
    else:
        trits = tensor.ternary(dialect, unused_code)
        if form == "codes":
            if kind != "I2_S":
                raise ValueError(f"tensor {quote(name)} is {kind}; only I2_S has codes")
            parts = _codes(trits.payload(), trits.encoding.matrix, parse(dialect))
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
    """Yield the weights of a tensor with a scale for each group; they may be +2 times a scale, if the type has that."""
    form = source.encoding
    answer = source.unused if BLOCK_TYPES[form.type].fourth == "reserved" else None
    for start, stop in source.windows():
        data = source.fetch(form.byte(start), form.byte(stop))
        yield blocks_native.dequantize(
            data, form.matrix(stop - start), form.type, byte_order=form.byte_order, unused_code=answer
        ).reshape(-1)


def _quantized(file: File, tensor: Tensor, kind: str) -> Iterator[NDArray[Any]]:
    span, form = tensor.span, BY_NAME[kind]
    tensor.require(span)
    for part in chunks(file.source, span.start, span.stop, quantized.WINDOW // form.block * form.bytes):
        yield quantized.dequantize(part, kind, file.byte_order)


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
    """Return the bytes of an I2_S tensor from an array: payload, then tail (clauses 5.5 and 6.1).

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
    from i2s_spec.codec.quantize import quantize

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


# --- npy -------------------------------------------------------------------------------------------------------------
# Files of one array (`.npy`), read, and written a part at a time, complete or not at all.

#: Longest header of an array without fields.
_MOST_HEADER = 1 << 14


def write_npy(
    path: str | os.PathLike[str],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    parts: Iterable[NDArray[Any]],
    *,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
    before_end: Callable[[], object] = lambda: None,
) -> int:
    """Write an array whose elements come in parts, in their order.

    :param parts: arrays of the dtype, of any shapes; together they have all elements
    :param force: replace an existing file
    :param before_end: called when all is written, before the file gets its name; if it raises, no file is left
    :returns: bytes of the file
    :raises ValueError: if the parts have more or fewer elements than the shape
    :raises OSError: as `OutputFile` does
    """
    head = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, header)
    size = len(head.getvalue()) + prod(shape) * dtype.itemsize
    with OutputFile(path, force=force, size=size) as output:
        output.write(head.getvalue())
        start = done = len(head.getvalue())
        for part in parts:
            data = np.ascontiguousarray(part, dtype=dtype).reshape(-1).view(np.uint8).data
            output.write(data)
            done += data.nbytes
            if progress is not None:
                progress(done, size)
        if done != size:
            raise ValueError(
                f"the parts have {counted(done - start, 'byte')}; an array of shape {list(shape)} has {size - start:,}"
            )
        before_end()
    return size


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of a `.npy` file, if it is complete and holds numbers.

    :raises FormatError: H103 for another file, arrays of objects, and files that end early; S901, S902 as `open` does;
    S903 if it changes meanwhile
    """
    source = source_of(path)
    try:
        head = io.BytesIO(source.read(0, min(source.size, _MOST_HEADER)))
        try:
            version = np.lib.format.read_magic(head)
            if version == (1, 0):
                shape, by_columns, dtype = np.lib.format.read_array_header_1_0(head)
            else:
                shape, by_columns, dtype = np.lib.format.read_array_header_2_0(head)
        except Exception as error:  # NumPy's parser of headers raises a dozen kinds of exceptions
            raise _malformed(f"its header is wrong ({type(error).__name__})") from None
        if dtype.hasobject or dtype.fields or dtype.subdtype or not dtype.itemsize:
            raise _malformed("its elements are not numbers")
        if not is_shape(shape):
            raise _malformed("its shape is invalid")
        nbytes, start = prod(shape) * dtype.itemsize, head.tell()
        if source.size - start < nbytes:
            raise _malformed(f"it needs {counted(nbytes, 'byte')}, but the file has {source.size - start:,}")
        array: NDArray[Any] = np.frombuffer(source.read(start, nbytes), dtype=dtype)
        require_unchanged(source)
        return array.reshape(shape, order="F" if by_columns else "C")
    except FormatError as error:
        error.of_file(path)
        raise
    finally:
        source.close()


def _malformed(reason: str) -> FormatError:
    return FormatError(faults.NPY_MALFORMED, Span(0, 0), reason=TrustedText(reason))
