"""The integer core of BitLinear in NumPy, where `pyx/_matmul.pyx` is not compiled (`codec._cpu`).

`reference.bitlinear` and `reference.table_lookup` define it, and import this module; so it is written here again. Sums
of integers are exact in float64, in which NumPy multiplies matrices fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.portable import portable_needs, portable_sets
from i2s_spec.codec.reference import unpack_codes
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Weights that are unpacked at a time.
_WINDOW: Final = 1 << 20
#: Rows side by side, and bytes of the tables for a byte of weights.
_ROWS: Final = 32
_TABLE: Final = 64
_FLOOR: Final = 1e-5

#: What other extensions take to use the kernels: there are none.
interface: Any = None

kernel_sets = lookup_sets = portable_sets
kernel_needs = portable_needs


def panels_from(row: int) -> int | None:
    """Return the least number of tokens for which a set uses panels: never."""
    return None


def force_panels(row: int, tokens: int, fewer: int | None = None) -> None:
    """Make a set use panels.

    :raises ValueError: always
    """
    raise ValueError("this set has no panels")


def product(
    row: int,
    payload: NDArray[np.uint8],
    rows: int,
    codes: NDArray[np.int8],
    out: NDArray[np.int32],
    threads: int,
    scales: NDArray[np.float32] | None = None,
    sums: NDArray[np.int32] | None = None,
    weight_scale: float = 1.0,
    repeats: int = 1,
    trits: bool = False,
    look: bool = False,
) -> bool:
    """Write out[t, r] = the sum of weight code times activation code; with `trits` of trit times activation code.

    With `scales` and `sums` the bits of the resulting float are written.

    :returns: with `look`, whether code 3 occurs among the weights
    """
    tokens, columns = codes.shape
    if rows == 0 or tokens == 0:
        return False
    activations, unused = codes.astype(np.float64), False
    totals = codes.sum(axis=1, dtype=np.int32) if sums is None else sums
    step = max(1, _WINDOW // columns)
    for start in range(0, rows, step):
        count = min(step, rows - start)
        part = payload[start * columns // 4 : (start + count) * columns // 4]
        weights = unpack_codes(part, (count, columns), CANONICAL.layout)
        unused = unused or (look and bool((weights == CANONICAL.code_map.unused).any()))
        found = (activations @ weights.T.astype(np.float64)).astype(np.int32)
        if trits or scales is not None:
            found -= totals[:, None]
        if scales is not None:
            with np.errstate(all="ignore"):
                found = (found.astype(np.float32) / scales[:, None] * np.float32(weight_scale)).view(np.int32)
        out[:, start : start + count] = found
    return unused


def linear(
    row: int,
    payload: NDArray[np.uint8],
    rows: int,
    x: NDArray[np.float32],
    out: NDArray[np.float32],
    threads: int,
    weight_scale: float,
    look: bool = False,
) -> bool:
    """Do `quantize` and `product` in one call, for tokens with whole blocks of columns; returns what `product` does."""
    codes, scales, sums = np.empty(x.shape, np.int8), np.empty(len(x), np.float32), np.empty(len(x), np.int32)
    if rows == 0 or len(x) == 0:
        return False
    quantize(row, x, codes, scales, sums, threads)
    return product(row, payload, rows, codes, out.view(np.int32), threads, scales, sums, weight_scale, look=look)


def quantize(
    row: int,
    x: NDArray[np.float32],
    codes: NDArray[np.int8],
    scales: NDArray[np.float32],
    sums: NDArray[np.int32],
    threads: int,
) -> None:
    """Quantize each token to int8 codes, with their scale and their sum; a token has at least one column."""
    with np.errstate(all="ignore"):
        amax = np.abs(x).max(axis=1, initial=0.0).astype(np.float64)
        scales[:] = 127 / np.maximum(amax, _FLOOR)
        products = x * scales[:, None]
        rounded = np.clip(np.rint(products), -128.0, 127.0)
        codes[:] = np.where(np.isnan(products), np.float32(0), rounded)
    sums[:] = codes.sum(axis=1, dtype=np.int32)


def probe_multiplications(row: int, rounds: int, threads: int, tokens: int = 0) -> int:
    """Do a set's widest multiplications; returns how many products: 0, there is no probe."""
    return 0


def probe_reading(data: NDArray[np.uint8], repeats: int, threads: int, ahead: int = 4096, second: bool = False) -> None:
    """Read every byte `repeats` times, and do almost nothing with it."""
    for _ in range(repeats):
        np.bitwise_or.reduce(data)


def lookup_arrange(payload: NDArray[np.uint8], rows: int, row_bytes: int, arranged: NDArray[np.uint8]) -> None:
    """Arrange rows side by side in groups of 32; `arranged` holds whole groups."""
    whole = np.zeros((len(arranged) // max(1, row_bytes), row_bytes), dtype=np.uint8)
    whole[:rows] = payload.reshape(rows, row_bytes)
    arranged[:] = whole.reshape(-1, _ROWS, row_bytes).transpose(0, 2, 1).reshape(-1)


def lookup_tables(codes: NDArray[np.int8], tables: NDArray[np.uint8]) -> None:
    """Write the tables of one token, 64 bytes for each byte of a row: low and high bytes of 16 sums, for either half."""
    fields = codes.reshape(-1, 4, _ROWS).astype(np.int16)  # the four columns of a byte
    pairs = np.arange(16, dtype=np.int16)
    sums = (pairs >> 2) * fields[:, 0::2, :, None] + (pairs & 3) * fields[:, 1::2, :, None]
    low_and_high = sums.transpose(0, 2, 1, 3).astype("<i2").view(np.uint8).reshape(-1, 2, 16, 2)
    tables[:] = low_and_high.transpose(0, 1, 3, 2).reshape(-1)


def lookup_product(
    row: int, arranged: NDArray[np.uint8], tables: NDArray[np.uint8], out: NDArray[np.int32], repeats: int = 1
) -> None:
    """Return the sums of one token, for whole groups of 32 rows: out[r] = the sum of the table entries of its pairs."""
    low_and_high = tables.reshape(-1, 2, 2, 16).transpose(0, 1, 3, 2)
    sums = np.ascontiguousarray(low_and_high).view("<i2").reshape(-1, 2, 16).astype(np.int32)
    weights = arranged.reshape(-1, len(sums), _ROWS).transpose(0, 2, 1)
    place = np.arange(len(sums))
    found = sums[place, 0, weights >> 4] + sums[place, 1, weights & 15]
    out[:] = found.sum(axis=-1, dtype=np.int32).reshape(-1)


def address(data: Any) -> int:
    """Return the address of a buffer."""
    return int(np.asarray(data).__array_interface__["data"][0])
