"""What the shape of a tensor means for its bytes: a matrix, a payload with its tail, windows, lost elements.

A ternary tensor is a matrix. Where there are more dimensions, programs disagree whether each slice has a tail of its
own or all share the last one (clause 5.1): such tensors are refused.

    >>> payload_shape((4, 128))
    PayloadShape(rows=4, cols=128)
    >>> payload_shape((1, 4, 128)).nbytes
    160

`Weights` are the float weights of a tensor, a window at a time. `dropped_elements` says which elements of a tensor its
bytes do not hold, because layouts pack whole blocks; `check_readable` and `check_writable` refuse such tensors:

    >>> from i2s_spec.schema.dialect import LAYOUTS
    >>> print(dropped_elements(LAYOUTS["interleave-128"], 4, 33))
    elements 128 to 131 (row 3, columns 29 to 32)
    >>> print(dropped_elements(LAYOUTS["rows-1x4"], 5, 20))
    elements 80 to 99 (row 4, columns 0 to 19)
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CODES_PER_BYTE, Layout
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: Elements that are worked on at a time; the index arrays of a window take some 10 MB.
WINDOW: int = 1 << 18

#: The dtype of bytes, made once: to make it of `np.uint8` takes longer than to look at a few bytes.
OCTET = np.dtype(np.uint8)

#: Types whose elements are floats of their own, and the unsigned words that these are.
FLOAT_WORDS: Final = {"F32": "u4", "F16": "u2", "BF16": "u2"}

#: Most dimensions of an array.
MOST_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class PayloadShape:
    """What the bytes of a tensor are: the payload of `rows` x `cols` elements, and a tail."""

    rows: int
    cols: int

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return self.rows * self.cols

    @property
    def payload_bytes(self) -> int:
        """Bytes of the payload: what does not fill a byte has none (clause 5.2)."""
        return self.elements // CODES_PER_BYTE

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.payload_bytes + TAIL_BYTES

    def split(self, data: Any) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the payload and the tail, as views of the data.

        :raises ValueError: for data of another size
        """
        raw = octets(data)
        if raw.size != self.nbytes:
            raise ValueError(
                f"{self.rows:,} x {self.cols:,} elements take {counted(self.payload_bytes, 'byte')} of payload and "
                f"{TAIL_BYTES} of tail; there are {counted(raw.size, 'byte')}"
            )
        return raw[: self.payload_bytes], raw[self.payload_bytes :]


def payload_shape(shape: Sequence[int]) -> PayloadShape:
    """Return what the bytes of a tensor of a shape are. Dimensions of 1 in front of the last two mean nothing.

    :param shape: in NumPy's order
    :raises ValueError: for shapes without elements, and for tensors of several matrices
    """
    sizes = [operator.index(size) for size in shape]
    if any(size <= 0 for size in sizes):
        raise ValueError(f"the shape {tuple(sizes)} holds no elements")
    if (leading := prod(sizes[:-2])) != 1:
        raise ValueError(
            f"a tensor of shape {tuple(sizes)} is {counted(leading, 'slice')}, and programs "
            f"disagree whether each has a tail of "
            "its own or all share one: store every slice as a matrix"
        )
    return PayloadShape(*matrix(sizes[-2:]))


def matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a shape (rows, cols) or (n,); the latter is one row."""
    sizes = [operator.index(size) for size in shape]
    if any(size <= 0 for size in sizes):
        raise ValueError(f"the shape {tuple(sizes)} holds no elements")
    if len(sizes) not in {1, 2}:
        raise ValueError(f"a ternary tensor has 1 or 2 dimensions, not {len(sizes)}")
    return (1, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def octets(data: Any) -> NDArray[np.uint8]:
    """Return the bytes of anything with the buffer protocol, without a copy and wherever in memory they begin.

    :raises TypeError: for what has no buffer
    :raises ValueError: for a buffer with gaps
    """
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("the bytes of a tensor follow each other; those of this buffer do not")
    return np.frombuffer(view, OCTET)


def as_codes(payload: Any, rows: int, cols: int) -> NDArray[np.uint8]:
    """Return the bytes of a payload of rows x cols codes.

    :raises ValueError: for another size than n/4 bytes
    """
    raw = octets(payload)
    if raw.size != (want := rows * cols // CODES_PER_BYTE):
        raise ValueError(
            f"{rows:,} x {cols:,} codes take {counted(want, 'byte')}; there are {counted(raw.size, 'byte')}"
        )
    return raw


def sized(payload: Any, shape: tuple[int, int], layout: Layout) -> NDArray[np.uint8]:
    """Return the bytes of a payload, once its size is known to be right.

    :raises ValueError: for a shape that is not a whole number of blocks, and for another size than n/4 bytes
    """
    rows, cols = shape
    layout.check(rows, cols)
    return as_codes(payload, rows, cols)


def windows(n: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most `WINDOW` elements that cover `n`."""
    return ((start, min(start + WINDOW, n)) for start in range(0, n, WINDOW))


def place(k: int, cols: int) -> str:
    """Where element `k` is, for a message."""
    return f"at element {k:,} (row {k // cols:,}, column {k % cols:,})"


def is_shape(shape: object) -> bool:
    """Whether an array can have a shape from a file: few dimensions, each of at most 63 bits."""
    if not isinstance(shape, tuple | list) or len(shape) > MOST_DIMENSIONS:
        return False
    return all(type(length) is int and 0 <= length < 1 << 63 for length in shape)


# --- weights ---------------------------------------------------------------------------------------------------------
# The float weights of a tensor as float32, as producers convert them first.
#
# NumPy has no bfloat16: its words are uint16 here, and `from_bfloat16` and `to_bfloat16` say what they are.


def from_bfloat16(words: NDArray[Any]) -> NDArray[np.float32]:
    """Words of bfloat16, in whatever byte order, as float32: exactly, since a word is the upper half of one."""
    return (words.astype(np.uint32) << np.uint32(16)).view(np.float32)


def widened(bits: NDArray[Any], type: str) -> NDArray[np.float32]:
    """Words of a float type as float32, which holds them exactly.

    :param bits: unsigned integers of the type's width, in native order
    """
    if type == "F32":
        return bits.view(np.float32)
    if type == "F16":
        return bits.view(np.float16).astype(np.float32)
    return from_bfloat16(bits)


def to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """float32 as words of bfloat16: rounded to nearest, ties to even. A NaN may become another number."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)).astype(np.uint16)


class Weights:
    """Weights of a tensor, or of a slice: floats of any width, bfloat16 (also its bits as uint16), or signed integers.

    :raises TypeError: for anything else
    """

    def __init__(self, weights: ArrayLike) -> None:
        array = np.asarray(weights)
        kind = array.dtype
        if kind.kind not in "fi" and (kind.kind, kind.itemsize) != ("u", 2) and kind.name != "bfloat16":
            raise TypeError(f"weights are floats, or bfloat16 as uint16, not {array.dtype}")
        self.shape = array.shape
        self.flat: NDArray[Any] = array.reshape(-1)

    def __len__(self) -> int:
        return self.flat.size

    def values(self, start: int, stop: int) -> NDArray[np.float32]:
        """Elements `start` to `stop` as float32."""
        part = self.flat[start:stop]
        if part.dtype.kind == "u":
            return from_bfloat16(part)
        with np.errstate(all="ignore"):  # what is beyond float32 becomes an infinity
            return part.astype(np.float32, copy=False)

    def magnitudes(self, start: int, stop: int) -> NDArray[np.float32]:
        """Absolute values of elements `start` to `stop` as float32."""
        return np.abs(self.values(start, stop))


# --- dropped ---------------------------------------------------------------------------------------------------------
# Which elements of a tensor its bytes hold, and which are lost.
#
# Where a tensor is not a whole number of blocks, the released quantizers write the blocks that there are and leave the
# other bytes of the payload 0, which is -1; the Python converters refuse. Where a row is not a whole number of blocks,
# every element is held, but a reader that begins at a row finds most of every such row wrong (clause 5.3).
#
# By default such tensors are refused. With `strict=False` what is defined is read or written, and
# `UndefinedElementsWarning` says what is not.


class UndefinedElementsWarning(UserWarning):
    """The last elements of a tensor do not fill a block: a writer lost them, or a reader had to make them up."""


class Elements(NamedTuple):
    """A range of flat elements, `start <= k < stop`, of a matrix with `cols` columns."""

    start: int
    stop: int
    cols: int

    def __str__(self) -> str:
        (row, col), (last_row, last_col) = divmod(self.start, self.cols), divmod(self.stop - 1, self.cols)
        if self.stop - self.start == 1:
            return f"element {self.start:,} (row {row:,}, column {col:,})"
        what = f"elements {self.start:,} to {self.stop - 1:,}"
        if row == last_row:
            return f"{what} (row {row:,}, columns {col:,} to {last_col:,})"
        if col == 0 and last_col == self.cols - 1:
            return f"{what} (rows {row:,} to {last_row:,})"
        return f"{what} (row {row:,}, column {col:,}, to row {last_row:,}, column {last_col:,})"


def whole_blocks(layout: Layout, rows: int, cols: int) -> tuple[int, int]:
    """Rows and columns of the matrix that whole blocks hold: the first elements of the tensor, and perhaps all.

    Where a tensor ends inside a block that runs along the flattened elements, this is one row.
    """
    if layout.row_block > 1:
        return rows // layout.row_block * layout.row_block, cols
    whole = rows * cols // layout.block * layout.block
    return (rows, cols) if whole == rows * cols else (1, whole)


def dropped_elements(layout: Layout, rows: int, cols: int) -> Elements | None:
    """Return the last elements, if they do not fill a block, else None."""
    whole_rows, whole_cols = whole_blocks(layout, rows, cols)
    start = whole_rows * whole_cols
    return Elements(start, rows * cols, cols) if start < rows * cols else None


def split_row(layout: Layout, rows: int, cols: int) -> int | None:
    """Return the first row that begins inside a block, so that readers which begin at a row read it wrong; None if
    none does.
    """
    return 1 if rows > 1 and layout.row_block == 1 and cols % layout.block else None


def check_readable(layout: Layout, shape: PayloadShape, *, strict: bool = True) -> None:
    """Refuse, or with `strict=False` warn about, elements that the bytes of a tensor do not define.

    A whole tensor is read right even where rows begin inside blocks, so that this is no reason to refuse.

    :raises ValueError: for an incomplete last block, if `strict`, and for shapes for which a layout has no bytes
    """
    _check(layout, shape, strict, _READ)


def check_writable(layout: Layout, shape: PayloadShape, *, strict: bool = True) -> None:
    """Refuse to write what would be lost, or what readers that begin at a row would find wrong.

    With `strict=False` there is a warning for what is lost, and none for rows: every element is in the bytes.

    :raises ValueError: for either, if `strict`, and for shapes that a layout has no bytes for at all
    """
    _check(layout, shape, strict, _WRITTEN)
    if strict and (row := split_row(layout, shape.rows, shape.cols)) is not None:
        raise ValueError(
            f"rows of {counted(shape.cols, 'element')} are not whole blocks of {layout.block}: row "
            f"{row} begins inside one, and "
            f"kernels and get_rows, which begin at rows, would read it wrong; strict=False packs {layout} all the same"
        )


#: What happens to the elements of an incomplete last block: as a reason to refuse, and as a warning.
_READ: Final = ("the data does not say what they are; strict=False reads the others", "they are read as 0")
_WRITTEN: Final = ("they would be lost; strict=False writes what released quantizers do", "they are lost")


def _check(layout: Layout, shape: PayloadShape, strict: bool, words: tuple[str, str]) -> None:
    gone = dropped_elements(layout, shape.rows, shape.cols)
    if gone is None:
        return
    if strict or not layout.in_gguf:  # checkpoints have no blocks that a quantizer could leave out
        try:
            layout.check(shape.rows, shape.cols)
        except ValueError as error:
            raise ValueError(f"{error}, {gone}: {words[0]}" if layout.in_gguf else str(error)) from None
    warnings.warn(f"incomplete last block, {gone}: {words[1]}", UndefinedElementsWarning, stacklevel=4)
