"""The extent of every tensor: the bytes from its start to the start of the next one.

In most files every extent is the padded size of its tensor, and no rule has anything to report. The other extents are
classified here once for all rules: by the mistake about the size that explains them, as too large, or by their padding.
"""

import os
import struct
from array import array
from collections.abc import Iterator, MutableSequence
from functools import lru_cache
from itertools import chain, islice
from math import prod

from i2s_spec.codec.buffers import numbers
from i2s_spec.gguf.placement import Extent, Placement
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.types import I2_S, I2_S_BLOCK, TAIL_BYTES, padded

#: Range of the scales of trained models, with a margin of a power of ten or more on either side: the float32 1e-4 to 1e2.
USUAL = (9.999999747378752e-05, 1e2)

#: Codes of I2_S in a byte, and how many rows are checked for a scale before the codes.
CODES_PER_BYTE, ROWS = 4, 8

#: Most holes of a sparse file that are examined.
HOLES = 64

#: Elements of one block of the canonical layout, `interleave-128`.
BLOCK = I2_S_BLOCK


class ExtentAnomalies:
    """The extents that rules examine, as positions in the order of the offsets: there may be very many."""

    def __init__(self) -> None:
        #: Extents that a mistake about the tensor's size explains, by the mistake; and the rows of their tensors.
        self.mis_sized: dict[str, MutableSequence[int]] = {}
        self.rows: set[int] = set()
        #: Extents that are larger than the padded size of the tensor for another reason.
        self.oversized = array("q")
        #: The number of bytes after the padded tensor in the largest of them.
        self.largest_gap = 0
        #: Extents with padding after the tensor whose size is right.
        self.padding = array("q")


@analysis
def extent_anomalies(subject: LintContext) -> ExtentAnomalies:
    """Return the extents of a file that rules examine."""
    step, placements = subject.effective_alignment, subject.placements
    found = ExtentAnomalies()
    covered = 0  # where the tensors before this one end: bytes that they cover are neither padding nor a gap
    ends = chain((placement.offset for placement in islice(placements, 1, None)), (subject.data_size,))
    for place, (placement, end) in enumerate(zip(placements, ends, strict=False)):
        size, allotted = placement.size, end - placement.offset
        if not size:
            continue
        whole = -(-size // step) * step
        before, covered = covered, max(covered, placement.offset + size)
        if allotted != whole:
            mistake = size_mistake(subject, placement, allotted)
            if mistake is not None:
                found.mis_sized.setdefault(mistake, array("q")).append(place)
                found.rows.add(placement.row)
                continue
            if allotted > whole and before < end:
                found.oversized.append(place)
                found.largest_gap = max(found.largest_gap, allotted - whole)
        if size < whole and size < allotted and before <= placement.offset + size:
            found.padding.append(place)
    return found


def mis_sized(subject: LintContext, mistake: str) -> Iterator[Extent]:
    """Return the extents that a mistake about the tensor's size explains."""
    return subject.extents_of(extent_anomalies(subject).mis_sized.get(mistake, ()))


def oversized(subject: LintContext) -> Iterator[Extent]:
    """Return the extents that are larger than the padded size of the tensor for another reason."""
    return subject.extents_of(extent_anomalies(subject).oversized)


def padding(subject: LintContext) -> Iterator[Extent]:
    """Return the extents with padding after the tensor whose size is right."""
    return subject.extents_of(extent_anomalies(subject).padding)


def size_mistake(subject: LintContext, placement: Placement, allotted: int) -> str | None:
    """Return the mistake about an I2_S tensor's size that explains the distance to the next tensor, if one does.

    `no-tail`: the writer left out (a part of) the 32 bytes; `unpacked`: one byte for each weight; `whole-blocks`:
    payload padded to blocks of 128; `row-scales`: every row begins with a scale; `chunks`: every chunk of a threaded
    quantizer wrote its own tail.
    """
    size = placement.size
    if (
        placement.number != I2_S.number
        or size is None
        or allotted <= 0
        or allotted == padded(size, subject.effective_alignment)
    ):
        return None
    ne, step = subject.file.index.tensor(placement.row).ne, subject.effective_alignment
    mistake, may_be_rows, may_be_chunks = _by_numbers(ne, size, allotted, step)
    if may_be_rows and row_scales(subject, placement, allotted):
        return "row-scales"
    return "chunks" if may_be_chunks and chunks(subject, placement, allotted) else mistake


@lru_cache(maxsize=1024)  # many tensors are alike
def _by_numbers(ne: tuple[int, ...], size: int, allotted: int, step: int) -> tuple[str | None, bool, bool]:
    """Return the mistake that sizes alone show; else whether to search the bytes for row scales and for chunks."""
    payload, n = size - TAIL_BYTES, prod(ne)
    if payload <= allotted < size:
        return "no-tail", False, False
    if allotted == padded(n, step):
        return "unpacked", False, False
    if allotted == padded(-(-n // BLOCK) * TAIL_BYTES + TAIL_BYTES, step):
        return "whole-blocks", False, False
    extra = allotted - payload
    return None, prod(ne[1:]) >= ROWS, extra >= 2 * TAIL_BYTES and extra % TAIL_BYTES == 0


def row_scales(subject: LintContext, placement: Placement, allotted: int) -> tuple[int, int] | None:
    """Return the number of rows, and the bytes of the float before each, that explain the extent of an I2_S tensor,
    if they do.

    The extent alone is not enough: some rows must begin with a float like the scales of trained models.
    """
    ne = subject.file.index.tensor(placement.row).ne
    rows, row = prod(ne[1:]), ne[0] // CODES_PER_BYTE
    prefix = order_prefix(subject.file.byte_order)
    for width, form in ((4, "f"), (2, "e")):
        whole = rows * (row + width)
        if ne[0] % CODES_PER_BYTE or rows < ROWS or allotted != padded(whole, subject.effective_alignment):
            continue
        start = (subject.file.data_start or 0) + placement.offset
        if start + whole > subject.file.size:
            continue
        places = (start + rows * number // ROWS * (row + width) for number in range(ROWS))
        scales = [struct.unpack(prefix + form, subject.file.source.read(at, width))[0] for at in places]
        if all(scale > 0 and USUAL[0] <= scale <= USUAL[1] for scale in scales):
            return rows, width
    return None


def chunks(subject: LintContext, placement: Placement, allotted: int) -> int:
    """Return the number of chunks, each with a tail, that explains the extent of an I2_S tensor; 0 if none does.

    A threaded quantizer splits a tensor by rows, so there are no more chunks than rows, and the bytes after the proper
    end are the rest of the weights, not zeros. The first chunk has its scale after its codes: without a scale there, an
    extent that is longer by more than one further tail is a gap with other contents.
    """
    ne = subject.file.index.tensor(placement.row).ne
    n = prod(ne)
    extra = allotted - n // 4
    count = extra // TAIL_BYTES
    if (
        extra % TAIL_BYTES
        or not 2 <= count <= prod(ne[1:])
        or allotted <= padded(n // 4 + TAIL_BYTES, subject.effective_alignment)
    ):
        return 0
    start = (subject.file.data_start or 0) + placement.offset + n // 4 + TAIL_BYTES
    stop = min(start + extra - TAIL_BYTES, subject.file.size)
    if start >= stop:  # the file is cut before them
        return 0
    if not any(subject.file.source.read(start, min(stop - start, 4096))):
        return 0
    return count if count == 2 or _scale_of_chunk(subject, placement, -(-prod(ne[1:]) // count)) else 0


def _scale_of_chunk(subject: LintContext, placement: Placement, rows: int) -> bool:
    """Whether a scale like those of trained models follows the codes of a tensor's first rows."""
    ne = subject.file.index.tensor(placement.row).ne
    at = (subject.file.data_start or 0) + placement.offset + rows * ne[0] // CODES_PER_BYTE
    data = subject.file.source.read(at, 4) if at + 4 <= subject.file.size else b""
    return len(data) == 4 and USUAL[0] <= numbers("f", data, subject.file.byte_order)[0] <= USUAL[1]


@analysis
def holes(subject: LintContext) -> list[tuple[int, int]]:
    """Return the first few holes of a sparse file in its data section, without the implicit hole at the end of the
    file.
    """
    descriptor = getattr(subject.file.source, "fileno", None)
    start, size = subject.file.data_start, subject.file.size
    if descriptor is None or start is None or not hasattr(os, "SEEK_HOLE") or not subject.placements:
        return []
    found: list[tuple[int, int]] = []
    try:
        while start < size and len(found) < HOLES:
            hole = os.lseek(descriptor(), start, os.SEEK_HOLE)
            if hole >= size:
                break
            try:
                start = os.lseek(descriptor(), hole, os.SEEK_DATA)
            except OSError:
                start = size  # a hole up to the end
            found.append((hole, start))
    except OSError:
        pass  # this file system does not report holes
    return found
