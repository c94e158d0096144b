"""Lines of styled pieces: plain text to a pipe or a file, on a terminal in color and cut to its width.

Text that comes from a file must have been escaped before it becomes a `Piece`. `table` makes such lines of rows:

    >>> from i2s_spec.draw.terminal import plain
    >>> columns = (Column("name"), Column("bytes", right=True))
    >>> for line in table(columns, [("a.weight", "12"), ("b", "4,096")]): print(plain(line))
      name      bytes
      a.weight     12
      b         4,096

`sparkline` and `shares` draw values as a line of characters:

    >>> sparkline([1, 2, None, 4], 1, 4, blocks=True), sparkline([1, 2, None, 4], 1, 4, blocks=False)
    ('▁▃ █', '_- #')
    >>> shares([1, 2, 1, 0], 8, blocks=False)
    '--0000++'
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TextIO

from i2s_spec.draw.text import cut, encodable, width


class Piece(NamedTuple):
    """Text with one style of rich, such as `bold`, `dim`, `cyan`, `red`."""

    text: str
    style: str = ""


#: One line of output.
Line = Sequence[Piece]


def plain(line: Line) -> str:
    """Return a line without its styles and without trailing spaces."""
    return "".join(piece.text for piece in line).rstrip(" ")


def columns(stream: TextIO) -> int | None:
    """Width of the terminal to which a stream writes; None for anything else, where lines are never cut."""
    return shutil.get_terminal_size().columns if _is_terminal(stream) else None


def write(lines: Iterable[Line], stream: TextIO) -> None:
    """Write lines to a stream as they come; on a terminal with color (unless NO_COLOR is set) and cut to its width."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if _is_terminal(stream) and encoding.lower().startswith("utf"):
        from rich.console import Console
        from rich.text import Text

        console = Console(file=stream, highlight=False, markup=False, emoji=False)
        for line in lines:
            text = Text.assemble(*((piece.text, piece.style) for piece in line))
            console.print(text, no_wrap=True, overflow="ellipsis")
        return
    for line in lines:
        stream.write(encodable(plain(line), stream) + "\n")


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


# --- table -----------------------------------------------------------------------------------------------------------
# Aligned columns of plain text, as wide as their contents or as a terminal allows.
#
# Cells are text that is escaped already; their widths are counted in columns of a terminal.

#: Smallest width to which a column is shortened.
NARROWEST: Final = 16

_GAP: Final = "  "


class Column(NamedTuple):
    """One column: its title, whether it is aligned to the right, and whether it is shortened if a line is too long.

    A column is shortened by leaving out the middle of its cells; in the last column, the end.
    """

    title: str
    right: bool = False
    gives: bool = False
    style: str = ""


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], available: int | None = None, indent: int = 2
) -> Iterator[Line]:
    """Yield the lines of a table, its titles first.

    :param rows: cells that are escaped already; a row of one cell is a remark across all columns
    :param available: columns of the terminal, if the table must fit
    """
    retained = list(rows)
    widths = [width(column.title) for column in columns]
    for row in retained:
        if len(row) > 1:
            widths = [max(known, width(cell)) for known, cell in zip(widths, row, strict=True)]
    if available is not None:
        over = indent + sum(widths) + len(_GAP) * (len(widths) - 1) - available
        for i in reversed(range(len(columns))):
            if columns[i].gives and over > 0:
                narrowed = max(min(widths[i], NARROWEST), widths[i] - over)
                over -= widths[i] - narrowed
                widths[i] = narrowed

    yield _line([column.title for column in columns], columns, widths, indent, "bold")
    for row in retained:
        yield [Piece(" " * indent + row[0], "dim")] if len(row) == 1 else _line(row, columns, widths, indent)


def _line(
    cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int], indent: int, style: str | None = None
) -> Line:
    pieces = [Piece(" " * indent)]
    for i, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        last = i == len(columns) - 1
        text = cut(cell, widths[i], middle=not last) if width(cell) > widths[i] else cell
        space = " " * (widths[i] - width(text))
        shown = space + text if column.right else text if last else text + space
        pieces.append(Piece((_GAP if i else "") + shown, column.style if style is None else style))
    return pieces


# --- sparkline -------------------------------------------------------------------------------------------------------
# Blocks if the stream can encode them, else ASCII.

#: Characters by ascending value.
BLOCKS: Final = "▁▂▃▄▅▆▇█"
ASCII: Final = "_.-=+*%#"

#: The character for a value that the axis cannot show.
ODD: Final = "!"

#: Characters of the codes for -1, 0, +1 and the one without a meaning.
SHARE_BLOCKS: Final = "█░▓!"
SHARE_ASCII: Final = "-0+!"


def sparkline(values: Sequence[float | None], low: float, high: float, *, blocks: bool) -> str:
    """Values on a linear axis, one character each; None is a blank, and a value that is not finite is `!`."""
    signs = BLOCKS if blocks else ASCII
    made = ""
    for value in values:
        if value is None:
            made += " "
        elif not math.isfinite(value):
            made += ODD
        else:
            share = (value - low) / (high - low) if high > low else 0.0
            made += signs[min(len(signs) - 1, max(0, math.floor(share * (len(signs) - 1) + 0.5)))]
    return made


def shares(counts: Sequence[int], width: int, *, blocks: bool) -> str:
    """Parts of a whole as runs of characters, together `width` long; a part that is not 0 has at least one character."""
    whole = sum(counts)
    if not whole:
        return " " * width
    ends = [round(width * end / whole) for end in accumulate(counts)]
    lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    for place, count in enumerate(counts):
        if count and not lengths[place]:
            lengths[place] += 1
            lengths[lengths.index(max(lengths))] -= 1
    signs = SHARE_BLOCKS if blocks else SHARE_ASCII
    return "".join(sign * length for sign, length in zip(signs, lengths, strict=False))
