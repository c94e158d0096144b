"""This module tells how two files of one family differ: which of their trits training changed, and which channels are off.

A fine-tune changes some trits of every layer, and keeps the all-zero rows of its base: a channel that training switched
off stays off. So the share of changed trits tells whether a fine-tune survived its conversion (0.0 %: it was lost), and
the sets of all-zero rows are a fingerprint of the family. Both are counted while a tensor is compared, a window at a time.
The sets of one file can be kept (`i2s hash --lineage --json`), and another file compared with them without the first.

    >>> rows = ZeroRows(3, 8)
    >>> rows.add(bytes([0x55, 0x55, 0x55]))
    >>> rows.add(bytes([0x54, 0x55, 0x55]))
    >>> rows.found().tolist()
    [True, False, True]
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Four zeros, in the form that tensors are compared in.
ZEROS: Final = 0x55

#: Trits of a byte.
_PACKED: Final = 4

_NAME: Final = re.compile(rb"blk\.(0|[1-9][0-9]{0,3})\.(.{1,64}?)(?:\.weight)?", re.ASCII | re.DOTALL)


class ZeroRows:
    """Which rows of a ternary tensor are all zero, from its codes as they come.

    :param rows: of the tensor
    :param cols: elements of a row; rows of no whole bytes are never called zero
    """

    def __init__(self, rows: int, cols: int) -> None:
        self._whole = cols % _PACKED == 0
        self._width = max(1, cols // _PACKED)
        self._odd: NDArray[np.bool_] = np.zeros(rows, dtype=np.bool_)
        self._at = 0

    def add(self, codes: bytes) -> None:
        """The next codes, four to a byte."""
        start, self._at = self._at, self._at + len(codes)
        if not self._whole or not codes:
            return
        first, last = start // self._width, (self._at - 1) // self._width
        bounds = np.maximum(np.arange(first, last + 1) * self._width - start, 0)
        odd = np.frombuffer(codes, dtype=np.uint8) != ZEROS
        self._odd[first : last + 1] |= np.logical_or.reduceat(odd, bounds)

    def found(self) -> NDArray[np.bool_]:
        """Whether each row is all zero, once all codes were added."""
        return ~self._odd if self._whole else np.zeros_like(self._odd)


#: The all-zero rows of the ternary tensors of a file, by name: for each row, whether it is all zero.
Fingerprint = dict[bytes, "NDArray[np.bool_]"]


def digest(zero_rows: Fingerprint) -> str:
    """The SHA-256 of the all-zero rows of a file, hexadecimal.

    Of "i2s-zero-rows-1\\n", then for each tensor with such a row, sorted by the bytes of their names: u64 length of the
    name, the name, u64 number of all-zero rows, and u64 each of their indices; all little-endian. Tensors without one do
    not count.

    >>> digest({}) == digest({b"a": np.zeros(3, dtype=np.bool_)})
    True
    """
    whole = hashlib.sha256(b"i2s-zero-rows-1\n")
    for name in sorted(zero_rows):
        rows = np.flatnonzero(zero_rows[name]).astype("<u8")
        if rows.size:
            whole.update(len(name).to_bytes(8, "little") + name + rows.size.to_bytes(8, "little") + rows.tobytes())
    return whole.hexdigest()


def kinship(base: Fingerprint, other: Fingerprint) -> Total:
    """How many all-zero rows two files share, over the tensors that both have with as many rows; nothing of trits."""
    pairs = [(base[name], other[name]) for name in base if name in other and base[name].size == other[name].size]
    return Total(
        tensors=len(pairs),
        rows=sum(ours.size for ours, _ in pairs),
        trits=0,
        changed=0,
        zero_a=sum(int(ours.sum()) for ours, _ in pairs),
        zero_b=sum(int(theirs.sum()) for _, theirs in pairs),
        zero_both=sum(int((ours & theirs).sum()) for ours, theirs in pairs),
    )


def runs(zero_rows: NDArray[np.bool_]) -> list[list[int]]:
    """The all-zero rows as runs: the first of each, and the first behind it.

    >>> runs(np.array([True, True, False, True]))
    [[0, 2], [3, 4]]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], zero_rows, [False]]).astype(np.int8)))
    found: list[list[int]] = edges.reshape(-1, 2).tolist()
    return found


def rows_of_runs(rows: int, found: Iterable[tuple[int, int]]) -> NDArray[np.bool_]:
    """What `runs` was made of."""
    zero = np.zeros(rows, dtype=np.bool_)
    for start, stop in found:
        zero[start:stop] = True
    return zero


class TensorLineage(NamedTuple):
    """One tensor that is ternary in both files: its trits, how many of them changed, the all-zero rows of A, B and both."""

    name: bytes
    rows: int
    trits: int
    changed: int
    zero_a: int
    zero_b: int
    zero_both: int

    @property
    def place(self) -> tuple[int | None, str]:
        """Layer and role by its name; None and the whole name outside of layers."""
        found = _NAME.fullmatch(self.name)
        if found is None:
            return None, self.name.decode("utf-8", "surrogateescape")
        return int(found[1]), found[2].decode("utf-8", "surrogateescape")


class Total(NamedTuple):
    """The sums over tensors."""

    tensors: int
    rows: int
    trits: int
    changed: int
    zero_a: int
    zero_b: int
    zero_both: int

    @property
    def share(self) -> float:
        """Of the trits, those that changed, 0 to 1."""
        return self.changed / self.trits if self.trits else 0.0


def total(tensors: Iterable[TensorLineage]) -> Total:
    """The sums over tensors."""
    numbers = [each[1:] for each in tensors]
    sums = [sum(column) for column in zip(*numbers, strict=True)] if numbers else [0] * 6
    return Total(len(numbers), *sums)


def by_layer(tensors: Iterable[TensorLineage]) -> Iterator[tuple[int | None, list[TensorLineage]]]:
    """The tensors of each layer, by its number; those outside of layers come last, as None."""
    found: dict[int | None, list[TensorLineage]] = {}
    for each in tensors:
        found.setdefault(each.place[0], []).append(each)
    for layer in sorted(found, key=lambda layer: (layer is None, layer or 0)):
        yield layer, found[layer]
