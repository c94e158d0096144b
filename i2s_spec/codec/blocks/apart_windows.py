"""This module reads and writes windows of a tensor whose scales are behind all codes: each window is such a tensor itself.

A window of rows has their codes, their scales, and 32 zeros. Its place is given as if each row had its scale beside its
codes, so that windows follow each other without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from i2s_spec.schema.block_layout import BlockLayout
from i2s_spec.schema.types import TAIL_BYTES


def fetching(
    layout: BlockLayout, rows: int, cols: int, read: Callable[[int, int], bytes]
) -> Callable[[int, int], bytes]:
    """Gives windows from one place to another, both of whole rows.

    :param layout: with scales that are apart
    :param read: gives so many bytes of the tensor, from an offset on
    """
    codes, scale = cols // layout.block * layout.nbytes, layout.scale.nbytes

    def fetch(start: int, stop: int) -> bytes:
        first, last = start // (codes + scale), stop // (codes + scale)
        count = last - first
        return (
            read(first * codes, count * codes) + read(rows * codes + first * scale, count * scale) + bytes(TAIL_BYTES)
        )

    return fetch


def in_file_order(layout: BlockLayout, cols: int, windows: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of the whole tensor, of windows in order: the codes of all, then the scales, then 32 zeros.

    Of a layout whose scales are not apart, the windows as they are.
    """
    if not layout.scale.apart:
        yield from windows
        return
    codes, scales = cols // layout.block * layout.nbytes, bytearray()
    for data in windows:
        split = (len(data) - TAIL_BYTES) // (codes + layout.scale.nbytes) * codes
        scales += data[split:-TAIL_BYTES]
        yield data[:split]
    yield bytes(scales)
    yield bytes(TAIL_BYTES)
