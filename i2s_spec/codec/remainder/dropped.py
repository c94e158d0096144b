"""This module says which elements of a tensor its bytes hold, and which are lost.

Layouts pack whole blocks. Where a tensor is not a whole number of them, the released quantizers write the blocks that there
are and leave the other bytes of the payload 0, which is -1; the Python converters refuse. Where a row is not a whole number
of blocks, every element is held, but a reader that begins at a row finds most of every such row wrong (clause 5.3).

By default such tensors are refused, in the words of this module. With `strict=False` what is defined is read or written,
and `UndefinedElementsWarning` says what is not.

    >>> from i2s_spec.schema.dialect import LAYOUTS
    >>> print(dropped_elements(LAYOUTS["interleave-128"], 4, 33))
    elements 128 to 131 (row 3, columns 29 to 32)
    >>> print(dropped_elements(LAYOUTS["rows-1x4"], 5, 20))
    elements 80 to 99 (row 4, columns 0 to 19)
"""

from __future__ import annotations

import warnings
from typing import Final, NamedTuple

from i2s_spec.codec.shape import PayloadShape
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import Layout


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
    """The last elements, if they do not fill a block, else None."""
    whole_rows, whole_cols = whole_blocks(layout, rows, cols)
    start = whole_rows * whole_cols
    return Elements(start, rows * cols, cols) if start < rows * cols else None


def split_row(layout: Layout, rows: int, cols: int) -> int | None:
    """The first row that begins inside a block, so that readers which begin at a row read it wrong; None if none does."""
    return 1 if rows > 1 and layout.row_block == 1 and cols % layout.block else None


def check_readable(layout: Layout, shape: PayloadShape, *, strict: bool = True, stacklevel: int = 2) -> None:
    """Refuse, or with `strict=False` warn about, elements that the bytes of a tensor do not define.

    A whole tensor is read right even where rows begin inside blocks, so that this is no reason to refuse.

    :raises ValueError: for an incomplete last block, if `strict`, and for shapes for which a layout has no bytes
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


#: What happens to the elements of an incomplete last block: as a reason to refuse, and as a warning.
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
    warnings.warn(f"incomplete last block, {gone}: {words[1]}", UndefinedElementsWarning, stacklevel + 2)
