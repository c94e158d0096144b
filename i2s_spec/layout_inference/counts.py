"""This module reads a payload once, in pieces, and keeps how many weights that are not 0 each row and column has.

What is kept serves every layout: `Counted.columns` and `Counted.rows` give the counts as a hypothesis reads them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.codec.buffers import shaped, zeros
from i2s_spec.gguf.source import FileSource
from i2s_spec.inspect.evidence import _bit_sums
from i2s_spec.inspect.evidence.bit_sums import BitSums, kernel_row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.gguf.source import Source
    from i2s_spec.inspect.evidence.hypotheses import Hypothesis
    from i2s_spec.schema.dialect import CodeMap

#: Bytes that are read at once, about: they stay in the second-level cache while they are counted.
PIECE: Final = 1 << 19
#: Rows of bytes that kernels take at once; a piece has whole tiles of them where it has room for one.
TILE: Final = 32
#: Rows and columns of the largest tensor that is looked at.
MOST: Final = 1 << 18

#: Vectors that begin at multiples of this are loaded at once.
LINE: Final = 64


class Counted:
    """The counts of one tensor.

    :param target: uint32, of `counts_size`: two counts for each column, by places, where rows stay where they are, and
        where not; then two for each row likewise, if rows were counted
    :param rows_count: rows of the tensor
    :param cols_count: its columns
    """

    def __init__(self, target: memoryview[Any], rows_count: int, cols_count: int) -> None:
        self.rows_count = rows_count
        self.cols_count = cols_count
        self._columns, self._rows = target[: 2 * cols_count], target[2 * cols_count :]

    @property
    def bases(self) -> NDArray[np.uint32]:
        """Both `base`, uint32 [2, cols]."""
        import numpy as np

        return np.asarray(self._columns).reshape(2, -1)

    def base(self, in_rows: bool) -> memoryview[Any]:
        """Weights that are not 0 by the place of a column, as `Hypothesis.places` numbers places, uint32 [cols]."""
        return self._columns[: self.cols_count] if in_rows else self._columns[self.cols_count :]

    def rows_base(self, in_rows: bool) -> memoryview[Any]:
        """Weights that are not 0 in each row, uint32 [rows], by whether rows stay where they are; or empty."""
        return self._rows[: len(self._rows) // 2] if in_rows else self._rows[len(self._rows) // 2 :]

    def columns(self, each: Hypothesis) -> NDArray[np.uint32]:
        """Weights that are not 0 in each column, uint32 [cols]."""
        import numpy as np

        found: NDArray[np.uint32] = np.asarray(self.base(each.in_rows))[each.places(self.cols_count)]
        return found

    def rows(self, each: Hypothesis) -> NDArray[np.uint32]:
        """Weights that are not 0 in each row, uint32 [rows]; those of shifted payloads are as of unshifted ones.

        Empty where rows were not counted.
        """
        import numpy as np

        return np.asarray(self.rows_base(each.in_rows))


def totals_reference(
    pairs: NDArray[np.uint32], stretches: NDArray[np.uint32], height: int, others: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """What `Counted` keeps: counts by places of columns, and by rows, where bytes hold four columns and where four rows.

    :param pairs: uint32 [4, cols]
    :param stretches: uint32 [rows, 4]
    :param height: rows of the tensor
    :param others: whether those that are not set are counted
    :returns: uint32 [2, cols] and uint32 [2, rows]
    """
    import numpy as np

    by_place = np.stack((pairs.reshape(4, 4, -1).sum(axis=1).T.reshape(-1), pairs.sum(axis=0)))
    of_four = stretches.reshape(-1, 4, 4).sum(axis=1)[:, ::-1]  # the first row has the highest pair
    by_row = np.stack((stretches.sum(axis=1), of_four.reshape(-1)))
    if others:
        by_place, by_row = height - by_place, pairs.shape[1] - by_row
    return by_place.astype(np.uint32), by_row.astype(np.uint32)


def looked_at(rows: int, cols: int) -> bool:
    """Whether a tensor of this shape can be counted: whole blocks in a row, groups of four rows, and no huge side."""
    return 0 < rows <= MOST and 0 < cols <= MOST and cols % 128 == 0 and rows % 4 == 0


def count(
    source: Source,
    start: int,
    rows: int,
    cols: int,
    code_map: CodeMap,
    buffer: memoryview | None = None,
    of_rows: bool = True,
    target: memoryview[Any] | None = None,
) -> Counted:
    """Read a payload and count.

    :param start: of the payload in the source
    :param code_map: which code is 0; the code that is unused is taken to be missing
    :param buffer: for what is read, as `room` gives it
    :param of_rows: whether rows are counted, too
    :param target: where the counts go, uint32 [counts_size(rows, cols, of_rows)]
    :raises FormatError: where the source does not hold the payload
    """
    either, others = counted_bits(code_map)
    step, size = step_of(cols), rows * cols // 4
    if buffer is None:
        buffer = room(min(size, max(PIECE, MOST)))
    if target is None:
        target = zeros("I", counts_size(rows, cols, of_rows))
    columns = shaped(target[: 2 * cols], "I", 2, cols)
    along = shaped(target[2 * cols :], "I", 2, rows) if of_rows else None
    if type(source) is not FileSource or not _bit_sums.count_file(
        kernel_row(), source.fileno(), start, rows, buffer, step, either, others, columns, along
    ):  # what could not be read is read again, to be told
        sums = BitSums(rows // 4, cols, cols // 4, either, along=of_rows)
        for at in range(0, size, step):
            piece = buffer[: min(step, size - at)]
            source.readinto(start + at, piece)
            sums.add(piece)
        _bit_sums.totals(sums.columns, sums.segments, rows, others, columns, along)
    return Counted(target, rows, cols)


def counts_size(rows: int, cols: int, of_rows: bool) -> int:
    """How many numbers the counts of a matrix are."""
    return 2 * (cols + rows if of_rows else cols)


def room(size: int = max(PIECE, MOST)) -> memoryview:
    """A buffer for what is read, at a multiple of LINE."""
    raw = _bit_sums.unwritten("B", size + LINE)
    first = _bit_sums.line_offset(raw)
    return raw[first : first + size]


@cache
def counted_bits(code_map: CodeMap) -> tuple[bool, bool]:
    """Whether a weight counts where either bit of its code is set, or where the lower one is; and whether others do."""
    # Codes 1 and 3 have the lower bit, 2 and 3 the upper one. Where 1 is that of 0 and 3 is missing, those without the lower
    # bit count; where 0 is and 3 is missing, those with either; else 3 and another one are not 0 and have the lower bit.
    zero, full = code_map.code_of(0), code_map.unused != 3
    return not full and zero != 1, not full and zero == 1


def step_of(cols: int) -> int:
    """Bytes that are read at once, whole tiles where there is room for one."""
    many = PIECE // cols
    return max(1, many // TILE * TILE if many >= TILE else many // 2 * 2) * cols
