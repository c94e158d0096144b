"""This module draws bytes as rows of hex and ASCII in which a byte is always in the column of its address.

Rows begin at multiples of their width; columns of other bytes stay empty, so that the rows of neighboring fields are
aligned.

    >>> for row in rows(b"GGUF\\x03", 0x1e, 8): print(f"{row.address:04x}  {row.hex}  |{row.ascii}|")
    0018                    47 47  |      GG|
    0020  55 46 03                 |UF.     |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class HexRow(NamedTuple):
    """One row: the address of its first column, hex and ASCII of full width, and which columns are filled."""

    address: int
    hex: str
    ascii: str
    first: int
    last: int


def rows(data: bytes, start: int, width: int = 16) -> Iterator[HexRow]:
    """The rows of bytes from `start` on.

    :param width: bytes in a row
    """
    stop = start + len(data)
    for address in range(start // width * width, stop if data else 0, width):
        first, last = max(start - address, 0), min(stop - address, width)
        part = data[address + first - start : address + last - start]
        before, after = first, width - last
        shown = "   " * before + part.hex(" ") + "   " * after
        yield HexRow(address, shown, " " * before + ascii_of(part) + " " * after, first, last)


def ruler(width: int = 16) -> HexRow:
    """The row that heads a dump: the last digit of the address of each column."""
    digits = [f"{i:x}"[-1] for i in range(width)]
    return HexRow(0, "  ".join(digits).rjust(3 * width - 1), "".join(digits), 0, width)


def blank(width: int = 16) -> HexRow:
    """A row in which no byte is shown."""
    return HexRow(0, " " * (3 * width - 1), " " * width, 0, 0)


def ascii_of(data: bytes) -> str:
    """Bytes as ASCII; a byte that is not printable ASCII is a dot."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def digits_for(size: int) -> int:
    """The number of hex digits for addresses of a file of this size: at least four, always even."""
    return max(4, (len(f"{size:x}") + 1) // 2 * 2)


def hexdump(data: bytes, start: int = 0, width: int = 16) -> str:
    """A whole hex dump as text: addresses, hex, ASCII; for messages, pages and examples."""
    digits = digits_for(start + len(data))
    return "\n".join(f"{row.address:0{digits}x}  {row.hex}  |{row.ascii}|" for row in rows(data, start, width))
