"""The payload kernels in NumPy, where `pyx/_codec.pyx` is not compiled (`_cpu`); nothing is checked here either.

Elements of a run of `group` bytes are four fields of `group` elements, the first in the top bits, or with `lsb` in the
bottom ones (`kernels.RunLayout`).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.portable import portable_needs, portable_sets
from i2s_spec.schema.dialect import CODE_MAPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

#: Code maps in the order of their numbers (`kernels.MAP_IDS`), after 0, which stands for the codes themselves.
_MAPS: Final = ("offset-1", "zero-first", "twos-complement", "offset-2")
#: Layouts of 128 elements in 32 bytes, in the order of their numbers (`kernels.KINDS`): bytes of a run, and `lsb`.
_KINDS: Final = ((32, False), (16, False), (1, False), (1, True))
_SHIFTS: Final = np.array([6, 4, 2, 0], dtype=np.uint8)
#: No code.
_BAD: Final = 255
#: Bytes that are looked at together.
_WINDOW: Final = 1 << 20

kernel_sets, kernel_needs = portable_sets, portable_needs


def owns() -> bool:
    """Return whether this processor writes prefetched lines faster than it streams past its cache."""
    return False


@cache
def _values(map: int) -> NDArray[np.int8]:
    """Return what each code stands for, int8 [4]: its number, or its trit; +2 for a code without one."""
    trits = range(4) if map == 0 else CODE_MAPS[_MAPS[map - 1]].trits
    return np.array([2 if trit is None else trit for trit in trits], dtype=np.int8)


@cache
def _codes(map: int) -> Bytes:
    """Return the code of each byte, uint8 [256]; `_BAD` for those that stand for nothing."""
    table = np.full(256, _BAD, dtype=np.uint8)
    for code, trit in enumerate(range(4) if map == 0 else CODE_MAPS[_MAPS[map - 1]].trits):
        if trit is not None:
            table[trit % 256] = code
    return table


def _elements(src: Any, group: int, lsb: bool) -> Bytes:
    """Return the codes of whole runs, in the order of elements, uint8, flat."""
    shifts = _SHIFTS[::-1] if lsb else _SHIFTS
    codes = np.asarray(src).reshape(-1, 1, group) >> shifts[:, None] & np.uint8(3)
    return codes.reshape(-1)


def _packed(codes: Bytes, group: int, lsb: bool) -> Bytes:
    """Return the bytes of codes in the order of elements."""
    fields = codes.reshape(-1, 4, group)
    first, second, third, last = (fields[:, field] for field in ((3, 2, 1, 0) if lsb else (0, 1, 2, 3)))
    made: Bytes = first << np.uint8(6) | second << np.uint8(4) | third << np.uint8(2) | last
    return made.reshape(-1)


def _remapped(codes: Bytes, remap: Any) -> Bytes:
    """Return other codes for codes: `remap` is empty, or has four coefficients for the high bit and four for the low one."""
    if not len(remap):
        return codes
    table = np.zeros(4, dtype=np.uint8)
    for code in range(4):
        high, low = code >> 1, code & 1
        terms = (1, high, low, high & low)
        for bit in (0, 1):
            found = sum(bool(c) & term for c, term in zip(remap[4 * bit : 4 * bit + 4], terms, strict=True)) & 1
            table[code] |= found << (1 - bit)
    return table[codes]


def unpack(row: int, src: Any, blocks: int, group: int, lsb: bool, map: int, dst: Any, way: int) -> None:
    """Unpack `blocks` runs of `group` bytes to one byte per element."""
    if blocks:
        np.take(_values(map).view(np.uint8), _elements(src, group, lsb), out=np.asarray(dst))


def pack(row: int, src: Any, blocks: int, group: int, lsb: bool, map: int, dst: Any, stream: bool) -> bool:
    """Pack one byte an element to `blocks` runs of `group` bytes; True where a byte was no trit (or no code)."""
    codes = _codes(map)[np.asarray(src)]
    bad = bool((codes == _BAD).any())
    np.asarray(dst)[:] = _packed(codes & np.uint8(3), group, lsb)
    return bad


def floats(row: int, src: Any, blocks: int, group: int, lsb: bool, map: int, scale: float, dst: Any, way: int) -> None:
    """Unpack `blocks` runs of `group` bytes to one float32 an element."""
    if blocks:
        with np.errstate(all="ignore"):
            products = _values(map).astype(np.float32) * np.float32(scale)
        np.take(products, _elements(src, group, lsb), out=np.asarray(dst))


def row_floats(row: int, src: Any, map: int, scales: Any, dst: Any, way: int) -> bool:
    """Unpack rows of whole blocks of interleave-128 to float32, with one scale per row; True where a code is 3."""
    source, out = np.asarray(src).reshape(len(scales), -1), np.asarray(dst).reshape(len(scales), -1)
    seen = False
    for number, scale in enumerate(scales):
        seen = scan(row, source[number], 3) or seen
        floats(row, source[number], 1, _KINDS[0][0], False, map, scale, out[number], way)
    return seen


def blocks(row: int, src: Any, count: int, source: int, target: int, remap: Any, dst: Any, stream: bool) -> None:
    """Convert `count` blocks of 32 bytes from one layout to another; `remap` is empty or eight coefficients."""
    codes = _remapped(_elements(src, *_KINDS[source]), remap)
    np.asarray(dst)[:] = _packed(codes, *_KINDS[target])


def _rows(first: int, last: int, step: int) -> NDArray[np.int64]:
    """Return the four rows of each group, int64 [groups, 4]: beside each other, or `step` apart."""
    groups = np.arange(first, last)
    return groups[:, None] + step * np.arange(4) if step != 1 else 4 * groups[:, None] + np.arange(4)


def to_rows(
    row: int, src: Any, first: int, last: int, cols: int, step: int, lsb: bool, target: int, remap: Any, dst: Any,
    stream: bool,
) -> None:  # fmt: skip
    """Convert groups `first` to `last` of four rows that share bytes, `cols` bytes a group, to rows of blocks."""
    codes = _remapped(_elements(np.asarray(src)[first * cols : last * cols], cols, lsb), remap)
    rows = np.asarray(dst).reshape(-1, cols // 4)
    rows[_rows(first, last, step).reshape(-1)] = _packed(codes, *_KINDS[target]).reshape(-1, cols // 4)


def of_rows(
    row: int, src: Any, first: int, last: int, cols: int, step: int, lsb: bool, source: int, remap: Any, dst: Any,
    stream: bool,
) -> None:  # fmt: skip
    """Convert rows of blocks to groups `first` to `last` of four rows that share bytes."""
    rows = np.asarray(src).reshape(-1, cols // 4)[_rows(first, last, step).reshape(-1)]
    codes = _remapped(_elements(np.ascontiguousarray(rows), *_KINDS[source]), remap)
    np.asarray(dst)[first * cols : last * cols] = _packed(codes, cols, lsb)


def scan(row: int, src: Any, code: int) -> bool:
    """Return whether a code occurs at all."""
    return histogram(row, src)[code] > 0


@cache
def _counts() -> NDArray[np.int64]:
    """Return how often each code occurs in each byte, int64 [256, 4]."""
    codes = np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3
    return np.stack([(codes == code).sum(axis=1) for code in range(4)], axis=1)


def histogram(row: int, src: Any) -> tuple[int, int, int, int]:
    """Return how often each of the codes 0 to 3 occurs."""
    source = np.asarray(src)
    found = np.zeros(256, dtype=np.int64)
    for start in range(0, source.size, _WINDOW):
        found += np.bincount(source[start : start + _WINDOW], minlength=256)
    zero, one, two, three = (int(count) for count in found @ _counts())
    return zero, one, two, three


def read(row: int, src: Any) -> int:
    """Read every byte: the probe with which benchmarks are compared."""
    return int(np.bitwise_or.reduce(np.asarray(src), initial=0))


def write(row: int, dst: Any) -> None:
    """Write every byte: the probe for benchmarks whose results stay in the cache."""
    np.asarray(dst)[:] = 0


def fresh_bytes(n: int) -> tuple[bytes, memoryview]:
    """Return a new bytes object of `n` zeros, and a view for writing it before anybody else sees it."""
    made = bytes(n)  # of one byte or more it is never an object that others have
    if n == 0:
        return made, memoryview(bytearray())
    start = id(made) + bytes.__basicsize__ - 1
    return made, memoryview((ctypes.c_ubyte * n).from_address(start)).cast("B")


def address(data: Any) -> int:
    """Return the address of a buffer."""
    return int(np.asarray(data).__array_interface__["data"][0])
