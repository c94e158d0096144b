"""The kernels of the block types in NumPy, where `pyx/_blocks.pyx` is not compiled (`_cpu`)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import blocks as definition
from i2s_spec.codec.portable import portable_needs, portable_sets
from i2s_spec.schema.blocks import FOURTH_CODE, BlockLayout, block_layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

#: The types in the order of their numbers (`observation.KINDS`).
_TYPES: Final = ("Q2_0", "Q2_0_G128", "TQ2_0", "IQ2_BN", "TQ1_0", "PTQ1_0", "IQ1_BN")
#: Elements that are looked at together.
_WINDOW: Final = 1 << 18

kernel_sets, kernel_needs = portable_sets, portable_needs


def kinds() -> list[tuple[int, int, int]]:
    """Return the elements and bytes of a block, and the place of its scale (-1: a row has it), of each kind."""
    layouts = [_layout(kind) for kind in range(len(_TYPES))]
    return [(each.block, each.nbytes, each.scale.offset if each.scale.per == "block" else -1) for each in layouts]


@cache
def _layout(kind: int) -> BlockLayout:
    return block_layout(_TYPES[kind])


def _windows(
    kind: int, src: Any, rows: int, blocks: int, front: int
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.uint8], slice]]:
    """Yield parts of a matrix: the scales of rows or blocks [units, bytes], blocks [units, blocks, bytes], and which
    elements."""
    layout = _layout(kind)
    if layout.scale.per == "row":
        units = np.asarray(src).reshape(rows, front + blocks * layout.nbytes)
        scales, held = units[:, :front], units[:, front:].reshape(rows, blocks, layout.nbytes)
    else:
        held = np.asarray(src).reshape(rows * blocks, 1, layout.nbytes)
        scales = held[:, 0, layout.scale.offset : layout.scale.offset + layout.scale.nbytes]
    size = held.shape[1] * layout.block
    step = max(1, _WINDOW // max(1, size))
    for start in range(0, len(held), step):
        stop = min(start + step, len(held))
        yield scales[start:stop], held[start:stop], slice(start * size, stop * size)


def _scales(kind: int, raw: NDArray[np.uint8], swap: bool) -> NDArray[np.float32]:
    """Return scales from their bytes, float32 [units]."""
    dtype = definition.scale_dtype(_layout(kind), "big" if swap else "little")
    return np.ascontiguousarray(raw).view(dtype).reshape(-1).astype(np.float32)


def unpack(
    row: int, kind: int, src: Any, rows: int, blocks: int, front: int, dst: Any, stream: bool, swap: bool, scales: Any
) -> bool:
    """Unpack rows of blocks to one int8 an element, code - 1, and the scales of blocks, if `scales` has room.

    :returns: True where a code is 3
    """
    seen, at = False, 0
    for raw, held, where in _windows(kind, src, rows, blocks, front):
        codes = definition.codes_of_blocks(held, _layout(kind)).reshape(-1)
        seen = bool(np.any(codes == FOURTH_CODE)) or seen
        np.asarray(dst)[where] = codes - 1
        if len(scales):
            np.asarray(scales)[at : at + len(raw)] = _scales(kind, raw, swap)
            at += len(raw)
    return seen


def pack(
    row: int, kind: int, src: Any, rows: int, blocks: int, front: int, scales: Any, each: int, most: int, dst: Any,
    stream: bool,
) -> bool:  # fmt: skip
    """Pack one int8 an element to rows of blocks, with scales `each` bytes apart, 0 for one of all.

    :returns: True where a value has no code
    """
    layout, values, given = _layout(kind), np.asarray(src), np.asarray(scales)
    bad, at = False, 0
    for raw, held, where in _windows(kind, dst, rows, blocks, front):
        part = values[where]
        bad = bool(((part < -1) | (part > most)).any()) or bad
        codes = (part.astype(np.int16) + 1 & 3).reshape(*held.shape[:2], layout.block)
        held[...] = definition.blocks_of_codes(codes, layout)
        width = raw.shape[1]
        raw[...] = given[at * each : (at + len(raw)) * each].reshape(-1, width) if each else given[:width]
        at += len(raw)
    return bad


def floats(
    row: int, kind: int, src: Any, rows: int, blocks: int, front: int, swap: bool, dst: Any, stream: bool
) -> bool:
    """Unpack rows of blocks to one float32 an element; True where a code is 3."""
    seen = False
    for raw, held, where in _windows(kind, src, rows, blocks, front):
        codes = definition.codes_of_blocks(held, _layout(kind)).reshape(len(raw), -1)
        seen = bool(np.any(codes == FOURTH_CODE)) or seen
        with np.errstate(all="ignore"):
            np.asarray(dst)[where] = ((codes - 1).astype(np.float32) * _scales(kind, raw, swap)[:, None]).reshape(-1)
    return seen


def count(row: int, kind: int, src: Any, rows: int, blocks: int, front: int) -> tuple[int, int, int]:
    """Return how often bit 0, bit 1 and both bits of a code are set."""
    found = np.zeros(4, dtype=np.int64)
    for _, held, _ in _windows(kind, src, rows, blocks, front):
        found += np.bincount(definition.codes_of_blocks(held, _layout(kind)).reshape(-1), minlength=4)
    _, one, two, three = (int(each) for each in found)
    return one + three, two + three, three


def scales(kind: int, src: Any, blocks: int, swap: bool, dst: Any) -> None:
    """Write the scale of each block, float32."""
    layout = _layout(kind)
    raw = np.asarray(src).reshape(blocks, layout.nbytes)
    np.asarray(dst)[:] = _scales(kind, raw[:, layout.scale.offset : layout.scale.offset + layout.scale.nbytes], swap)
