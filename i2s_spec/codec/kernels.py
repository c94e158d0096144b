"""The compiled kernels called on whole payloads: the runs of a layout, threads, the way results are stored.

The kernels know layouts that are runs, with two parameters read off the formulas: bytes come in runs of `group`, and
the four codes of byte j of a run belong to the elements j, group + j, 2 group + j and 3 group + j of a block; the first
of them is in the top bits, or with `lsb` in the bottom ones. `is_runs` tells which layouts are; the others are left to
the definition. Nothing here looks at tails, shapes or policies: `native` does. `in_order` shares work among threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from i2s_spec.codec import _codec
from i2s_spec.codec.isa import chosen
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, CodeMap, Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

#: What the kernels call the meaning of a code: the code itself, or the trit of a code map.
CODES: Final = 0
MAP_IDS: Final = {CODE_MAPS[name]: number for number, name in enumerate(
    ("offset-1", "zero-first", "twos-complement", "offset-2"), 1)}  # fmt: skip

#: Schemes in which 128 elements are 32 bytes of their own, by what the kernels call them.
KINDS: Final = {(32, False): 0, (16, False): 1, (1, False): 2, (1, True): 3}
BLOCK_BYTES: Final = 32
BLOCK: Final = 128

#: How results are stored, as the kernels number it: plainly, past the cache, or plainly to lines that were asked for before.
PLAIN: Final = 0
PAST: Final = 1
OWNED: Final = 2
#: Whether this processor is one that owns lines faster than it stores past the cache; on it, the latter is never done.
OWNS: Final = _codec.owns()
#: From so many threads on it is: to own a line is to read it first, and together they would want more than memory gives.
OWN_BELOW: Final = 8
#: Results from this size on go past the cache: they would not stay in it anyway.
STREAM_FROM: Final = 16 << 20
#: Bytes of payload that are searched for a code and then unpacked, while they are in the cache.
SCANNED: Final = 1 << 18
#: Streaming stores want addresses that are multiples of this.
STREAM_STEP: Final = 16
#: No thread gets less than this many bytes of payload; starting one costs some tens of microseconds.
THREAD_BYTES: Final = 1 << 18

_NOTHING: Final = np.empty(0, dtype=np.uint8)

#: Lengths of runs that do not depend on the shape of the matrix.
_GROUPS: Final = (1, 2, 4, 8, 16, 32, 64, 128)


class RunLayout(NamedTuple):
    """Where a layout puts codes in a matrix: runs of `group` bytes, first element at the top or the bottom of a byte."""

    group: int
    lsb: bool

    @property
    def kind(self) -> int | None:
        """What the kernels call the layout if 128 elements are 32 bytes of their own in it."""
        return KINDS.get((self.group, self.lsb))


@lru_cache(maxsize=64)
def run_layout(layout: Layout, rows: int, cols: int) -> RunLayout:
    """Return the runs of a layout in a matrix, from its formulas: a run ends where the shift changes first.

    :raises ValueError: for a layout without runs, about which `is_runs` is asked before
    """
    first = layout.shift_of(0, rows, cols)
    for group in (*_GROUPS, cols, rows // 4 * cols):
        if group and layout.shift_of(group, rows, cols) != first == layout.shift_of(group - 1, rows, cols):
            return RunLayout(group, first == 0)
    raise ValueError(f"{layout} has no runs")


@cache
def is_runs(layout: Layout) -> bool:
    """Whether the formulas of a layout give the places that the kernels compute, in some small matrices."""
    for groups, blocks in ((1, 1), (2, 1), (3, 2)):
        rows, cols = groups * layout.row_block, blocks * layout.block
        try:
            group, lsb = run_layout(layout, rows, cols)
        except ValueError:
            return False
        k = np.arange(rows * cols)
        quarter = k % (4 * group) // group
        same = (layout.byte_of(k, rows, cols) == k // (4 * group) * group + k % group) & (
            layout.shift_of(k, rows, cols) == 2 * (quarter if lsb else 3 - quarter)
        )
        if not same.all():
            return False
    return True


def unpack(
    payload: Bytes, where: RunLayout, code_map: CodeMap | None, out: Bytes, threads: int, sought: int | None = None
) -> bool:
    """Unpack to a byte an element, the trit of a code map or the code; return whether the code `sought` occurs."""
    row, meaning = chosen().row, CODES if code_map is None else MAP_IDS[code_map]
    group, way = where.group, way_of(out, where, threads)
    seen: list[bool] = []

    def part(start: int, stop: int) -> None:
        step = max(1, stop - start if sought is None else SCANNED // group)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            src, dst = payload[first * group : last * group], out[4 * first * group : 4 * last * group]
            if sought is not None:
                seen.append(_codec.scan(row, src, sought))
            _codec.unpack(row, src, last - first, group, where.lsb, meaning, dst, way)

    _spread(part, payload.size // group, group, threads)
    return any(seen)


def pack(elements: Bytes, where: RunLayout, code_map: CodeMap | None, out: Bytes, threads: int) -> bool:
    """Pack one byte an element to payload; return False if one was no trit, or no code."""
    row, meaning = chosen().row, CODES if code_map is None else MAP_IDS[code_map]
    group, stream = where.group, way_of(out, where, threads) == PAST
    bad: list[bool] = []

    def part(start: int, stop: int) -> None:
        src, dst = elements[4 * start * group : 4 * stop * group], out[start * group : stop * group]
        bad.append(_codec.pack(row, src, stop - start, group, where.lsb, meaning, dst, stream))

    _spread(part, out.size // group, group, threads)
    return not any(bad)


def floats(
    payload: Bytes, where: RunLayout, code_map: CodeMap, scale: np.float32, out: NDArray[np.float32], threads: int
) -> None:
    """Write one float32 an element: the trit times the scale."""
    row, meaning = chosen().row, MAP_IDS[code_map]
    group, way = where.group, way_of(out.view(np.uint8), where, threads)

    def part(start: int, stop: int) -> None:
        src, dst = payload[start * group : stop * group], out[4 * start * group : 4 * stop * group]
        _codec.floats(row, src, stop - start, group, where.lsb, meaning, float(scale), dst, way)

    _spread(part, payload.size // group, group, threads)


def row_floats(
    payload: Bytes, code_map: CodeMap, scales: NDArray[np.float32], out: NDArray[np.float32], threads: int
) -> bool:
    """Write one float32 an element of interleave-128, the trit times the scale of its row; return whether any code is 3,
    whose results mean nothing."""
    row, meaning, width = chosen().row, MAP_IDS[code_map], payload.size // scales.size
    way = way_of(out.view(np.uint8), RunLayout(BLOCK_BYTES, False), threads)
    seen: list[bool] = []

    def part(start: int, stop: int) -> None:
        src, dst = payload[start * width : stop * width], out[4 * start * width : 4 * stop * width]
        seen.append(_codec.row_floats(row, src, meaning, scales[start:stop], dst, way))

    _spread(part, scales.size, width, threads)
    return any(seen)


def recode(
    payload: Bytes,
    rows: int,
    cols: int,
    source: Layout,
    target: Layout,
    codes: tuple[int, ...],
    out: Bytes,
    threads: int,
) -> None:
    """Recode one layout to another, and each code to `codes[code]`; only payload is read and written if both layouts are
    permutations of blocks or of rows that the kernels know."""
    of, to = run_layout(source, rows, cols), run_layout(target, rows, cols)
    row, remap, stream = chosen().row, remap_of(codes), way_of(out, to, threads) == PAST
    source_kind, target_kind = (0, 0) if of == to else (of.kind, to.kind)
    if source_kind is not None and target_kind is not None:
        between: tuple[int, int] = source_kind, target_kind
        whole = payload.size // BLOCK_BYTES

        def blocks(start: int, stop: int) -> None:
            at, end = start * BLOCK_BYTES, stop * BLOCK_BYTES
            _codec.blocks(row, payload[at:end], stop - start, *between, remap, out[at:end], stream)

        _spread(blocks, whole, BLOCK_BYTES, threads)
        if whole * BLOCK_BYTES < payload.size:
            _recode_rest(payload[whole * BLOCK_BYTES :], of, to, codes, out[whole * BLOCK_BYTES :])
        return

    # Four rows in the bytes of each column, to or from rows of whole blocks.
    shared, blocky = (source, to) if to.kind is not None else (target, of)
    kind = blocky.kind
    if shared.row_block == 4 and kind is not None and cols % BLOCK == 0:
        step = rows // 4 if not shared.in_gguf else 1
        lsb = (of if shared is source else to).lsb
        call = _codec.to_rows if shared is source else _codec.of_rows

        def groups(start: int, stop: int) -> None:
            call(row, payload, start, stop, cols, step, lsb, kind, remap, out, stream)

        _spread(groups, rows // 4, cols, threads)
        return

    elements = np.empty(rows * cols, dtype=np.uint8)
    unpack(payload, of, None, elements, threads)
    pack(np.array(codes, dtype=np.uint8)[elements] if remap.size else elements, to, None, out, threads)


def _recode_rest(payload: Bytes, of: RunLayout, to: RunLayout, codes: tuple[int, ...], out: Bytes) -> None:
    """Recode the rest after the last 32 bytes of payload, less than 128 elements, by way of their codes."""
    if of == to and of.group > payload.size:  # a part of one run: whatever the layout, codes stay where they are
        of = to = RunLayout(1, False)
    elements = np.empty(payload.size * CODES_PER_BYTE, dtype=np.uint8)
    unpack(payload, of, None, elements, 1)
    pack(np.array(codes, dtype=np.uint8)[elements], to, None, out, 1)


@cache
def remap_of(codes: tuple[int, ...]) -> Bytes:
    """Return the map of codes as the kernels take it: for either bit of the new code a polynomial over the bits of the old
    one, constant, high bit, low bit, both; empty where every code stays."""
    if codes == (0, 1, 2, 3):
        return _NOTHING
    coefficients = []
    for bit in (1, 0):
        zero, low, high, both = ((code >> bit) & 1 for code in codes)
        coefficients += [zero, zero ^ high, zero ^ low, zero ^ high ^ low ^ both]
    return np.array([0x55 * c for c in coefficients], dtype=np.uint8)


def histogram(payload: Bytes, threads: int) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs."""
    row = chosen().row
    counts: list[tuple[int, int, int, int]] = []
    _spread(lambda start, stop: counts.append(_codec.histogram(row, payload[start:stop])), payload.size, 1, threads)
    zero, one, two, three = map(sum, zip((0, 0, 0, 0), *counts, strict=True))
    return zero, one, two, three


def occurs(payload: Bytes, code: int, threads: int) -> bool:
    """Whether a code occurs at all."""
    row = chosen().row
    found: list[bool] = []
    _spread(lambda start, stop: found.append(_codec.scan(row, payload[start:stop], code)), payload.size, 1, threads)
    return any(found)


def way_of(out: Bytes, where: RunLayout, threads: int) -> int:
    """Return how a result is stored: past the cache if it is large enough and aligned, or owned."""
    if OWNS and threads < OWN_BELOW:
        return OWNED
    if out.size < STREAM_FROM or _codec.address(out) % STREAM_STEP:
        return PLAIN
    return PAST if where.group % BLOCK_BYTES == 0 or where.kind is not None else PLAIN


def _spread(part: Callable[[int, int], Any], count: int, unit_bytes: int, threads: int) -> None:
    """Call `part(start, stop)` for ranges that cover `count` units, in as many threads as there is work for."""
    threads = min(threads, count * unit_bytes // THREAD_BYTES, count)
    if threads <= 1:
        if count:
            part(0, count)
        return
    # Ranges begin at multiples of 64 units, so that no two threads write to one cache line.
    step = -(-count // threads)
    step = -(-step // 64) * 64 if count >= 64 * threads else step
    starts = range(0, count, step)
    with ThreadPoolExecutor(len(starts)) as pool:
        for done in [pool.submit(part, start, min(start + step, count)) for start in starts]:
            done.result()


# --- in order --------------------------------------------------------------------------------------------------------
# The parts of something, worked on in several threads; results come in the order of the parts.

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def thread_count(threads: int) -> int:
    """How many threads may work: at least one."""
    if threads < 1:
        raise ValueError(f"{counted(threads, 'thread does', 'threads do')} nothing; at least 1 is needed")
    return threads


def in_order(
    function: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int = 1
) -> Iterator[_Result]:  # fmt: skip
    """Yield the results of a function for each part, in order.

    Parts are taken from their iterator by the caller's thread, so that what reads them need not be safe for threads. No
    more than two for each thread are under way, whatever their number. A single part is worked on in the caller's thread:
    to start another for each of thousands of small tensors takes longer than the work.

    :param threads: how many threads work; with 1 all happens in the caller's
    :raises ValueError: for fewer threads than 1; else what the function raises, at the part that it raises for
    """
    threads, parts = thread_count(threads), iter(parts)
    first = list(islice(parts, 2 if threads > 1 else 0))
    if len(first) < 2:
        yield from map(function, chain(first, parts))
        return

    under_way: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for part in chain(first, parts):
                under_way.append(pool.submit(function, part))
                if len(under_way) >= 2 * threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()
