"""This module says which elements of a tensor its bytes hold, which are lost, and what programs make of the rest.

Layouts pack whole blocks. Where a tensor is not a whole number of them, the released quantizers write the blocks that there
are and leave the other bytes of the payload 0, which is -1; the Python converters refuse. Where a row is not a whole number
of blocks, every element is held, but a reader that begins at a row finds most of every such row wrong (clause 5.3).

By default such tensors are refused, in the words of this module. With `strict=False` what is defined is read or written,
and `UndefinedElementsWarning` says what is not.

    >>> print(dropped_elements(LAYOUTS["interleave-128"], 4, 33))
    elements 128 to 131 (row 3, columns 29 to 32)
    >>> print(dropped_elements(LAYOUTS["rows-1x4"], 5, 20))
    elements 80 to 99 (row 4, columns 0 to 19)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from i2s_spec.codec.shape import PayloadShape, payload_shape, windows
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CODES_PER_BYTE, LAYOUTS, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class UndefinedElementsWarning(UserWarning):
    """Elements of a tensor are in no whole block: what was written does not hold them, what was read does not say them."""


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
    """The elements that no whole block holds: always the last ones. None if there are none."""
    whole_rows, whole_cols = whole_blocks(layout, rows, cols)
    start = whole_rows * whole_cols
    return Elements(start, rows * cols, cols) if start < rows * cols else None


def split_row(layout: Layout, rows: int, cols: int) -> int | None:
    """The first row that begins inside a block, so that readers which begin at a row read it wrong; None if none does."""
    return 1 if rows > 1 and layout.row_block == 1 and cols % layout.block else None


def check_readable(layout: Layout, shape: PayloadShape, *, strict: bool = True, stacklevel: int = 2) -> None:
    """Refuse, or with `strict=False` warn about, elements that the bytes of a tensor do not define.

    A whole tensor is read right even where rows begin inside blocks, so that this is no reason to refuse.

    :raises ValueError: for elements in no whole block, if `strict`, and for shapes that a layout has no bytes for at all
    """
    _check(layout, shape, strict, _READ, stacklevel)


def check_writable(layout: Layout, shape: PayloadShape, *, strict: bool = True, stacklevel: int = 2) -> None:
    """Refuse to write what would be lost, or what readers that begin at a row would find wrong.

    With `strict=False` there is a warning for what is lost, and none for rows: every element is in the bytes.

    :raises ValueError: for either, if `strict`, and for shapes that a layout has no bytes for at all
    """
    _check(layout, shape, strict, _WRITTEN, stacklevel)
    if strict and (row := split_row(layout, shape.rows, shape.cols)) is not None:
        raise ValueError(
            f"rows of {counted(shape.cols, 'element')} are not whole blocks of {layout.block}: row "
            f"{row} begins inside one, and "
            f"kernels and get_rows, which begin at rows, would read it wrong; strict=False packs {layout} all the same"
        )


#: What becomes of elements in no whole block: as a reason to refuse, and as a warning.
_READ: Final = ("the data does not say what they are; strict=False reads the others", "they are read as 0")
_WRITTEN: Final = ("they would be lost; strict=False writes what released quantizers do", "they are lost")


def _check(layout: Layout, shape: PayloadShape, strict: bool, words: tuple[str, str], stacklevel: int) -> None:
    gone = dropped_elements(layout, shape.rows, shape.cols)
    if gone is None:
        return
    if strict or not layout.in_gguf:  # checkpoints have no blocks that a quantizer could leave out
        try:
            layout.check(shape.rows, shape.cols)
        except ValueError as error:
            raise ValueError(f"{error}, {gone}: {words[0]}" if layout.in_gguf else str(error)) from None
    warnings.warn(f"no whole block holds {gone}: {words[1]}", UndefinedElementsWarning, stacklevel + 2)


@dataclass(frozen=True, slots=True)
class Reader:
    """A program that reads I2_S: by which layout, from where, and what it does with a block that is not whole.

    :param by_rows: whether it looks for row r at byte r*cols // 4, rather than for element k where the layout puts it
    :param partial: it `reads on` into whatever follows, `skips` those elements, or `refuses` the tensor
    """

    name: str
    layout: Layout
    by_rows: bool
    partial: Literal["reads on", "skips", "refuses"]


_L128, _L64, _ROWS = LAYOUTS["interleave-128"], LAYOUTS["interleave-64"], LAYOUTS["rows-1x4"]
_MSB = LAYOUTS["sequential-msb"]

READERS: Final = {
    "dequantize": Reader("dequantize_row_i2_s over a whole tensor", _L128, False, "reads on"),
    "get-rows": Reader("ggml_get_rows of the BitNet fork", _L128, True, "reads on"),
    "mul-mat": Reader("mat-mul kernels on x86, and on ARM until November 2025", _L128, True, "skips"),
    "mul-mat-arm": Reader("mat-mul kernels on ARM since November 2025", _L64, True, "skips"),
    "scalar-2026": Reader("the scalar loop of kernels since May 2026, without AVX2", _MSB, True, "reads on"),
    "ik": Reader("ik_llama.cpp's conversion", _L128, False, "refuses"),
}


def read_as(reader: str | Reader, data: Any, shape: Sequence[int]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The codes that a program reads from a tensor, right or wrong.

    :param reader: one of `READERS`, or its key
    :param data: payload and tail
    :param shape: (rows, cols) or (n,)
    :returns: uint8 codes [rows, cols], and bool [rows, cols]: whether the program read a code there; skipped elements
    have code 0 and False. A program that reads too far takes codes from the next row, and at the end from the tail
    :raises ValueError: for an unknown reader, for a tensor that the program refuses, for data of another size
    """
    if isinstance(reader, str):
        if reader not in READERS:
            raise ValueError(f"no reader is called {reader!r}; there are {', '.join(READERS)}")
        reader = READERS[reader]
    tensor = payload_shape(shape)
    tensor.split(data)
    rows, cols, layout = tensor.rows, tensor.cols, reader.layout
    run = cols if reader.by_rows else tensor.elements  # elements that it reads from one address on
    if reader.partial == "refuses" and run % layout.block:
        raise ValueError(
            f"{reader.name} refuses {counted(run, 'element')}, which are not whole blocks of {layout.block}"
        )
    end = run // layout.block * layout.block if reader.partial == "skips" else run

    raw = np.frombuffer(data, dtype=np.uint8)
    codes = np.zeros(tensor.elements, dtype=np.uint8)
    taken = np.zeros(tensor.elements, dtype=np.bool_)
    for start, stop in windows(tensor.elements):
        address, k = np.divmod(np.arange(start, stop, dtype=np.int64), run)
        byte = address * run // CODES_PER_BYTE + layout.byte_of(k, 1, run)
        here = (k < end) & (byte < raw.size)
        shift = layout.shift_of(k, 1, run)[here].astype(np.uint8)
        codes[start:stop][here] = raw[byte[here]] >> shift & 3
        taken[start:stop] = here
    return codes.reshape(rows, cols), taken.reshape(rows, cols)
