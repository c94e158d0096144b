"""This module draws the bytes that prove a finding: rows of a hex dump, with carets under the bytes of its span."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from i2s_spec.draw.hexdump import digits_for, rows
from i2s_spec.errors import counted

#: The marks under a byte of the finding, and between two such bytes.
CARETS = "^^"
BETWEEN = "~"


def proof(finding: Mapping[str, Any], size: int | None, width: int = 16) -> Iterator[str]:
    """The lines of a finding's excerpt, in printable ASCII; empty if the report holds no bytes.

    :param finding: a finding as plain data
    :param size: size of the file, which decides the width of addresses
    :param width: bytes in a row
    """
    excerpt = finding["bytes"]
    if excerpt is None:
        return
    data = bytes.fromhex(excerpt["hex"])
    start, stop = finding["span"]["start"], finding["span"]["stop"]
    digits = digits_for(size or excerpt["start"] + len(data))
    for row in rows(data, excerpt["start"], width):
        yield f"{row.address:0{digits}x}  {row.hex}  |{row.ascii}|"
        first, last = max(start - row.address, row.first), min(max(stop, start + 1) - row.address, width)
        if first < last:
            yield (" " * (digits + 2 + 3 * first) + BETWEEN.join([CARETS] * (last - first))).rstrip()
        elif start == stop == row.address + width:  # the span is empty and begins at the end of the row
            yield " " * (digits + 2 + 3 * width) + CARETS
    hidden = stop - (excerpt["start"] + len(data))
    if hidden > 0:
        yield " " * (digits + 2) + f"... {counted(hidden, 'more byte')}"
