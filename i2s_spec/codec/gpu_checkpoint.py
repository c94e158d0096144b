"""Codes as in the checkpoints of microsoft/BitNet's `gpu/` folder, a layout that no GGUF file has (clause 5.5).

Source: microsoft/BitNet 16da220, `gpu/`. The data hold no scale; one for each matrix lies beside them. The kernel there
applies the scales of a fused matrix of queries, keys and values to equal thirds of its rows, which is right only if all
three have as many rows (microsoft/BitNet#284, #316).

    >>> import numpy as np
    >>> trits = np.arange(16 * 64).reshape(16, 64) % 3 - 1
    >>> bool((unpack(pack(trits), (16, 64)) == trits).all())
    True
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from i2s_spec.errors import counted

#: Rows and columns of a tile, and its bytes.
TILE: Final = (16, 32)
TILE_BYTES: Final = 128
#: Code 0 is unused.
OFFSET: Final = 2


def pack(trits: ArrayLike) -> bytes:
    """Return the codes of a matrix.

    :param trits: integers -1, 0 and +1 of shape [rows, columns], whole tiles of 16 x 32
    :raises ValueError: for another shape, and for other numbers
    :raises TypeError: for an array that does not hold integers
    """
    array = np.asarray(trits)
    if array.dtype.kind not in "iu":
        raise TypeError(f"trits are integers -1, 0 and +1, not {array.dtype}")
    rows, columns = _checked(array.shape)
    if array.size and (array.min() < -1 or array.max() > 1):
        raise ValueError(f"trits are -1, 0 and +1, and these are from {array.min()} to {array.max()}")
    codes = (array + OFFSET).astype(np.uint8).reshape(rows // 16, 2, 8, columns // 32, 2, 4, 4)
    shifted = codes << (2 * np.arange(4, dtype=np.uint8))[:, None]
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(shifted, axis=5)
    return packed.transpose(0, 3, 1, 4, 2, 5).tobytes()


def unpack(data: Any, shape: tuple[int, int]) -> NDArray[np.int8]:
    """Return the trits of a matrix: int8 of `shape`.

    :param data: the bytes of the matrix, a quarter of its elements
    :param shape: rows and columns, whole tiles of 16 x 32
    :raises ValueError: for another shape, another number of bytes, and code 0
    """
    rows, columns = _checked(shape)
    packed = np.frombuffer(data, np.uint8)
    if packed.size != rows * columns // 4:
        wanted = counted(rows * columns // 4, "byte")
        raise ValueError(f"a matrix of {rows} x {columns} takes {wanted}; there are {packed.size:,}")
    tiles = packed.reshape(rows // 16, columns // 32, 2, 2, 8, 4).transpose(0, 2, 4, 1, 3, 5)
    codes = tiles[..., None, :] >> (2 * np.arange(4, dtype=np.uint8))[:, None] & 3
    found = codes.reshape(rows, columns)
    if not found.all():
        row, column = np.argwhere(found == 0)[0]
        unused = counted(int((found == 0).sum()), "element has", "elements have")
        raise ValueError(f"{unused} code 0, which means nothing; the first is row {row}, column {column}")
    return found.astype(np.int8) - np.int8(OFFSET)


def _checked(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2 or shape[0] % TILE[0] or shape[1] % TILE[1] or min(shape) < 0:
        raise ValueError(f"the layout is of matrices of whole tiles of {TILE[0]} x {TILE[1]}, not of {list(shape)}")
    return int(shape[0]), int(shape[1])
