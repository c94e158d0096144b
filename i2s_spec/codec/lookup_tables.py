"""How TL1 and TL2 hold trits: tensors that BitNet packs for the look-up tables of one generated kernel.

Where a weight is depends on the tiles that the kernel was generated with for the shape, which no file states: `Tiles`
are what `kernel_config.ini` calls bm, bk and bmm. With other tiles the same bytes are other weights. Both are packed
whole, with a tail as I2_S has it, and only for shapes that the tiles divide. In tiles of tiles, from the outside:

    rows R = row // bm, columns C = column // bk, rows of a tile in groups of bmm, columns in steps of a table

    TL1    two weights are a number 3 a + b + 4 of four bits; 16 rows share 16 bytes for four columns, two to a byte
    TL2    three weights are a number 9 a + 3 b + c: four bits of its magnitude, two to a byte, and after all of them a bit
           for its sign. What bk leaves over of the columns follows in numbers of two weights, in tiles of 32 columns

Source: microsoft/BitNet utils/convert-hf-to-gguf-bitnet.py (`process_tl1`, `preprocess_three_weights_tl2`,
`preprocess_two_weights_tl2`), which packs; no program unpacks.

    >>> data = bytes([0x44]) * (32 * 64 // 4) + bytes(32)
    >>> int(unpack_tl1(data, (32, 64), Tiles(32, 64, 32))[0].any())
    0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec.observation import read_tail
from i2s_spec.codec.shape import matrix, octets
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CANONICAL
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import BY_NAME, TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of a step of the tables, times the rows of a group: TL1 with two weights a number, TL2 with three.
_TL1_STEP: Final = 256
_TL2_STEP: Final = 192

#: Rows whose bytes lie together in TL2, in this order of their groups of eight.
_OCTETS: Final = (0, 2, 1, 3)


class Tiles(NamedTuple):
    """The tiles of a generated kernel: rows, columns, rows of a group (32 or 64; of TL2 32)."""

    rows: int
    columns: int
    group: int


def unpack_tl1(
    data: Any, shape: Sequence[int], tiles: Tiles, byte_order: ByteOrder = "little"
) -> tuple[NDArray[np.int8], np.float32]:
    """Return the trits and the scale of a TL1 tensor.

    :param data: its bytes, with the tail
    :param shape: (rows, cols)
    :param tiles: of the kernel that it was packed for
    :raises ValueError: for shapes that the tiles do not divide, and data of another size
    """
    rows, cols = matrix(shape)
    raw = _take(data, rows, cols, "TL1")
    if tiles.group not in (32, 64):
        raise ValueError(f"groups of TL1 have 32 or 64 rows, not {tiles.group}")
    step = _TL1_STEP // tiles.group
    _require(rows, cols, tiles, step)
    row, pair = np.arange(rows)[:, None], np.arange(cols // 2)[None, :]
    inside, within = row % tiles.rows, pair % (tiles.columns // 2)
    at = row // tiles.rows * (cols // tiles.columns) + pair // (tiles.columns // 2)
    at = at * (tiles.rows // tiles.group) + inside // tiles.group
    at = at * (tiles.columns // step) + within // (step // 2)
    at = at * (tiles.group // 16) + inside % tiles.group // 16
    at = at * (step // 4) + within % (step // 2) // 2
    at = at * 16 + inside % 16
    number = raw[at] >> np.where(within % 2, 0, 4) & 15
    return _pairs(number).reshape(rows, cols), _scale(raw, byte_order)


def unpack_tl2(
    data: Any, shape: Sequence[int], tiles: Tiles, byte_order: ByteOrder = "little"
) -> tuple[NDArray[np.int8], np.float32]:
    """Return the trits and the scale of a TL2 tensor; the parameters and errors are those of `unpack_tl1`."""
    rows, cols = matrix(shape)
    raw = _take(data, rows, cols, "TL2")
    if tiles.group != 32:
        raise ValueError(f"groups of TL2 have 32 rows, not {tiles.group}")
    left = cols % tiles.columns
    threes = cols - left
    _require(rows, threes, tiles, 4 * _TL2_STEP // tiles.group)
    trits = np.empty((rows, cols), dtype=np.int8)
    signs = rows * threes // 6
    twos = signs + rows * threes // 24
    if twos + rows * left // 4 > raw.size - TAIL_BYTES:
        raise ValueError(
            f"{rows:,} x {cols:,} elements in tiles of {counted(tiles.columns, 'column')} do not fit a TL2 tensor"
        )
    trits[:, :threes] = _threes(raw, raw[signs:], rows, threes, tiles)
    if left:
        pairs = Tiles(tiles.rows, 32, 32)
        _require(rows, left, pairs, 4)
        trits[:, threes:] = _pairs(_nibbles(raw[twos:], rows, left // 2, left // 32, pairs, 16, 2)).reshape(rows, left)
    return trits, _scale(raw, byte_order)


def _threes(raw: NDArray[np.uint8], signs: NDArray[np.uint8], rows: int, cols: int, tiles: Tiles) -> NDArray[np.int8]:
    """Three weights from each number of four bits and its sign."""
    step = _TL2_STEP // tiles.group
    across = cols // tiles.columns
    magnitude = _nibbles(raw, rows, cols // 3, across, tiles, tiles.columns // 3, step // 3)
    row, triple = np.arange(rows)[:, None], np.arange(cols // 3)[None, :]
    inside, within = row % tiles.rows, triple % (tiles.columns // 3)
    at = row // tiles.rows * across + triple // (tiles.columns // 3)
    at = at * (tiles.rows // 32) + inside // 32
    at = at * (tiles.columns // (4 * step)) + within // 8
    word, bit = inside % 16, 15 - within % 8 * 2 - inside % 32 // 16
    negative = signs[at * 32 + word * 2 + bit // 8] >> bit % 8 & 1
    number = np.where(negative, -magnitude.astype(np.int16), magnitude)
    first = (number + 13) // 9 - 1
    rest = number - 9 * first
    second = (rest + 4) // 3 - 1
    return np.stack([first, second, rest - 3 * second], axis=2).astype(np.int8).reshape(rows, cols)


def _nibbles(
    raw: NDArray[np.uint8], rows: int, numbers: int, across: int, tiles: Tiles, each: int, step: int
) -> NDArray[np.uint8]:
    """Numbers of four bits, two to a byte, the bytes of 32 rows together.

    :param numbers: of a row; `each` of them in a tile, of which there are `across`, and `step` of them in a step
    """
    row, number = np.arange(rows)[:, None], np.arange(numbers)[None, :]
    inside, within = row % tiles.rows, number % each
    at = row // tiles.rows * across + number // each
    at = at * (tiles.rows // 32) + inside // 32
    at = at * (each // step) + within // step
    at = at * 32 + np.array(_OCTETS)[inside % 32 // 8] * 8 + inside % 8
    found: NDArray[np.uint8] = raw[at] >> np.where(within % step, 0, 4).astype(np.uint8) & 15
    return found


def _pairs(number: NDArray[Any]) -> NDArray[np.int8]:
    """Two weights from each number 3 a + b + 4.

    :raises ValueError: for numbers that no two weights make
    """
    if number.size and int(number.max()) > 8:
        raise ValueError(f"the number {int(number.max())} stands for no two weights: they were packed for other tiles")
    value = number.astype(np.int8)
    return np.stack([value // 3 - 1, value % 3 - 1], axis=2).astype(np.int8)


def _require(rows: int, cols: int, tiles: Tiles, step: int) -> None:
    for what, size, unit in (
        ("rows", rows, tiles.rows), ("columns", cols, tiles.columns), ("rows of a tile", tiles.rows, tiles.group),
        ("columns of a tile", tiles.columns, step),
    ):  # fmt: skip
        if unit < 1 or size % unit:
            raise ValueError(f"{size:,} {what} are not whole groups of {unit:,}")


def _take(data: Any, rows: int, cols: int, name: str) -> NDArray[np.uint8]:
    raw, size = octets(data), BY_NAME[name].nbytes((cols, rows))
    if raw.size != size:
        raise ValueError(
            f"{rows:,} x {cols:,} elements of {name} take {counted(size, 'byte')}; there are {counted(raw.size, 'byte')}"
        )
    return raw


def _scale(raw: NDArray[np.uint8], byte_order: ByteOrder) -> np.float32:
    return read_tail(raw[raw.size - TAIL_BYTES :], CANONICAL.tail, byte_order)
