"""This module reads many small ternary tensors at once: a kernel, and a read, for hundreds of them instead of one for each.

A file of 10 MB can hold 90,000 tensors of 32 bytes of codes, for which calls take a hundred times longer than the codes.
Payloads of whole blocks, one behind the other, are a payload too, so that they are recoded together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from math import prod
from typing import Final, NamedTuple, TypeVar

import numpy as np

from i2s_spec.codec.form import FLOAT_WORDS, Form, joined_floats
from i2s_spec.codec.payload_native import pack_trits, recode
from i2s_spec.codec.tail import read_tail
from i2s_spec.gguf.ranges import read_spans
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.inspect.compare.canonical import LAYOUT, SMALL, lengths
from i2s_spec.inspect.compare.lineage import ZEROS
from i2s_spec.schema.dialect import CODES_PER_BYTE, Dialect, parse
from i2s_spec.schema.types import I2_S, SCALE_BYTES, TAIL_BYTES

_T = TypeVar("_T")

#: Tensors that are read at once, of 16 KiB at most each.
TOGETHER: Final = 256

#: Elements of a matrix of floats that is read with others.
SMALL_FLOATS: Final = 1 << 12

#: How many of the four codes of a byte are not 0, from a byte that has bit 2*k where code k is not.
_ODD_CODES: Final = np.array([bin(byte & 0x55).count("1") for byte in range(256)], dtype=np.int64)


class SmallTensor(NamedTuple):
    """The codes of a small tensor in the one form, four to a byte, and its tail where it is I2_S."""

    codes: bytes
    tail: bytes
    #: The float32 of the scale, little-endian.
    scale: bytes

    @property
    def number(self) -> float:
        """The scale as a number."""
        value: float = struct.unpack("<f", self.scale)[0]
        return value


def parts(tensors: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Tensors in lists of as many as are read at once."""
    return (tensors[at : at + TOGETHER] for at in range(0, len(tensors), TOGETHER))


def small_tensors(
    file: File, tensors: Sequence[Tensor], dialect: Dialect, floats: bool = False
) -> list[SmallTensor | None]:
    """The small I2_S tensors among some, and None for each of the others, also for shapes that hold no trits.

    :param tensors: which the file holds whole, `TOGETHER` at most
    :param dialect: of the I2_S tensors, which the file does not say
    :param floats: give small matrices of floats that are ternary, too
    :raises ValueError: for a tail that the dialect does not have
    """
    groups: dict[int, list[int]] = {}
    words: dict[str, list[int]] = {}
    known: dict[tuple[int, ...], int | None] = {}
    for i, tensor in enumerate(tensors):
        if tensor.type is not I2_S:
            if floats and tensor.kind in FLOAT_WORDS and _is_float_matrix(tensor):
                words.setdefault(tensor.kind, []).append(i)
            continue
        ne = tensor.ne
        if ne not in known:
            known[ne] = _joined_with(ne, dialect)
        place = known[ne]
        if place is not None:
            groups.setdefault(place, []).append(i)
    found: list[SmallTensor | None] = [None] * len(tensors)
    for cols, members in groups.items():
        for i, small in zip(members, _recoded(file, [tensors[i] for i in members], dialect, cols), strict=True):
            found[i] = small
    for kind, members in words.items():
        for i, each in zip(members, _ternary_floats(file, [tensors[i] for i in members], kind), strict=True):
            found[i] = each
    return found


def _is_float_matrix(tensor: Tensor) -> bool:
    """Whether floats may be ternary, and fill whole bytes of codes."""
    count = tensor.elements
    return 0 < count <= SMALL_FLOATS and count % CODES_PER_BYTE == 0 and len(lengths(tensor)) > 1


def _ternary_floats(file: File, tensors: list[Tensor], kind: str) -> Iterator[SmallTensor | None]:
    """Matrices of one type of floats; None for those that are not ternary, or all zero, or hold infinities or NaN."""
    start = file.data_start or 0
    elements = [tensor.elements for tensor in tensors]
    spans = [(start + tensor.offset, tensor.nbytes or 0) for tensor in tensors]
    trits, scales, ternary = joined_floats(b"".join(read_spans(file.source, spans)), elements, kind, file.byte_order)
    codes: bytes = pack_trits(trits.reshape(1, -1), parse(LAYOUT))
    each = scales.astype("<f4").tobytes()
    at = 0
    for i, (count, good) in enumerate(zip(elements, (ternary & (scales != 0)).tolist(), strict=True)):
        size = count // CODES_PER_BYTE
        yield SmallTensor(codes[at : at + size], b"", each[4 * i : 4 * i + 4]) if good else None
        at += size


def _joined_with(ne: tuple[int, ...], dialect: Dialect) -> int | None:
    """Which tensors one of these dimensions is recoded with: the columns where the layout packs rows, else 0."""
    if prod(ne) > SMALL:
        return None
    try:
        form = Form("I2_S", ne[::-1], dialect)
    except ValueError:
        return None
    return form.cols if dialect.layout.row_block > 1 else 0


def _recoded(file: File, tensors: list[Tensor], dialect: Dialect, cols: int) -> Iterator[SmallTensor]:
    """Tensors that are recoded together: of rows of `cols` elements, or of whole blocks."""
    start = file.data_start or 0
    spans = [(start + tensor.offset, I2_S.nbytes(tensor.ne)) for tensor in tensors]
    each = read_spans(file.source, spans)
    payload = b"".join(data[:-TAIL_BYTES] for data in each)
    count = CODES_PER_BYTE * len(payload)
    codes: bytes = recode(payload, (count // cols, cols) if cols else (1, count), dialect, parse(LAYOUT))
    at = 0
    for data in each:
        size, tail = len(data) - TAIL_BYTES, data[-TAIL_BYTES:]
        if dialect.tail.copies > 1:
            read_tail(tail, dialect.tail)  # which looks whether all copies are the same
        scale = tail[:SCALE_BYTES]
        yield SmallTensor(codes[at : at + size], tail, scale if file.byte_order == "little" else scale[::-1])
        at += size


class SmallDifference(NamedTuple):
    """How two small tensors of one shape differ: trits that do, the first of them (None for none), and rows: how many
    there are, how many of A, of B and of both are all zero."""

    changed: int
    first: int | None
    rows: tuple[int, int, int, int]


def small_differences(pairs: Sequence[tuple[int, bytes, bytes]]) -> list[SmallDifference]:
    """How pairs of small tensors differ.

    :param pairs: of each the length of a row, and the codes of both in the one form
    """
    groups: dict[int, list[int]] = {}
    for i, (cols, _, _) in enumerate(pairs):
        groups.setdefault(cols, []).append(i)
    found: dict[int, SmallDifference] = {}
    for cols, members in groups.items():
        found.update(zip(members, _differences(cols, [pairs[i][1:] for i in members]), strict=True))
    return [found[i] for i in range(len(pairs))]


def _differences(cols: int, pairs: list[tuple[bytes, bytes]]) -> Iterator[SmallDifference]:
    """Those of tensors with rows of one length."""
    sizes = [len(one) for one, _ in pairs]
    starts = np.array([0, *islice(accumulate(sizes), len(sizes) - 1)])
    one, other = (np.frombuffer(b"".join(each), dtype=np.uint8) for each in zip(*pairs, strict=True))
    odd = one ^ other
    odd = (odd | odd >> np.uint8(1)) & np.uint8(0x55)
    changed = np.add.reduceat(_ODD_CODES[odd], starts)
    places = np.flatnonzero(odd)
    firsts = np.append(places, odd.size)[np.searchsorted(places, starts)]
    rows = [CODES_PER_BYTE * size // cols for size in sizes]
    zeros: list[list[int]]
    if cols % CODES_PER_BYTE:  # rows of no whole bytes are never called zero
        zeros = [[0] * len(pairs)] * 3
    else:
        width = cols // CODES_PER_BYTE
        empty, others = ((codes.reshape(-1, width) == ZEROS).all(axis=1) for codes in (one, other))
        each = (empty, others, empty & others)
        zeros = [np.add.reduceat(rows_of.astype(np.int64), starts // width).tolist() for rows_of in each]
    for i, (start, count, place) in enumerate(zip(starts.tolist(), changed.tolist(), firsts.tolist(), strict=True)):
        first = None
        if count:
            byte = int(odd[place])
            first = CODES_PER_BYTE * (place - start) + ((byte & -byte).bit_length() - 1) // 2
        yield SmallDifference(count, first, (rows[i], zeros[0][i], zeros[1][i], zeros[2][i]))
